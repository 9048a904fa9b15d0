"""Accuracies against the value of an option."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from amity import statistics
from amity.papers.figures import style
from amity.papers.figures.style import LOG_RATIO, Pen
from amity.papers.figures.view import View
from amity.papers.outcome import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Point(NamedTuple):
    """The best mean test accuracy at one value of an option; the deviation over seeds is 0 with one seed."""

    value: Any
    mean: float
    deviation: float


def sweep(view: View) -> Figure | None:
    """Draw a line per column; where rows belong to series, a line per series and a panel per column."""
    tables = view.experiment.content["rows"]
    serial = any("series" in tables[row] for row in view.rows)
    lines = _panels(view, serial)
    if not lines:
        return None
    values = list(dict.fromkeys(point.value for panel in lines.values() for line in panel.values() for point in line))
    names = list(dict.fromkeys(name for panel in lines.values() for name in panel))
    series = dict.fromkeys(str(table.get("series", "")) for table in tables.values())
    pens = style.pens(series) if serial else view.column_pens
    labels = names if serial else [view.column_label(name) for name in names]
    drawn = style.sheet(len(lines), style.across(len(lines)), 2.1, labels if len(names) > 1 else [])
    for axes, inside in zip(drawn.axes, lines.values(), strict=True):
        place = _x_axis(axes, values)
        for name, points in inside.items():
            _draw_line(axes, points, place, pens[name])
    drawn.titles([view.column_label(panel) for panel in lines] if serial else [""])
    drawn.labels(str(view.option("xlabel", "value")), f"best mean test {view.results.score}, %")
    drawn.level()
    style.line_legend(drawn, [pens[name] for name in names], labels)
    return drawn.figure


def _panels(view: View, serial: bool) -> dict[str, dict[str, list[Point]]]:
    """Return the points of every line, by panel and line; without series there is one panel."""
    lines: dict[str, dict[str, list[Point]]] = {}
    for column in view.columns:
        for row in view.rows:
            point = _point(view.experiment.value("rows", row), view.results.seeds(row, column))
            if point is not None:
                series = str(view.experiment.content["rows"][row].get("series", ""))
                panel, line = (column, series) if serial else ("", column)
                lines.setdefault(panel, {}).setdefault(line, []).append(point)
    return lines


def _draw_line(axes: Axes, points: Sequence[Point], place: Mapping[Any, float], pen: Pen) -> None:
    """Draw one line through its points, with bars where there are several seeds."""
    points = sorted(points, key=lambda point: place[point.value])
    across = [place[point.value] for point in points]
    means, deviations = [point.mean for point in points], [point.deviation for point in points]
    bars = deviations if any(deviations) else None
    axes.errorbar(across, means, bars, **pen.line, capsize=2, elinewidth=0.8)


def _point(value: Any, outcomes: Sequence[Outcome]) -> Point | None:
    """Return the mean over seeds at a value; None where nothing was measured."""
    mean, deviation = statistics.over_seeds([outcome.bmta for outcome in outcomes])
    if math.isnan(mean):
        return None
    return Point(value if _is_number(value) else str(value), mean, 0.0 if math.isnan(deviation) else deviation)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _x_axis(axes: Axes, values: Sequence[Any]) -> Mapping[Any, float]:
    """Set up the axis of an option's values and return where each of them stands; names stand one after the other."""
    if not all(_is_number(value) for value in values):
        axes.set_xticks(range(len(values)), [str(value) for value in values])
        axes.set_xlim(-0.4, len(values) - 0.6)
        return {value: float(place) for place, value in enumerate(values)}
    positive = [value for value in values if value > 0]
    wide = bool(positive) and min(values) >= 0 and max(positive) / min(positive) >= LOG_RATIO
    if wide and len(positive) < len(values):
        axes.set_xscale("symlog", linthresh=min(positive))  # a zero has no logarithm
    elif wide:
        axes.set_xscale("log")
    if len(values) <= 7:
        axes.set_xticks(sorted(values), [f"{value:g}" for value in sorted(values)])
        axes.minorticks_off()
    return {value: float(value) for value in values}
