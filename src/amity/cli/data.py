"""`amity data ...`: list the data sets, fetch them, and verify that the files at hand are whole."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from amity.cli.flags import DataDir, Json, with_log_options
from amity.cli.help import DataCommands
from amity.cli.progress import shown_fetching
from amity.cli.schema import account_table, schema_command
from amity.cli.table_options import LABEL, LABELS, SCALE, SCHEMA, Dropped, Label, Labels, Scale, Schema, tables_of
from amity.config.run import Run
from amity.errors import InputError, InputErrors, several

if TYPE_CHECKING:
    from amity.data import Source
    from amity.data.sets.entry import SourceEntry

app = typer.Typer(
    cls=DataCommands,
    help="Data sets: list them, fetch them, verify the files at hand.",
    rich_markup_mode=None,
)

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
        row["classes"] = entry.classes or "-"
        return {**row, "at hand": entry.origin if entry.official is None else here}
    official = entry.official
    published = official.layouts[0].files if official else ()
    files = [{"name": file.name, "urls": list(file.urls), "digest": file.digest} for file in published]
    paths = [str(path) for path in found.paths] if found else []
    known = (
        {"licence": official.licence, "home": official.home or None, "cite": official.cite or None} if official else {}
    )
    about = dict.fromkeys(("licence", "home", "cite")) | known
    return {"title": entry.title, **row, **about, "files": files, "found": paths}


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


app.command("schema")(schema_command)


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
