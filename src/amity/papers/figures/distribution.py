"""The accuracies of all silos at the best round, row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from amity.papers.figures import style
from amity.papers.figures.view import View
from amity.report.figures import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]

COUNT_MARGIN = 0.12  # of the axis: room for how many silos lie left of it


def distribution(view: View) -> Figure | None:
    """Draw every silo's accuracy at the best round, all seeds together: dots, and a box of the quartiles."""
    panels = _panels(view)
    if not panels:
        return None
    rows = [row for row in view.rows if any(row in panel for panel in panels.values())]
    columns = list(panels)
    floors = {column: _floor(list(panel.values())) for column, panel in panels.items()}
    beyond = any(floor is not None for floor in floors.values())
    words = ["a silo", "quartiles and median", "mean", *(["silos left of the axis"] if beyond else [])]
    across = len(columns) if len(columns) <= 4 else math.ceil(len(columns) / math.ceil(len(columns) / 4))
    drawn = style.sheet(len(columns), across, 0.24 * len(rows) + 0.65, words, _width(len(columns)))
    for place, (axes, column) in enumerate(zip(drawn.axes, columns, strict=True)):
        values = [panels[column].get(row, np.empty(0)) for row in rows]
        for height, row in enumerate(rows):
            if len(values[height]):
                _box(axes, height, values[height], view.row_pens[row].colour, floors[column])
        _mark_silos_below(axes, values, floors[column])
        axes.set_yticks(range(len(rows)), [view.row_label(row) for row in rows])
        axes.tick_params(axis="y", labelleft=drawn.left(place), length=0)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(False, axis="y")
        axes.locator_params(axis="x", nbins=4)
    drawn.titles([view.column_label(column) for column in columns])
    drawn.labels(f"test {view.results.score}, %")
    drawn.legend(_box_handles()[: len(words)], words)
    return drawn.figure


def _panels(view: View) -> dict[str, dict[str, Array]]:
    """Return the accuracies of all silos that were measured, by column and row."""
    panels: dict[str, dict[str, Array]] = {}
    for column in view.columns:
        for row in view.rows:
            outcomes = view.results.seeds(row, column)
            values = style.finite([value for outcome in outcomes for value in outcome.accuracies])
            if len(values):
                panels.setdefault(column, {})[row] = values
    return panels


def _floor(rows: Sequence[Array]) -> float | None:
    """Return where the axis begins if a few silos would take half of it, so that the others can be read; else None.

    It begins above the lowest twentieth of the silos.
    """
    values = np.concatenate(rows)
    low, most, high = values.min(), float(np.percentile(values, 5)), values.max()
    return most if high - low > 2 * (high - most) else None


def _mark_silos_below(axes: Axes, rows: Sequence[Array], floor: float | None) -> None:
    """Begin the axis at `floor` if there is one, and write how many silos of each row lie below it."""
    if floor is None:
        return
    high = np.concatenate(rows).max()
    axes.set_xlim(floor - COUNT_MARGIN * (high - floor), high + 0.04 * (high - floor))
    white: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    for height, values in enumerate(rows):
        if count := int((values < floor).sum()):
            axes.text(axes.get_xlim()[0], height, f" ◂ {count}", va="center", fontsize=style.SMALL, bbox=white)


def _width(columns: int) -> float:
    """Return the width of a figure: the names beside the panels need more room than a column of text has."""
    return {1: 4.2, 2: 6.0}.get(columns, style.TEXT)


def _box(axes: Axes, height: float, values: Array, colour: str, floor: float | None) -> None:
    """Draw the silos of one row as dots, with a box from quartile to quartile, their median and their mean."""
    values = np.sort(values)
    shown = values if floor is None else values[values >= floor]
    # Multiples of the golden ratio spread neighbours evenly and always the same way.
    offsets = (np.arange(len(shown)) * 0.6180339887 % 1 - 0.5) * (0.66 if len(values) > 2 else 0)
    axes.scatter(shown, height + offsets, s=5 if len(values) <= 50 else 2.5, color=colour, alpha=0.5, linewidths=0)
    low, median, high = np.percentile(values, [25, 50, 75])
    edge: dict[str, Any] = {"edgecolor": colour, "linewidth": 0.8}
    axes.barh(height, high - low, 0.66, low, facecolor=f"{colour}30", zorder=2.1, **edge)
    axes.vlines(median, height - 0.33, height + 0.33, color=INK, linewidth=1.2, zorder=2.2)
    axes.plot([values.mean()], [height], "D", **_MEAN_MARK)


_MEAN_MARK: dict[str, Any] = {"markersize": 3.2, "color": "white", "markeredgecolor": INK, "markeredgewidth": 0.7}


def _box_handles() -> list[Any]:
    """Return what the legend shows of a dot, a box, a mean and the mark of silos left of the axis."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    grey = "#7b8794"
    return [
        Line2D([], [], marker="o", markersize=2.5, color=grey, linestyle=""),
        Patch(facecolor=f"{grey}30", edgecolor=grey, linewidth=0.8),
        Line2D([], [], marker="D", linestyle="", **_MEAN_MARK),
        Line2D([], [], marker="<", linestyle="", markersize=3, color=INK, markeredgewidth=0),
    ]
