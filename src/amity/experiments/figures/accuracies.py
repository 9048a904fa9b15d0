"""Figures of accuracies: against the round, over silos, against an option, against training alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amity import evaluate
from amity.experiments.figures import paper
from amity.experiments.figures.paper import Pen, Sheet
from amity.experiments.figures.view import View
from amity.experiments.outcome import FEW, Outcome
from amity.report.figures import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]

MEASURES = {
    "mean": "mean test {score}, %",
    "pooled": "pooled test {score}, %",
    "worst": "worst silo's test {score}, %",
    "loss": "test loss",
    "train_loss": "training loss",
}
"""What a curve may show, and its axis."""
MARK = 0.12  # of the axis: room for how many silos lie left of it
DECADES = 100.0  # from the least to the greatest value: an axis over more is logarithmic


class Curve(NamedTuple):
    """The mean over seeds and its standard deviation, None with one seed."""

    rounds: list[int]
    mean: Array
    deviation: Array | None


def _curve(outcomes: Sequence[Outcome], measure: str, until: int) -> Curve | None:
    """Over the rounds that all seeds measured, so that a line never jumps from some seeds to others."""
    measured = []
    for outcome in outcomes:
        pairs = zip(outcome.rounds["round"], outcome.rounds[measure], strict=True)
        measured.append({round: value for round, value in pairs if value is not None and round <= until})
    rounds = sorted(set.intersection(*(set(values) for values in measured))) if measured else []
    if not rounds:
        return None
    table = np.array([[values[round] for round in rounds] for values in measured])  # [seeds, rounds]
    return Curve(rounds, table.mean(axis=0), table.std(axis=0, ddof=1) if len(table) > 1 else None)


def curves(view: View) -> Figure | None:
    """A line per row and a panel per column, or the other way round."""
    measure = view.one_of("y", MEASURES)
    by_row = view.one_of("by", ("row", "column")) == "row"
    until = view.whole("rounds", 10**9, 1)
    pens, label = (view.row_pens, view.row) if by_row else (view.column_pens, view.column)
    panels: dict[str, dict[str, Curve]] = {}
    for row in view.rows:
        for column in view.columns:
            panel, line = (column, row) if by_row else (row, column)
            curve = _curve(view.results.seeds(row, column), measure, until)
            if curve is not None:
                panels.setdefault(panel, {})[line] = curve
    if not panels:
        return None
    order = [panel for panel in (view.columns if by_row else view.rows) if panel in panels]
    lines = [
        line for line in (view.rows if by_row else view.columns) if any(line in found for found in panels.values())
    ]
    drawn = paper.sheet(len(order), paper.across(len(order)), 2.1, [label(line) for line in lines if len(lines) > 1])
    for axes, panel in zip(drawn.axes, order, strict=True):
        for place, line in enumerate(lines):
            if line in panels[panel]:
                _draw_curve(axes, panels[panel][line], pens[line], place / len(lines))
        paper.whole_rounds(axes)
        _fade_scale(axes, measure, panels[panel].values())
    drawn.titles([view.column(panel) if by_row else view.row(panel) for panel in order])
    drawn.labels("round", MEASURES[measure].format(score=view.results.score))
    drawn.level()
    _legend(drawn, [pens[line] for line in lines], [label(line) for line in lines])
    return drawn.figure


def _draw_curve(axes: Axes, curve: Curve, pen: Pen, shift: float) -> None:
    """Markers of different lines stand at different rounds, so that they do not hide each other."""
    every = max(1, len(curve.rounds) // 5)
    axes.plot(curve.rounds, curve.mean, **pen.line, markevery=(int(shift * every), every))
    if curve.deviation is not None:
        low, high = curve.mean - curve.deviation, curve.mean + curve.deviation
        axes.fill_between(curve.rounds, low, high, color=pen.colour, alpha=0.18, linewidth=0)


def _fade_scale(axes: Axes, measure: str, curves: Any) -> None:
    """Losses over decades are compared on a logarithmic axis."""
    values = np.concatenate([curve.mean for curve in curves])
    if measure in ("loss", "train_loss") and values.min() > 0 and values.max() / values.min() >= DECADES:
        axes.set_yscale("log")


def _legend(drawn: Sheet, pens: Sequence[Pen], labels: Sequence[str]) -> None:
    """One line says nothing that the caption does not."""
    if len(pens) > 1:
        drawn.legend([paper.handle(pen) for pen in pens], labels)


def distribution(view: View) -> Figure | None:
    """Every silo's accuracy at the best round, all seeds together: dots, and a box of the quartiles."""
    found = {
        (row, column): _finite([value for outcome in view.results.seeds(row, column) for value in outcome.accuracies])
        for row in view.rows
        for column in view.columns
    }
    found = {key: values for key, values in found.items() if len(values)}
    if not found:
        return None
    rows = [row for row in view.rows if any(key[0] == row for key in found)]
    columns = [column for column in view.columns if any(key[1] == column for key in found)]
    floors = {column: _floor([values for key, values in found.items() if key[1] == column]) for column in columns}
    beyond = any(floor is not None for floor in floors.values())
    words = ["a silo", "quartiles and median", "mean", *(["silos left of the axis"] if beyond else [])]
    across = len(columns) if len(columns) <= 4 else math.ceil(len(columns) / math.ceil(len(columns) / 4))
    drawn = paper.sheet(len(columns), across, 0.24 * len(rows) + 0.65, words, _width(len(columns)))
    for place, (axes, column) in enumerate(zip(drawn.axes, columns, strict=True)):
        for height, row in enumerate(rows):
            if (row, column) in found:
                _box(axes, height, found[row, column], view.row_pens[row].colour, floors[column])
        if (floor := floors[column]) is not None:
            high = max(values.max() for key, values in found.items() if key[1] == column)
            axes.set_xlim(floor - MARK * (high - floor), high + 0.04 * (high - floor))
            _beyond(axes, [found.get((row, column), np.empty(0)) for row in rows], floor)
        axes.set_yticks(range(len(rows)), [view.row(row) for row in rows])
        axes.tick_params(axis="y", labelleft=drawn.left(place), length=0)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(False, axis="y")
        axes.locator_params(axis="x", nbins=4)
    drawn.titles([view.column(column) for column in columns])
    drawn.labels(f"test {view.results.score}, %")
    drawn.legend(_box_handles()[: len(words)], words)
    return drawn.figure


def _floor(rows: Sequence[Array]) -> float | None:
    """Above the lowest twentieth of the silos, if they would take half of the axis: all others could not be read."""
    values = np.concatenate(rows)
    low, most, high = values.min(), float(np.percentile(values, 5)), values.max()
    return most if high - low > 2 * (high - most) else None


def _beyond(axes: Axes, rows: Sequence[Array], floor: float) -> None:
    """How many silos of each row lie below the floor."""
    white: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    for height, values in enumerate(rows):
        if count := int((values < floor).sum()):
            axes.text(axes.get_xlim()[0], height, f" ◂ {count}", va="center", fontsize=paper.SMALL, bbox=white)


def _width(columns: int) -> float:
    """Rows have their names beside the panels, so even two panels need more than a column of text."""
    return {1: 4.2, 2: 6.0}.get(columns, paper.TEXT)


def _finite(values: Sequence[float]) -> Array:
    array = np.array(values, dtype=np.float64)
    return array[np.isfinite(array)]


def _box(axes: Axes, height: float, values: Array, colour: str, floor: float | None) -> None:
    values = np.sort(values)
    shown = values if floor is None else values[values >= floor]
    # Multiples of the golden ratio spread neighbours evenly and always the same way.
    offsets = (np.arange(len(shown)) * 0.6180339887 % 1 - 0.5) * (0.66 if len(values) > 2 else 0)
    axes.scatter(shown, height + offsets, s=5 if len(values) <= 50 else 2.5, color=colour, alpha=0.5, linewidths=0)
    low, median, high = np.percentile(values, [25, 50, 75])
    edge: dict[str, Any] = {"edgecolor": colour, "linewidth": 0.8}
    axes.barh(height, high - low, 0.66, low, facecolor=f"{colour}30", zorder=2.1, **edge)
    axes.vlines(median, height - 0.33, height + 0.33, color=INK, linewidth=1.2, zorder=2.2)
    axes.plot([values.mean()], [height], "D", **_MEAN)


_MEAN: dict[str, Any] = {"markersize": 3.2, "color": "white", "markeredgecolor": INK, "markeredgewidth": 0.7}


def _box_handles() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    grey = "#7b8794"
    return [
        Line2D([], [], marker="o", markersize=2.5, color=grey, linestyle=""),
        Patch(facecolor=f"{grey}30", edgecolor=grey, linewidth=0.8),
        Line2D([], [], marker="D", linestyle="", **_MEAN),
        Line2D([], [], marker="<", linestyle="", markersize=3, color=INK, markeredgewidth=0),
    ]


class Point(NamedTuple):
    """BMTA at one value of an option; the deviation over seeds is 0 with one seed."""

    value: Any
    mean: float
    deviation: float


def sweep(view: View) -> Figure | None:
    """A line per column; where rows belong to series, a line per series and a panel per column."""
    tables = view.experiment.content["rows"]
    serial = any("series" in tables[row] for row in view.rows)
    lines: dict[str, dict[str, list[Point]]] = {}  # by panel, by line
    for column in view.columns:
        for row in view.rows:
            point = _point(view.experiment.value("rows", row), view.results.seeds(row, column))
            if point is not None:
                panel, line = (column, str(tables[row].get("series", ""))) if serial else ("", column)
                lines.setdefault(panel, {}).setdefault(line, []).append(point)
    if not lines:
        return None
    values = list(dict.fromkeys(point.value for panel in lines.values() for line in panel.values() for point in line))
    names = list(dict.fromkeys(name for panel in lines.values() for name in panel))
    pens = paper.pens(dict.fromkeys(str(table.get("series", "")) for table in tables.values()))
    labels = names if serial else [view.column(name) for name in names]
    drawn = paper.sheet(len(lines), paper.across(len(lines)), 2.1, labels if len(names) > 1 else [])
    for axes, inside in zip(drawn.axes, lines.values(), strict=True):
        place = _x_axis(axes, values)
        for name, points in inside.items():
            pen = pens[name] if serial else view.column_pens[name]
            points = sorted(points, key=lambda point: place[point.value])
            across = [place[point.value] for point in points]
            means, deviations = [point.mean for point in points], [point.deviation for point in points]
            bars = deviations if any(deviations) else None
            axes.errorbar(across, means, bars, **pen.line, capsize=2, elinewidth=0.8)
    drawn.titles([view.column(panel) for panel in lines] if serial else [""])
    drawn.labels(str(view.option("xlabel", "value")), f"best mean test {view.results.score}, %")
    drawn.level()
    _legend(drawn, [pens[name] if serial else view.column_pens[name] for name in names], labels)
    return drawn.figure


def _point(value: Any, outcomes: Sequence[Outcome]) -> Point | None:
    mean, deviation = evaluate.over_seeds([outcome.bmta for outcome in outcomes])
    if math.isnan(mean):
        return None
    return Point(value if _numeric(value) else str(value), mean, 0.0 if math.isnan(deviation) else deviation)


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _x_axis(axes: Axes, values: Sequence[Any]) -> Mapping[Any, float]:
    """Set up the axis of an option's values; gives where each one stands. Names stand one after the other."""
    if not all(_numeric(value) for value in values):
        axes.set_xticks(range(len(values)), [str(value) for value in values])
        axes.set_xlim(-0.4, len(values) - 0.6)
        return {value: float(place) for place, value in enumerate(values)}
    positive = [value for value in values if value > 0]
    wide = bool(positive) and min(values) >= 0 and max(positive) / min(positive) >= DECADES
    if wide and len(positive) < len(values):
        axes.set_xscale("symlog", linthresh=min(positive))  # a zero has no logarithm
    elif wide:
        axes.set_xscale("log")
    if len(values) <= 7:
        axes.set_xticks(sorted(values), [f"{value:g}" for value in sorted(values)])
        axes.minorticks_off()
    return {value: float(value) for value in values}


def clients(view: View) -> Figure | None:
    """A thin line per silo, the mean bold; one panel per row and column."""
    shown = [entry for entry in view.firsts() if entry[2].clients and any(entry[2].clients)]
    if not shown:
        return None
    words = ["a silo", "mean over silos"]
    drawn = paper.sheet(len(shown), paper.across(len(shown), len(view.columns)), 2.0, words)
    for axes, (row, _, outcome) in zip(drawn.axes, shown, strict=True):
        colour = view.row_pens[row].colour
        for silo in range(len(outcome.silos)):
            line = [(round, at[silo]) for round, at in _client_rounds(outcome) if at[silo] is not None]
            axes.plot(*_columns(line), color=colour, linewidth=0.6, alpha=0.45)
        pairs = zip(outcome.rounds["round"], outcome.rounds["mean"], strict=True)
        axes.plot(*_columns([pair for pair in pairs if pair[1] is not None]), color=INK, linewidth=1.8)
        paper.whole_rounds(axes)
    drawn.titles([view.cell(row, column) for row, column, _ in shown])
    drawn.labels("round", f"test {view.results.score} of a silo, %")
    drawn.level(always=True)  # whose silos lie closer together
    drawn.legend([_plain("#7b8794", 0.6), _plain(INK, 1.8)], words)
    return drawn.figure


def _client_rounds(outcome: Outcome) -> list[tuple[int, list[float | None]]]:
    """Rounds with the silos' accuracies; rounds that were not evaluated have none."""
    pairs = zip(outcome.rounds["round"], outcome.clients or [], strict=True)
    return [(round, at) for round, at in pairs if at]


def _columns(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _plain(colour: str, width: float) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linewidth=width)


def gains(view: View) -> Figure | None:
    """What each silo gains over training alone, or over another row: silo by silo, or sorted where they are many."""
    against = view.known("rows", str(view.option("against", "separate")))
    found: dict[str, dict[str, Array]] = {}  # by column, by row
    for column in view.columns:
        for row in view.rows:
            gain = None if row == against else _gain(view, row, against, column)
            if gain is not None:
                found.setdefault(column, {})[row] = gain
    if not found:
        return None
    rows = [row for row in view.rows if any(row in panel for panel in found.values())]
    most = max(len(gain) for panel in found.values() for gain in panel.values())
    single = most <= FEW
    names = {column: view.results.seeds(against, column)[0].silos for column in found}
    alike = len({tuple(silos) for silos in names.values()}) == 1
    labels = [view.row(row) for row in rows]
    height = max(1.6, 0.17 * most + 0.7) if single else 2.1
    across = len(found) if single and alike and len(found) <= 4 else paper.across(len(found))
    drawn = paper.sheet(len(found), across, height, labels)
    for place, (axes, (column, panel)) in enumerate(zip(drawn.axes, found.items(), strict=True)):
        pens = {row: view.row_pens[row] for row in rows if row in panel}
        if single:
            _dots(axes, panel, pens, names[column])
            axes.tick_params(axis="y", labelleft=not alike or drawn.left(place))
        else:
            _sorted(axes, panel, pens)
    drawn.titles([view.column(column) for column in found])
    text = f"gain over {view.row(against)}, percentage points"
    if single:
        drawn.labels(text)
    else:
        drawn.labels("silos, from the greatest gain to the least", text)
        drawn.level()
    drawn.legend([paper.handle(view.row_pens[row], dots=single) for row in rows], labels)
    return drawn.figure


def _gain(view: View, row: str, against: str, column: str) -> Array | None:
    """Silo by silo, the mean over the seeds that both rows have; NaN where a silo has no test."""
    gains = [np.subtract(a.accuracies, b.accuracies) for a, b in view.results.pairs(row, against, column)]
    return np.mean(gains, axis=0) if gains else None


def _dots(axes: Axes, panel: Mapping[str, Array], pens: Mapping[str, Pen], names: Sequence[str]) -> None:
    offsets = np.linspace(-0.3, 0.3, len(pens)) if len(pens) > 1 else [0.0]
    for silo in range(0, len(names), 2):
        axes.axhspan(silo - 0.5, silo + 0.5, color="#f5f7fa", zorder=0)
    for offset, (row, pen) in zip(offsets, pens.items(), strict=True):
        heights = np.arange(len(panel[row])) + offset
        axes.plot(panel[row], heights, **pen.dots)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(False, axis="y")


def _sorted(axes: Axes, panel: Mapping[str, Array], pens: Mapping[str, Pen]) -> None:
    axes.axhline(0, color=INK, linewidth=0.8)
    for place, (row, pen) in enumerate(pens.items()):
        gain = -np.sort(-_finite(list(panel[row])))
        every = max(1, len(gain) // 5)
        axes.plot(range(1, len(gain) + 1), gain, **pen.line, markevery=(place * every // len(pens), every))
    paper.whole_rounds(axes)
