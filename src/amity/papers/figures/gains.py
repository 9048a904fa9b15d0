"""The gain of each silo over training alone, or over another row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from amity.papers.figures import style
from amity.papers.figures.style import Pen
from amity.papers.figures.view import View
from amity.papers.outcome import FEW_SILOS
from amity.report.figures import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]


def gains(view: View) -> Figure | None:
    """Draw what each silo gains over training alone, or over another row: by silo, or sorted where silos are many."""
    against = view.known("rows", str(view.option("against", "separate")))
    found = _panels(view, against)
    if not found:
        return None
    rows = [row for row in view.rows if any(row in panel for panel in found.values())]
    most = max(len(gain) for panel in found.values() for gain in panel.values())
    single = most <= FEW_SILOS
    names = {column: view.results.seeds(against, column)[0].silos for column in found}
    alike = len({tuple(silos) for silos in names.values()}) == 1
    labels = [view.row_label(row) for row in rows]
    height = max(1.6, 0.17 * most + 0.7) if single else 2.1
    across = len(found) if single and alike and len(found) <= 4 else style.across(len(found))
    drawn = style.sheet(len(found), across, height, labels)
    for place, (axes, (column, panel)) in enumerate(zip(drawn.axes, found.items(), strict=True)):
        pens = {row: view.row_pens[row] for row in rows if row in panel}
        if single:
            _draw_by_silo(axes, panel, pens, names[column])
            axes.tick_params(axis="y", labelleft=not alike or drawn.left(place))
        else:
            _draw_sorted(axes, panel, pens)
    drawn.titles([view.column_label(column) for column in found])
    text = f"gain over {view.row_label(against)}, percentage points"
    if single:
        drawn.labels(text)
    else:
        drawn.labels("silos, from the greatest gain to the least", text)
        drawn.level()
    drawn.legend([style.handle(view.row_pens[row], dots=single) for row in rows], labels)
    return drawn.figure


def _panels(view: View, against: str) -> dict[str, dict[str, Array]]:
    """Return the gains of all silos, by column and row."""
    panels: dict[str, dict[str, Array]] = {}
    for column in view.columns:
        for row in view.rows:
            gain = None if row == against else _mean_gain(view, row, against, column)
            if gain is not None:
                panels.setdefault(column, {})[row] = gain
    return panels


def _mean_gain(view: View, row: str, against: str, column: str) -> Array | None:
    """Return each silo's gain, the mean over the seeds that both rows have; NaN where a silo has no test."""
    gains = [gain for _, gain in view.results.gains(row, against, column)]
    return np.mean(gains, axis=0) if gains else None


def _draw_by_silo(axes: Axes, panel: Mapping[str, Array], pens: Mapping[str, Pen], names: Sequence[str]) -> None:
    """Draw a dot per row at every silo's name."""
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


def _draw_sorted(axes: Axes, panel: Mapping[str, Array], pens: Mapping[str, Pen]) -> None:
    """Draw a line per row, from the silo that gains most to the one that gains least."""
    axes.axhline(0, color=INK, linewidth=0.8)
    for place, (row, pen) in enumerate(pens.items()):
        gain = -np.sort(-style.finite(list(panel[row])))
        every = max(1, len(gain) // 5)
        axes.plot(range(1, len(gain) + 1), gain, **pen.line, markevery=(place * every // len(pens), every))
    style.whole_rounds(axes)
