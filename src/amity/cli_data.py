"""`amity data ...`: which data sets there are, fetching them, and whether the files at hand are whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from amity.config import Run
from amity.errors import InputError
from amity.options import fields_of, parse, unknown

if TYPE_CHECKING:
    from amity.data import Source
    from amity.data.labels import Kind
    from amity.data.sources import Entry

app = typer.Typer(
    help="Data sets: list them, fetch them, verify the files at hand.",
    rich_markup_mode=None,
)

DataDir = Annotated[
    str | None,
    typer.Option("--data-dir", metavar="DIR", help="where data sets lie [default: $AMITY_DATA, ./data, user cache]"),
]
Labels = Annotated[
    str, typer.Option("--labels", metavar="auto|classes|quantities", help="what the labels of folder:PATH are")
]
LABELS = str(fields_of(Run)["labels"].default)
NAMED = 20  # classes that are told by name
Json = Annotated[bool, typer.Option("--json", help="for programs")]


@app.callback(invoke_without_command=True)
def top(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_command(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the data sets, and whether their files are at hand."""
    from amity.data import SOURCES

    listing({name: _row(entry, data_dir, as_json) for name, entry in SOURCES.items()}, as_json)


def _row(entry: Entry, data_dir: str | None, as_json: bool) -> dict[str, Any]:
    found = entry.find(data_dir)
    row = {"classes": entry.classes, "shape": list(entry.shape), "description": entry.description}
    if not as_json:
        here = "no" if found is None else "a subset" if found.layout.subset else "yes"
        return {**row, "at hand": "built in" if entry.official is None else here}
    official = entry.official
    published = official.layouts[0].files if official else ()
    files = [{"name": file.name, "urls": list(file.urls), "digest": file.digest} for file in published]
    paths = [str(path) for path in found.paths] if found else []
    licence = official.licence if official else None
    return {"title": entry.title, **row, "licence": licence, "files": files, "found": paths}


@app.command("fetch")
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


def _fetch(entries: list[Entry], data_dir: str | None) -> None:
    from amity.data.files import user_cache
    from amity.data.sources import fetch_into

    for entry in entries:
        if entry.official is None:
            print(f"{entry.name}: built in, nothing to fetch")
            continue
        with shown_fetching() as notify:
            paths = fetch_into(entry, data_dir, notify)
        print(f"{entry.name}: {', '.join(map(str, paths)) or 'complete, nothing to fetch'}")
        found = entry.find(data_dir)
        if paths and found and found.paths[0].parent not in {path.parent for path in paths}:
            first = found.paths[0].parent
            print(f"  note: runs read {first} first: give them --data-dir {user_cache()} for these files")


@app.command("verify")
def verify_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="data sets or folder:PATH [default: all at hand]", show_default=False),
    ] = None,
    labels: Labels = LABELS,
    data_dir: DataDir = None,
) -> None:
    """Check the files at hand against what was published.

    Everything is read anew, and counted: what is not complete is said.
    """
    from amity.data import SOURCES
    from amity.data.sources import FOLDER

    _entries([name for name in names or [] if not name.startswith(FOLDER)])
    at_hand = names or [name for name, entry in SOURCES.items() if entry.find(data_dir)]
    _verify(at_hand, data_dir, Run(labels=parse(Run, "labels", labels)).labels)


def _verify(names: list[str], data_dir: str | None, labels: Kind) -> None:
    from amity.data import SOURCES, load

    if not names:
        print("no files are at hand: see `amity data list`")
    wrong = []
    for name in names:
        found = SOURCES[name].find(data_dir) if name in SOURCES else None
        if name in SOURCES and SOURCES[name].official and found is None:
            wrong.append(f"{name} is not at hand: see `amity data list`, `amity data fetch {name}`")
            continue
        try:
            source = load(name, data_dir, labels=labels, cached=False)
        except InputError as error:
            wrong.append(str(error))
            continue
        how = "" if found is None else ", checksum right" if found.summed else ", structure right (no checksum)"
        print(f"{name}: {_told(source, how)}")
    if wrong:
        raise InputError("; ".join(wrong))


def _told(source: Source, how: str) -> str:
    """What was read, in a line; silos and notes below it."""
    kind = f"{source.classes} classes" if source.classes else "quantities"
    parts = {"train": source.train, "validation": source.val, "test": source.test}
    counts = ", ".join(f"{len(split.y):,} {part}" for part, split in parts.items() if split is not None)
    lines = [f"{counts}, {kind}{how}", *(f"  note: {note}" for note in source.notes)]
    if source.labels:  # ill beside Ill, or a column that nobody meant, shows here
        shown, more = source.labels[:NAMED], len(source.labels) - NAMED
        lines.append(f"  classes: {', '.join(shown)}{f' and {more} more' if more > 0 else ''}")
    lines += [f"  {silo.name}: {silo.train:,} train, {silo.test:,} test" for silo in source.silos]
    return "\n".join(lines)


def _entries(names: list[str]) -> list[Entry]:
    from amity.data import SOURCES

    for name in names:
        if name not in SOURCES:
            raise unknown("data set", name, SOURCES)
    return [SOURCES[name] for name in names]


def listing(rows: Mapping[str, Mapping[str, Any]], as_json: bool) -> None:
    """A table for people, or JSON for programs."""
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


@contextmanager
def shown_fetching() -> Iterator[Callable[[str, int, int | None], None]]:
    """Progress of downloads: a bar on a terminal, one line per file elsewhere."""
    err = Console(stderr=True)
    seen: dict[str, Any] = {}
    if not err.is_terminal:

        def told(url: str, done: int, total: int | None) -> None:
            if url not in seen:
                seen[url] = True
                size = f" ({total / 1e6:.1f} MB)" if total else ""
                print(f"fetching {url}{size}", file=sys.stderr)

        yield told
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err) as bar:

        def moved(url: str, done: int, total: int | None) -> None:
            if url not in seen:
                seen[url] = bar.add_task(f"fetching {escape(url)}", total=total)
            bar.update(seen[url], completed=done, total=total)

        yield moved
