"""Figures of collaboration weights: who learns from whom, and how that came about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from amity.errors import InputError
from amity.papers.figures import style
from amity.papers.figures.style import Pen
from amity.papers.figures.view import View
from amity.papers.outcome import Outcome
from amity.report.figures import ABSENT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]


def heatmap(view: View) -> Figure | None:
    """Draw the weights of the last round; one panel per row and column that has some."""
    shown = [entry for entry in view.first_outcomes() if entry[2].weights]
    if not shown:
        return None
    across = style.across(len(shown), len(view.columns))
    drawn = style.sheet(len(shown), across, 2.9 if across <= 2 else 2.15)
    titles = []
    for axes, (row, column, outcome) in zip(drawn.axes, shown, strict=True):
        _draw_weights(axes, outcome)
        score = outcome.block_score
        titles.append(view.cell_label(row, column) + ("" if score is None else f": block score {_score_text(score)}"))
    drawn.titles(titles, always=True)
    drawn.labels("from silo", "to silo")
    for place, (axes, (_, _, outcome)) in enumerate(zip(drawn.axes, shown, strict=True)):
        if _has_several(outcome.groups):
            axes.set_xlabel("from silos by group" if drawn.bottom(place) else "")
            axes.set_ylabel("to silos by group" if drawn.left(place) else "")
    return drawn.figure


def _score_text(score: float) -> str:
    return f"{score:.1f}" if abs(score) < 1000 else f"{score:.1e}"


def _draw_weights(axes: Axes, outcome: Outcome) -> None:
    """Draw the weights of the last round, silos of a group side by side; own weights may exceed the colours."""
    from matplotlib import colormaps

    last = outcome.weights[max(outcome.weights)].astype(np.float64)  # [m, m]
    order, borders, ticks = _by_group(outcome.groups, len(last))
    matrix = last[np.ix_(order, order)]
    top, clipped = _scale(matrix)
    low = -top if np.nan_to_num(matrix).min(initial=0) < 0 else 0.0
    colours = colormaps["RdBu_r" if low < 0 else "Blues"].with_extremes(bad=ABSENT)
    image = axes.imshow(np.ma.masked_invalid(matrix), cmap=colours, vmin=low, vmax=top, interpolation="nearest")
    for border in borders:
        axes.axhline(border - 0.5, color=INK, linewidth=0.4)
        axes.axvline(border - 0.5, color=INK, linewidth=0.4)
    if ticks:
        places, names = list(ticks.values()), [str(group) for group in ticks]
        axes.set_xticks(places, names)
        axes.set_yticks(places, names)
        axes.tick_params(length=0)
    else:
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    axes.grid(False)
    axes.spines[:].set_visible(True)
    label = "weight (own clipped)" if clipped else "weight"
    beside = axes.inset_axes((1.04, 0.0, 0.05, 1.0))  # as high as the square, however the panel is laid out
    bar = axes.figure.colorbar(image, cax=beside, extend="max" if clipped else "neither")
    bar.set_label(label, fontsize=style.SMALL)
    bar.locator = _few_ticks()
    bar.outline.set_linewidth(0.4)


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=4, steps=[1, 2, 5, 10])


def _scale(matrix: Array) -> tuple[float, bool]:
    """Return where the colours end, at the largest weight of another silo, and True if own weights lie beyond."""
    size = np.abs(np.nan_to_num(matrix))
    others = size[~np.eye(len(size), dtype=bool)].max(initial=0)
    own = float(size.diagonal().max(initial=0))
    if others <= 0:
        return own or 1.0, False
    return float(others), own > others


def _has_several(groups: Sequence[int | None] | None) -> bool:
    return groups is not None and len(set(groups)) > 1


def _by_group(groups: Sequence[int | None] | None, silos: int) -> tuple[list[int], list[int], dict[str, float]]:
    """Return the silos group by group, where groups begin, and where their names stand; silos of no group come last."""
    if groups is None or len(groups) != silos or not _has_several(groups):
        return list(range(silos)), [], {}
    known = sorted({group for group in groups if group is not None})
    place: dict[int | None, int] = {group: number for number, group in enumerate(known)}
    order = sorted(range(silos), key=lambda silo: (place.get(groups[silo], len(known)), silo))
    members: dict[Any, list[int]] = {}
    for position, silo in enumerate(order):
        members.setdefault(groups[silo], []).append(position)
    borders = [positions[0] for positions in members.values()][1:]
    names = {"-" if group is None else str(group): float(np.mean(at)) for group, at in members.items()}
    few = len(names) <= 20
    return order, borders, names if few else {}


def trajectories(view: View) -> Figure | None:
    """Draw two panels per row and column: the weights that one silo gives to all, and what each gives to itself."""
    shown = [entry for entry in view.first_outcomes() if len(entry[2].weights) > 1]  # one round makes no line
    if not shown:
        return None
    me = view.whole_number("silo", 0, 0)
    fewest = min(len(outcome.silos) for _, _, outcome in shown)
    if me >= fewest:
        raise InputError(f"silo in output {view.output.name} must be below the {fewest} silos, got {me}: try silo = 0")
    longest = max((outcome for _, _, outcome in shown), key=lambda outcome: len(outcome.silos))
    grouped = all(_groups_of(outcome) for _, _, outcome in shown)
    words, pens = _words_and_pens(longest, grouped)
    drawn = style.sheet(2 * len(shown), 2, 2.2, words)
    titles = []
    for place, (row, column, outcome) in enumerate(shown):
        rounds = sorted(outcome.weights)
        stack = np.stack([outcome.weights[round] for round in rounds])  # [rounds, m, m]
        _, own = _words_and_pens(outcome, grouped)
        left, right = drawn.axes[2 * place : 2 * place + 2]
        _draw_lines(left, rounds, stack[:, me, :], own, bold=me)
        _draw_lines(right, rounds, stack[:, range(stack.shape[1]), range(stack.shape[1])], own)
        left.set_ylabel(f"weights of {outcome.silos[me]}, $p_{{{me}j}}$")
        right.set_ylabel("own weights, $p_{ii}$")
        titles += [
            f"{view.cell_label(row, column)}: {outcome.silos[me]} to all",
            f"{view.cell_label(row, column)}: to itself",
        ]
    for place, axes in enumerate(drawn.axes):
        axes.set_xlabel("round" if drawn.bottom(place) else "")
    drawn.titles(titles)
    handles = {word: style.handle(pen) for word, pen in zip(words, _legend_pens(longest, pens, grouped), strict=True)}
    drawn.legend(list(handles.values()), list(handles))
    return drawn.figure


def _groups_of(outcome: Outcome) -> list[int]:
    """Return the group of every silo; empty unless every silo has one, and some share theirs but not all."""
    groups = [group for group in outcome.groups or [] if group is not None]
    return groups if len(groups) == len(outcome.groups or []) and 1 < len(set(groups)) < len(groups) else []


def _words_and_pens(outcome: Outcome, grouped: bool) -> tuple[list[str], list[Pen]]:
    """Return the legend's words and a pen for every silo: by group where there are groups, else each its own."""
    if not grouped:
        return list(outcome.silos), [style.pen(silo) for silo in range(len(outcome.silos))]
    groups = _groups_of(outcome)
    known = sorted(set(groups))
    return [f"silos of group {group}" for group in known], [style.pen(known.index(group)) for group in groups]


def _legend_pens(outcome: Outcome, pens: Sequence[Pen], grouped: bool) -> list[Pen]:
    """Return the pens that stand beside the legend's words."""
    if not grouped:
        return list(pens)
    groups = _groups_of(outcome)
    return [pens[groups.index(group)] for group in sorted(set(groups))]


def _draw_lines(axes: Axes, rounds: Sequence[int], values: Array, pens: Sequence[Pen], bold: int | None = None) -> None:
    """Draw a line per silo, over the rounds in which it has a value."""
    at = np.array(rounds)
    for silo, pen in enumerate(pens):
        there = np.isfinite(values[:, silo])
        every = max(1, int(there.sum()) // 6)
        width = 2.0 if silo == bold else 1.0
        start = silo * every // len(pens)
        axes.plot(at[there], values[there, silo], **pen.line, linewidth=width, markevery=(start, every))
    style.whole_rounds(axes)
