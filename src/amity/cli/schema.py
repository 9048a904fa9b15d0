"""`amity data schema`: what each column of one's own tables is, what is done with it, and the file that says so."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amity.cli.flags import with_log_options
from amity.cli.table_options import LABEL, SCHEMA, tables_of, with_table_options
from amity.config.run import Run
from amity.errors import InputError

if TYPE_CHECKING:
    from amity.data.schema.account import ColumnAccount
    from amity.data.schema.table_schema import TableSchema

_log = logging.getLogger("amity.cli")


@with_log_options
@with_table_options
def schema_command(
    folder: Annotated[str, typer.Argument(metavar="folder:PATH", help="silos that are tables", show_default=False)],
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="TOML file to write the schema to, for --schema")
    ] = None,
    *,
    tables: dict[str, Any],
) -> None:
    """Show what each column of one's own tables is, and what is done with it.

    Silos agree on it by small summaries of their training rows. With --out, it becomes a file to edit and to share.
    """
    _show_schema(tables_of(**tables, data=folder), out)


def _show_schema(run: Run, out: str | None) -> None:
    from amity.data.sets.load import survey

    _log.info("reading %s", run.data)
    found = survey(
        run.data,
        seed=run.seed,
        test_fraction=run.test_fraction,
        labels=run.labels,
        label=None if run.label == LABEL else run.label,
        drop=run.dropped,
        schema=None if run.schema == SCHEMA else run.schema,
        scale=run.scale,
    )
    if out is not None:
        _write_schema(found.schema, out)
    print(account_table(found.account))
    print(f"{len(found.schema.features):,} features: {', '.join(found.schema.features)}")
    for note in found.notes:
        if not note.startswith("left out"):  # which the table says
            print(f"note: {note}")
    for conflict in found.conflicts:
        print(f"to be decided: {conflict}")
    if out is not None:
        print(f"wrote {out}: edit it, then give it with --schema {out}")


def _write_schema(schema: TableSchema, out: str) -> None:
    from pathlib import Path

    from amity.data.schema.schema_file import schema_text
    from amity.record.files import replace

    place, text = Path(out), schema_text(schema).encode()
    try:
        if place.is_file() and place.read_bytes() != text:
            raise InputError(f"{out} is there already and differs, edited perhaps: give another --out, or remove it")
        replace(place, text)
    except OSError as error:
        raise InputError(f"cannot write {out} ({error.strerror or error}): choose another place") from None


def account_table(account: Sequence[ColumnAccount]) -> str:
    """Return what is done with each column as a table of text."""
    rows = [("column", "kind", "missing", "what is done", "why")]
    for one in account:
        share = "" if one["missing"] is None else f"{one['missing']:.0%}" if one["missing"] else "-"
        rows.append((_short(one["column"]), one["kind"], share, _short(one["done"], 70), one["why"]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _short(text: str, most: int = 30) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
