"""`amity reproduce`: the papers' tables and figures, by one command each."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from amity import logs
from amity.cli.flags import DataDir, Json, with_log_options
from amity.cli.progress import begin, err, note
from amity.cli.running import watched
from amity.errors import InputError

if TYPE_CHECKING:
    from amity.papers.spec import Experiment

out = Console()

WIDE = 10_000  # columns: more than any table has

_log = logging.getLogger("amity.cli")


@with_log_options
def reproduce_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="fedamp/table3, or all of a paper: fedamp", show_default=False),
    ] = None,
    size: Annotated[
        str, typer.Option("--size", metavar="quick|cpu|paper", help="minutes, hours on 2 cores, the full protocol")
    ] = "quick",
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="A,B", help="run some rows only [default: all]", show_default=False)
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="run some columns only [default: all]")
    ] = None,
    directory: Annotated[str, typer.Option("--out", metavar="DIR", help="where results are kept")] = "reproduced",
    run: Annotated[bool, typer.Option("--run/--no-run", help="run what is missing, or only show what is there")] = True,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="keep the run directories, models and all; they are large")
    ] = False,
    source: Annotated[
        str | None, typer.Option("--from", metavar="DIR", help="where experiments lie [default: Amity's own]")
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Run a paper's experiment and write its tables and figures, the paper's numbers beside ours.

    Runs that are recorded in --out are not run again; an interrupted command goes on where it was. Without NAME:
    list the experiments and how much of each is recorded.
    """
    begin(f"looking at {', '.join(names) if names else 'what is recorded'}")
    from amity.papers import reproduce

    logs.log_torch()
    folder = Path(directory)
    root = None if source is None else Path(source)
    if not names:
        _list(folder, root, as_json)
        return
    if as_json:
        raise InputError(
            "--json is for the list of experiments, got NAME too: leave one out; tables are written as CSV"
        )
    experiments = [(experiment, _some(experiment, rows, columns, size)) for experiment in _chosen(names, root)]
    runner = reproduce.Runner(folder, data_dir, keep_runs, watch=watched, note=note)
    for experiment, asked in experiments:
        left = reproduce.missing(asked, size, folder)
        total = reproduce.total(asked, size)
        err.print(
            f"{experiment.name}, size {size}: {total - left} of {total} runs recorded", highlight=False, soft_wrap=True
        )
        try:
            if run:
                runner.run_missing(asked, size)
        except KeyboardInterrupt:
            err.print(f"interrupted: the same command goes on from here ({folder})", highlight=False, soft_wrap=True)
            raise
        finally:
            show(experiment, size, folder, data_dir)  # all that is recorded: a part would take the whole's place


def _chosen(names: Sequence[str], root: Path | None) -> list[Experiment]:
    """Return experiments by name, all of a paper's, or all there are."""
    from amity.papers import spec

    there = spec.names(root)
    found: list[str] = []
    for name in names:
        inside = there if name == "all" else [one for one in there if one.startswith(f"{name}/")]
        found += inside or [name]
    return [spec.read(name, root) for name in dict.fromkeys(found)]


def _some(experiment: Experiment, rows: str | None, columns: str | None, size: str) -> Experiment:
    from amity.papers.reproduce import pick
    from amity.papers.spec import only

    wanted = [[] if text is None else pick(text, axis) for text, axis in ((rows, "rows"), (columns, "columns"))]
    return only(experiment, *wanted, size=size)


def show(experiment: Experiment, size: str, folder: Path, data_dir: str | None) -> None:
    """Write every table and figure of what is recorded, and print where they lie."""
    from amity.papers import figures, reproduce, tables

    results = reproduce.recorded(experiment, size, folder)
    place = folder / experiment.name.rpartition("/")[0] / size
    for output in experiment.outputs:
        if output.kind in tables.KINDS:
            files = tables.write(output, results, place)
            if files:
                print(files[0].read_text(encoding="utf-8"))
        else:
            files = figures.draw(output, results, place, data_dir)
        for file in files:
            _log.info("wrote %s", file)
            out.print(escape(f"{output.kind}: {file}"), highlight=False, soft_wrap=True)


def _list(folder: Path, root: Path | None, as_json: bool) -> None:
    from amity.papers import spec

    rows = [_row(spec.read(name, root), folder) for name in spec.names_or_refuse(root)]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table(box=None, pad_edge=False, caption=f"runs recorded in {folder} / runs there are")
    for head in ("Name", "Id", "Title", *spec.SIZES):
        table.add_column(head, no_wrap=head != "Title", justify="right" if head in spec.SIZES else "left")
    for row in rows:
        counts = [f"{row[size]['recorded']}/{row[size]['runs']}" if size in row else "" for size in spec.SIZES]
        table.add_row(*(escape(row[key]) for key in ("name", "id", "title")), *counts)
    needed = Console(width=WIDE).measure(table).minimum
    Console(width=max(out.width, needed)).print(table)  # names and numbers are never cut


def _row(experiment: Experiment, folder: Path) -> dict[str, Any]:
    from amity.papers.reproduce import missing, total

    row: dict[str, Any] = {"name": experiment.name, "id": experiment.id, "title": experiment.title}
    for size in experiment.content["sizes"]:
        runs = total(experiment, size)
        row[size] = {"runs": runs, "recorded": runs - missing(experiment, size, folder)}
    return row
