"""Figures of what is known before any run: APPLE's penalty, and who holds what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from amity.papers import runs
from amity.papers.figures import style
from amity.papers.figures.style import Sheet
from amity.papers.figures.view import View
from amity.report.figures import COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]

LEAST_BUBBLE = 1.0  # square points of a bubble: whoever holds a class is seen to, however little it is
BUBBLES = 40  # silos or classes of which bubbles can be told apart; more are cells of a grid


def schedulers(view: View) -> Figure:
    """Draw lambda(r) of both schedules, as the method computes it."""
    from amity.methods.apple import Apple

    rounds, share = view.whole_number("rounds", 160, 1), view.option("penalty_rounds", 0.3)
    labels = {"cos": "cosine", "exp": "exponential"}
    drawn = style.sheet(1, 1, 2.2, list(labels.values()))
    (axes,) = drawn.axes
    at = range(rounds)
    handles = []
    for place, scheduler in enumerate(labels):
        method = Apple(scheduler=scheduler, penalty_rounds=share)  # type: ignore[arg-type]
        pen = style.pen(place)
        every = max(1, rounds // 8)
        axes.plot(at, [method.fading(r, rounds) for r in at], **pen.line, markevery=(place * every // 2, every))
        handles.append(style.handle(pen))
    axes.set_ylim(-0.03, 1.05)
    style.whole_rounds(axes)
    drawn.labels("round $r$, counted from 0", r"penalty, $\lambda(r)$")
    drawn.legend(handles, list(labels.values()))
    return drawn.figure


def division(view: View) -> Figure | None:
    """Draw how many training examples of each class each silo has, as the runs of the first seed see them."""
    dealt = {column: _manifest(view, column) for column in view.all_columns}
    if not dealt:
        return None
    counts = {column: _counts(manifest) for column, manifest in dealt.items()}  # [classes, m]
    small = max(max(table.shape) for table in counts.values()) <= BUBBLES
    most = max(int(table.max()) for table in counts.values())
    sizes = _round_sizes(most) if small else []
    drawn = style.sheet(len(dealt), 2, 2.6, [f"{size} examples" for size in sizes])
    area = min(_area(drawn, table) for table in counts.values())
    for axes, (column, manifest) in zip(drawn.axes, dealt.items(), strict=True):
        if small:
            _draw_bubbles(axes, counts[column], _group_colours(manifest), area / most)
        else:
            _draw_cells(axes, counts[column])
        _name_classes(axes, manifest["labels"] or [str(number) for number in range(len(counts[column]))])
        axes.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    drawn.titles([view.column_label(column) for column in dealt])
    drawn.labels("silo", "class")
    for place, (axes, manifest) in enumerate(zip(drawn.axes, dealt.values(), strict=True)):
        if small and drawn.bottom(place) and len(set(_group_colours(manifest))) > 1:
            axes.set_xlabel("silo (colours: groups)")
    if small:
        drawn.legend([_bubble_handle(area * size / most) for size in sizes], [f"{size} examples" for size in sizes])
    return drawn.figure


def _manifest(view: View, column: str) -> Mapping[str, Any]:
    """Return who holds what in a column, with the first seed."""
    run = view.experiment.run_for_data(view.results.size, column)
    return runs.deal_silos(run, view.data_dir).at_most(run.per_silo, run.seed).manifest()


def _counts(manifest: Mapping[str, Any]) -> Array:
    return np.array([silo["train"] for silo in manifest["silos"]]).T


def _round_sizes(most: int) -> list[int]:
    """Return the sizes that the legend explains, at most three, each with one digit other than 0."""
    sizes = []
    for share in (0.1, 0.4, 1.0):
        digits = 10 ** (len(str(max(1, int(share * most)))) - 1)
        sizes.append(max(1, int(share * most) // digits * digits))
    return sorted(set(sizes))


def _area(drawn: Sheet, counts: Array) -> float:
    """Return the area of the greatest bubble in square points, so that neighbours just do not touch."""
    classes, silos = counts.shape
    between = min((drawn.width - 0.5) / (silos + 0.6), (drawn.height - 0.7) / (classes + 0.6))  # inches
    return float(min(0.95 * 72 * between, 14) ** 2)


def _group_colours(manifest: Mapping[str, Any]) -> list[str]:
    """Return a colour for every silo: its group's, unless there are more groups than colours."""
    groups = [silo["group"] for silo in manifest["silos"]]
    known = sorted({group for group in groups if group is not None})
    if None in groups or len(known) > len(COLOURS):
        return [COLOURS[0]] * len(groups)
    return [COLOURS[known.index(group)] for group in groups]


def _draw_bubbles(axes: Axes, counts: Array, colours: list[str], scale: float) -> None:
    label, silo = np.nonzero(counts)
    sizes = np.maximum(scale * counts[label, silo], LEAST_BUBBLE)
    axes.scatter(silo, label, s=sizes, c=[colours[place] for place in silo], linewidths=0)
    axes.set_xlim(-0.8, counts.shape[1] - 0.2)
    axes.set_ylim(-0.8, counts.shape[0] - 0.2)


def _bubble_handle(area: float) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker="o", markersize=area**0.5, color=INK, markeredgewidth=0)


def _draw_cells(axes: Axes, counts: Array) -> None:
    image = axes.imshow(counts, cmap="Blues", vmin=0, aspect="auto", origin="lower", interpolation="nearest")
    axes.grid(False)
    axes.figure.colorbar(image, ax=axes, label="training examples", aspect=30, pad=0.02)


def _name_classes(axes: Axes, names: list[str]) -> None:
    if len(names) <= 20:
        axes.set_yticks(range(len(names)), names)
