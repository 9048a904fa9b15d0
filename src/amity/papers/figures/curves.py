"""Accuracies or losses against the round: a line per row or column, or a line per silo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amity.papers.figures import style
from amity.papers.figures.style import LOG_RATIO, Pen
from amity.papers.figures.view import View
from amity.papers.outcome import Outcome
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
"""Values that a curve may show, and the label of their axis."""


class Curve(NamedTuple):
    """A line: the mean over seeds, and its standard deviation, which is None with one seed."""

    rounds: list[int]
    mean: Array
    deviation: Array | None


def _curve(outcomes: Sequence[Outcome], measure: str, until: int) -> Curve | None:
    """Return the mean over the rounds that all seeds measured, so that a line never jumps from some seeds to others."""
    measured = []
    for outcome in outcomes:
        pairs = zip(outcome.rounds["round"], outcome.series(measure), strict=True)
        measured.append({round: value for round, value in pairs if value is not None and round <= until})
    rounds = sorted(set.intersection(*(set(values) for values in measured))) if measured else []
    if not rounds:
        return None
    table = np.array([[values[round] for round in rounds] for values in measured])  # [seeds, rounds]
    return Curve(rounds, table.mean(axis=0), table.std(axis=0, ddof=1) if len(table) > 1 else None)


def curves(view: View) -> Figure | None:
    """Draw a line per row and a panel per column, or the other way round."""
    measure = view.one_of("y", MEASURES)
    by_row = view.one_of("by", ("row", "column")) == "row"
    until = view.whole_number("rounds", 10**9, 1)
    pens, label = (view.row_pens, view.row_label) if by_row else (view.column_pens, view.column_label)
    panels = _panels(view, measure, until, by_row)
    if not panels:
        return None
    order = [panel for panel in (view.columns if by_row else view.rows) if panel in panels]
    lines = [
        line for line in (view.rows if by_row else view.columns) if any(line in found for found in panels.values())
    ]
    drawn = style.sheet(len(order), style.across(len(order)), 2.1, [label(line) for line in lines if len(lines) > 1])
    for axes, panel in zip(drawn.axes, order, strict=True):
        for place, line in enumerate(lines):
            if line in panels[panel]:
                _draw_curve(axes, panels[panel][line], pens[line], place / len(lines))
        style.whole_rounds(axes)
        _scale_losses(axes, measure, panels[panel].values())
    drawn.titles([view.column_label(panel) if by_row else view.row_label(panel) for panel in order])
    drawn.labels("round", MEASURES[measure].format(score=view.results.score))
    drawn.level()
    style.line_legend(drawn, [pens[line] for line in lines], [label(line) for line in lines])
    return drawn.figure


def _panels(view: View, measure: str, until: int, by_row: bool) -> dict[str, dict[str, Curve]]:
    """Return the curves of every panel, by the name of their line."""
    panels: dict[str, dict[str, Curve]] = {}
    for row in view.rows:
        for column in view.columns:
            panel, line = (column, row) if by_row else (row, column)
            curve = _curve(view.results.seeds(row, column), measure, until)
            if curve is not None:
                panels.setdefault(panel, {})[line] = curve
    return panels


def _draw_curve(axes: Axes, curve: Curve, pen: Pen, shift: float) -> None:
    """Draw one line and its deviation; `shift` moves its markers along, so that those of other lines are not hidden."""
    every = max(1, len(curve.rounds) // 5)
    axes.plot(curve.rounds, curve.mean, **pen.line, markevery=(int(shift * every), every))
    if curve.deviation is not None:
        low, high = curve.mean - curve.deviation, curve.mean + curve.deviation
        axes.fill_between(curve.rounds, low, high, color=pen.colour, alpha=0.18, linewidth=0)


def _scale_losses(axes: Axes, measure: str, curves: Iterable[Curve]) -> None:
    """Make the axis logarithmic where losses differ by decades."""
    values = np.concatenate([curve.mean for curve in curves])
    if measure in ("loss", "train_loss") and values.min() > 0 and values.max() / values.min() >= LOG_RATIO:
        axes.set_yscale("log")


def clients(view: View) -> Figure | None:
    """Draw a thin line per silo and their mean in bold; one panel per row and column."""
    shown = [entry for entry in view.first_outcomes() if entry[2].clients and any(entry[2].clients)]
    if not shown:
        return None
    words = ["a silo", "mean over silos"]
    drawn = style.sheet(len(shown), style.across(len(shown), len(view.columns)), 2.0, words)
    for axes, (row, _, outcome) in zip(drawn.axes, shown, strict=True):
        colour = view.row_pens[row].colour
        for silo in range(len(outcome.silos)):
            line = [(round, at[silo]) for round, at in _client_rounds(outcome) if at[silo] is not None]
            axes.plot(*_unzipped(line), color=colour, linewidth=0.6, alpha=0.45)
        pairs = zip(outcome.rounds["round"], outcome.rounds["mean"], strict=True)
        axes.plot(*_unzipped([pair for pair in pairs if pair[1] is not None]), color=INK, linewidth=1.8)
        style.whole_rounds(axes)
    drawn.titles([view.cell_label(row, column) for row, column, _ in shown])
    drawn.labels("round", f"test {view.results.score} of a silo, %")
    drawn.level(always=True)  # whose silos lie closer together
    drawn.legend([_line_handle("#7b8794", 0.6), _line_handle(INK, 1.8)], words)
    return drawn.figure


def _client_rounds(outcome: Outcome) -> list[tuple[int, list[float | None]]]:
    """Return the rounds that were evaluated, each with the silos' accuracies."""
    pairs = zip(outcome.rounds["round"], outcome.clients or [], strict=True)
    return [(round, at) for round, at in pairs if at]


def _unzipped(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _line_handle(colour: str, width: float) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linewidth=width)
