"""`amity report`: the table and the page of runs that are recorded."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from amity.cli.flags import with_log_options
from amity.cli.progress import print_note
from amity.config.references import ALONE_FOLDER
from amity.errors import InputError

if TYPE_CHECKING:
    from amity.record import Record
    from amity.report.contents import View, WorthView

out = Console()

_log = logging.getLogger("amity.cli")


@with_log_options
def report_command(
    directories: Annotated[
        list[str], typer.Argument(metavar="DIR...", help="of runs or comparisons", show_default=False)
    ],
    directory: Annotated[str, typer.Option("--out", metavar="FILE", help="file to write")] = "report.html",
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="also write all that the page shows, for programs")
    ] = None,
    figures: Annotated[
        str | None, typer.Option("--figures", metavar="DIR", help="also write every figure as PNG, PDF and CSV")
    ] = None,
) -> None:
    """Make the table and report.html from run directories; says for whom joining was worth it."""
    _check_targets(Path(directory), None if json is None else Path(json))
    found = dict.fromkeys(path for name in directories for path in run_directories(Path(name)))
    records = [read_run(path) for path in found]
    if figures is not None:
        from amity.report.figures.writing import try_folder

        try_folder(Path(figures))  # now: where figures cannot go, no page is written either
    view = report(records, Path(directory), None if json is None else Path(json))
    if figures is not None:
        write_pictures(view, Path(figures))


def _check_targets(page: Path, json: Path | None) -> None:
    """Refuse names that are no page's or no view's: somebody's data may have them. Folders and devices pass."""
    if page.suffix.lower() not in (".html", ".htm") and (page.is_file() or not page.exists()):
        raise InputError(f"--out must be an html file or a folder, got {page}: name it report.html")
    if json is not None and json.suffix.lower() != ".json" and (json.is_file() or not json.exists()):
        raise InputError(f"--json must be a json file, got {json}: name it view.json")


def write_pictures(view: View, folder: Path) -> None:
    """Write every figure of a view to a folder, and say how many files that were and what is missing."""
    from amity.report.figures import write_figures

    written = write_figures(view, folder)
    _log.info("wrote %d files to %s", len(written.paths), folder)
    out.print(f"figures: {len(written.paths)} files in {escape(str(folder))}", highlight=False, soft_wrap=True)
    if written.missing:
        out.print(f"note: {escape(written.missing)}", highlight=False, soft_wrap=True)


def read_run(path: Path) -> Record:
    """Read the record of a run."""
    from amity import record

    _log.info("reading the run %s", path)
    return record.read(path)


def report(records: Sequence[Record], path: Path, json: Path | None = None, notes: Sequence[str] = ()) -> View:
    """Write the page, print the answer, the table and what there is to note, and say where the page lies.

    Gives back all that the page shows.
    """
    from amity.report.page import write_report_page
    from amity.report.view import check_view_file, view_of, write_view

    view = view_of(records)  # first: a record that cannot be read shows here
    if json is not None:
        check_view_file(json)  # now: where it cannot go, no page is written either
    written = write_report_page(view, path)
    _log.info("wrote %s", written)
    if json is not None:
        _log.info("wrote %s", write_view(view, json))
    verdicts(view)
    table(records)
    out.file.flush()  # notes go elsewhere, and come next
    for text in notes:
        print_note(text)
    out.print(f"report: {escape(str(written))}", highlight=False, soft_wrap=True)
    return view


def table(records: Sequence[Record]) -> None:
    """Print the table."""
    from amity.report import compare_table, table_width

    found = compare_table(records, out.width if out.is_terminal else None)
    Console(width=max(out.width, table_width(found))).print(found)  # a file has no width; a terminal wraps the rest


def verdicts(view: View) -> None:
    """Print whether joining was worth it with the method that the report leads with, where that can be said."""
    from amity.report.verdict_table import verdict_table

    if view["worth"]:
        found = verdict_table(view["worth"][0])
        width = out.width if out.is_terminal else 10_000  # a file has no width
        Console(width=width).print(found, highlight=False)


def write_results(records: Sequence[Record], target: Path, worth: Sequence[WorthView]) -> None:
    """Write the numbers of a comparison, or of several seeds, for programs."""
    from amity import record
    from amity.report.series import series_of
    from amity.report.table import p_values

    series, tests = series_of(records), p_values(records)
    summaries = {one.name: [run.results for run in one.runs] for one in series}
    named = None if tests is None else {one.name: p for one, p in zip(series, tests, strict=True)}
    record.write_results(target, summaries, named, worth)
    _log.info("wrote the results of %d runs to %s", len(records), target)


def run_directories(path: Path) -> list[Path]:
    """Return the directory itself, with the run alone inside it, or those of the runs inside a comparison's."""
    from amity import record

    if record.holds_run(path):
        return [path, *([alone] if record.holds_run(alone := path / ALONE_FOLDER) else [])]
    children = sorted(child for child in path.iterdir() if child.is_dir()) if path.is_dir() else []
    inside = [run for child in children for run in (child, *sorted(child.glob("seed-*"))) if record.holds_run(run)]
    if not inside:
        raise InputError(f"{path} holds no run: give a directory that `amity run` or `amity compare` has written")
    return inside
