"""Every picture of a report as files in a folder: CSV always, PNG and PDF where matplotlib is there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from amity.errors import AmityError, InputError
from amity.record import make_folder, replacing
from amity.record.files import not_written
from amity.report.contents import CourseView, Scores, View
from amity.report.figures import drawing, tables
from amity.report.figures.look import look, save
from amity.report.figures.tables import Rows, as_csv, slug

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_PICTURES = "only CSV files were written, PNG and PDF need matplotlib: pip install 'amity[figures]'"


class Written(NamedTuple):
    """The files that were written, and what is missing, in one line; empty where nothing is."""

    paths: list[Path]
    missing: str


class Picture(NamedTuple):
    """One picture: the name of its files, its numbers, and how it is drawn, or None where there is nothing to draw."""

    name: str
    rows: Rows
    draw: Callable[[], Figure | None]


def write_figures(view: View, folder: str | Path) -> Written:
    """Write every picture of a view as CSV, PNG and PDF into a folder."""
    folder = Path(folder)
    try_folder(folder)
    paths = []
    drawn = find_spec("matplotlib") is not None
    try:
        for picture in pictures(view):
            paths.append(_write_rows(picture.rows, folder / f"{picture.name}.csv"))
            if drawn:
                with look():
                    figure = picture.draw()
                    paths += save(figure, folder, picture.name) if figure is not None else []
    except OSError as error:
        raise _cannot_write(folder, error) from error
    return Written(paths, "" if drawn else NO_PICTURES)


def try_folder(folder: Path) -> None:
    """Make the folder and write to it, or refuse it: whoever has more to write asks this before anything."""
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"figures go into a directory, got the file {folder}: give another path")
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        try:
            make_folder(folder)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            for each in made:
                with suppress(OSError):
                    each.rmdir()
            raise
    except (OSError, ValueError) as error:  # a name that is too long, or one that no file system has
        raise _cannot_write(folder, error) from error


def _cannot_write(folder: Path, error: OSError | ValueError) -> AmityError:
    reason = getattr(error, "strerror", None) or error
    return not_written(error, f"cannot write figures to {str(folder)[:80]} ({reason}): give another directory")


def pictures(view: View) -> Iterator[Picture]:
    """Yield every picture that a view has, in the order of the page."""
    taken: set[str] = set()

    def named(*parts: str) -> str:
        """Return a file's name that no other picture has."""
        name = first = "-".join(slug(part) for part in parts)
        number = 2
        while name in taken:
            name, number = f"{first}-{number}", number + 1
        taken.add(name)
        return name

    for worth in view["worth"]:
        yield Picture(
            named("differences", worth["method"]),
            tables.differences(worth),
            partial(drawing.differences, view, worth),
        )
    if view["methods"]:
        yield Picture(named("silos"), tables.silos(view), partial(drawing.silos, view))
        yield Picture(named("traffic"), tables.traffic(view), partial(drawing.traffic, view))
    for run in view["runs"]:
        if (weights := run["weights"]) is not None:
            yield Picture(
                named("weights", run["name"]),
                tables.weights(view, weights),
                partial(drawing.weights, view, weights),
            )
            yield Picture(
                named("ties", run["name"]),
                tables.ties(view, weights),
                partial(drawing.ties, view, weights),
            )
    for name, (of, title) in _measures(view).items():
        yield Picture(
            named("curves", name),
            tables.curves(view, of),
            partial(drawing.curves, view, of, title),
        )
    for run in view["runs"]:
        yield Picture(
            named("silo-lines", run["name"]),
            tables.silo_lines(view, run),
            partial(drawing.silo_lines, view, run),
        )
    yield Picture(named("holdings"), tables.holdings(view), partial(drawing.holdings, view))


def _measures(view: View) -> dict[str, tuple[Callable[[CourseView], Scores], str]]:
    """Return what curves are drawn of, by name: how it is read from a course, and its title."""
    unit = f", {view['score']['unit']}" if view["score"]["unit"] else ""
    found: dict[str, tuple[Callable[[CourseView], Scores], str]] = {
        "mean": (lambda course: course["mean"], f"mean test {view['score']['title']}{unit}"),
        "worst": (lambda course: course["worst"], f"{view['score']['title']} of the worst silo{unit}"),
        "loss": (lambda course: course["loss"], "training loss"),
        "collaborators": (lambda course: course["collaborators"], "collaborators of a silo"),
    }
    courses = [run["course"] for run in view["runs"]]
    return {
        name: measure
        for name, measure in found.items()
        if any(value is not None for course in courses for value in measure[0](course))
    }


def _write_rows(rows: Rows, path: Path) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(as_csv(rows), encoding="utf-8", newline="", errors="backslashreplace")
    return path
