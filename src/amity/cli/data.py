"""`amity data ...`: list the data sets, fetch them, and verify that the files at hand are whole."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from amity.cli.flags import DataDir, Json, joined, with_log_options
from amity.cli.progress import shown_fetching
from amity.config.options import fields_of, parse
from amity.config.run import Run
from amity.errors import InputError, InputErrors, several

if TYPE_CHECKING:
    from amity.data import Source
    from amity.data.schema.account import ColumnAccount
    from amity.data.schema.table_schema import TableSchema
    from amity.data.sets.entry import SourceEntry

app = typer.Typer(
    help="Data sets: list them, fetch them, verify the files at hand.",
    rich_markup_mode=None,
)

Labels = Annotated[
    str, typer.Option("--labels", metavar="auto|classes|quantities", help="what the labels of folder:PATH are")
]
LABELS = str(fields_of(Run)["labels"].default)
Label = Annotated[str, typer.Option("--label", metavar="COLUMN", help="column of the labels in tables of folder:PATH")]
LABEL = str(fields_of(Run)["label"].default)
Dropped = Annotated[
    list[str] | None,
    typer.Option("--drop-column", metavar="COLUMN", help="column of such tables to leave out; may be repeated"),
]
Schema = Annotated[
    str, typer.Option("--schema", metavar="FILE", help="schema file that says what each column of such tables is")
]
SCHEMA = str(fields_of(Run)["schema"].default)
Scale = Annotated[
    str, typer.Option("--scale", metavar="auto|none", help="whether numbers of such tables are scaled, over all silos")
]
SCALE = str(fields_of(Run)["scale"].default)
TestFraction = Annotated[
    str, typer.Option("--test-fraction", metavar="X", help="held out by silos of folder:PATH and heart")
]
TEST_FRACTION = str(fields_of(Run)["test_fraction"].default)
Seed = Annotated[str, typer.Option("--seed", metavar="N", help="seed of the split")]
SEED = str(fields_of(Run)["seed"].default)
NAMED = 20  # classes that are told by name

_log = logging.getLogger("amity.cli")


@app.callback(invoke_without_command=True)
@with_log_options
def top(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
@with_log_options
def list_command(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the data sets, and whether their files are at hand."""
    from amity.data import SOURCES

    listing({name: _row(entry, data_dir, as_json) for name, entry in SOURCES.items()}, as_json)
    print_problems(SOURCES.problems())


def print_problems(lines: list[str]) -> None:
    """Say on standard error which packages cannot add to a list: what a program reads stays clean."""
    for line in lines:
        print(f"note: {line}", file=sys.stderr)


def _row(entry: SourceEntry, data_dir: str | None, as_json: bool) -> dict[str, Any]:
    found = entry.find(data_dir)
    row = {"classes": entry.classes, "shape": list(entry.shape), "description": entry.description}
    if not as_json:
        here = "no" if found is None else "a subset" if found.layout.subset else "yes"
        return {**row, "at hand": entry.origin if entry.official is None else here}
    official = entry.official
    published = official.layouts[0].files if official else ()
    files = [{"name": file.name, "urls": list(file.urls), "digest": file.digest} for file in published]
    paths = [str(path) for path in found.paths] if found else []
    licence = official.licence if official else None
    return {"title": entry.title, **row, "licence": licence, "files": files, "found": paths}


@app.command("fetch")
@with_log_options
def fetch_command(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="see `amity data list`", show_default=False)],
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", metavar="DIR", help="where to put them [default: the user cache]")
    ] = None,
) -> None:
    """Fetch data sets from their official addresses.

    A file is kept when all of it has come and its checksum is right.
    """
    _fetch(_entries(names), data_dir)


def _fetch(entries: list[SourceEntry], data_dir: str | None) -> None:
    from amity.data.sets.fetch import fetch_into
    from amity.data.sets.files import user_cache

    for entry in entries:
        if entry.official is None:
            print(f"{entry.name}: {entry.origin}, nothing to fetch")
            continue
        with shown_fetching() as notify:
            paths = fetch_into(entry, data_dir, notify)
        _log.info("%s: wrote %s", entry.name, ", ".join(map(str, paths)) or "nothing")
        print(f"{entry.name}: {', '.join(map(str, paths)) or 'complete, nothing to fetch'}")
        found = entry.find(data_dir)
        if paths and found and found.paths[0].parent not in {path.parent for path in paths}:
            first = found.paths[0].parent
            print(f"  note: runs read {first} first: give them --data-dir {user_cache()} for these files")


@app.command("verify")
@with_log_options
def verify_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="data sets or folder:PATH [default: all at hand]", show_default=False),
    ] = None,
    labels: Labels = LABELS,
    label: Label = LABEL,
    dropped: Dropped = None,
    schema: Schema = SCHEMA,
    scale: Scale = SCALE,
    data_dir: DataDir = None,
) -> None:
    """Check the files at hand against what was published.

    Reads everything anew, counts it and reports incomplete files.
    """
    from amity.data import SOURCES
    from amity.data.source import FOLDER

    _entries([name for name in names or [] if not name.startswith(FOLDER)])
    at_hand = names or [name for name, entry in SOURCES.items() if entry.find(data_dir)]
    _verify(at_hand, data_dir, tables_of(labels, label, dropped, schema=schema, scale=scale))


@app.command("schema")
@with_log_options
def schema_command(
    folder: Annotated[str, typer.Argument(metavar="folder:PATH", help="silos that are tables", show_default=False)],
    labels: Labels = LABELS,
    label: Label = LABEL,
    dropped: Dropped = None,
    schema: Schema = SCHEMA,
    scale: Scale = SCALE,
    test_fraction: TestFraction = TEST_FRACTION,
    seed: Seed = SEED,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="TOML file to write the schema to, for --schema")
    ] = None,
) -> None:
    """Show what each column of one's own tables is, and what is done with it.

    Silos agree on it by small summaries of their training rows. With --out, it becomes a file to edit and to share.
    """
    wanted = {"data": folder, "schema": schema, "scale": scale, "test_fraction": test_fraction, "seed": seed}
    _schema(tables_of(labels, label, dropped, **wanted), out)


def _schema(run: Run, out: str | None) -> None:
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
    print(account_table(found.account))
    print(f"{len(found.schema.features):,} features: {', '.join(found.schema.features)}")
    for note in found.notes:
        if not note.startswith("left out"):  # which the table says
            print(f"note: {note}")
    for conflict in found.conflicts:
        print(f"to be decided: {conflict}")
    if out is not None:
        _write_schema(found.schema, out)


def _write_schema(schema: TableSchema, out: str) -> None:
    from pathlib import Path

    from amity.data.schema.schema_file import schema_text
    from amity.record.files import replace

    try:
        replace(Path(out), schema_text(schema).encode())
    except OSError as error:
        raise InputError(f"cannot write {out} ({error.strerror or error}): choose another place") from None
    print(f"wrote {out}: edit it, then give it with --schema {out}")


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


def tables_of(labels: str, label: str, dropped: list[str] | None, **more: str) -> Run:
    """Return the run whose options say how one's own tables are read."""
    wanted = {"labels": labels, "label": label, **more}
    if dropped:
        wanted["drop_column"] = joined(dropped)
    return Run(**{key: parse(Run, key, text) for key, text in wanted.items()})


def _verify(names: list[str], data_dir: str | None, run: Run) -> None:
    from amity.data import SOURCES, load

    if not names:
        print("no files are at hand: see `amity data list`")
    wrong = []
    for name in names:
        found = SOURCES[name].find(data_dir) if name in SOURCES else None
        if name in SOURCES and SOURCES[name].official and found is None:
            wrong.append(f"{name} is not at hand: see `amity data list`, `amity data fetch {name}`")
            continue
        _log.info("reading %s%s", name, f" from {found.paths[0].parent}" if found else "")
        try:
            source = load(
                name,
                data_dir,
                labels=run.labels,
                label=None if run.label == LABEL else run.label,
                drop=run.dropped,
                schema=None if run.schema == SCHEMA else run.schema,
                scale=run.scale,
                cached=False,
            )
        except InputError as error:
            wrong += error.lines if isinstance(error, InputErrors) else [str(error)]
            continue
        how = "" if found is None else ", checksum right" if found.summed else ", structure right (no checksum)"
        print(f"{name}: {_told(source, how)}")
    if wrong:
        raise several(wrong)


def _told(source: Source, how: str) -> str:
    """Return what was read as one line, with the silos and notes below it."""
    from amity.data import deal
    from amity.data.schema.columns import told

    kind = f"{source.classes} classes" if source.classes else "quantities"
    parts = {"train": source.train, "validation": source.val, "test": source.test}
    counts = ", ".join(f"{len(split.y):,} {part}" for part, split in parts.items() if split is not None)
    lines = [f"{counts}, {kind}{how}"]
    if source.features:
        lines.append(f"  {told(source.label, source.features)}")
    if source.account:
        lines += [f"  {line}" for line in account_table(source.account).splitlines()]
    notes = deal(source, "natural", None, 0).notes if source.silos else source.notes
    lines += [f"  note: {note}" for note in notes]
    if source.labels:  # ill beside Ill, or a column that nobody meant, shows here
        shown, more = source.labels[:NAMED], len(source.labels) - NAMED
        lines.append(f"  classes: {', '.join(shown)}{f' and {more} more' if more > 0 else ''}")
    lines += [f"  {silo.name}: {silo.train:,} train, {silo.test:,} test" for silo in source.silos]
    return "\n".join(lines)


def _entries(names: list[str]) -> list[SourceEntry]:
    from amity.data import SOURCES

    return [SOURCES.entry(name) for name in names]


def listing(rows: Mapping[str, Mapping[str, Any]], as_json: bool) -> None:
    """Print a table for people, or JSON for programs."""
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    for column in next(iter(rows.values())):
        table.add_column(column)
    for name, row in rows.items():
        cells = ("x".join(map(str, value)) if key == "shape" else str(value) for key, value in row.items())
        table.add_row(name, *(escape(cell) for cell in cells))
    Console().print(table)
