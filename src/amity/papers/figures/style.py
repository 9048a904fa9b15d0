"""The look of all figures: sizes, fonts, pens, panels, legends, files.

A figure of one panel is as wide as a column of a paper, one of several as wide as its text. Figures are drawn on
`Figure` itself, not through pyplot, which would keep them all.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amity.report.figures import COLOURS
from amity.report.figures.look import SMALL as SMALL
from amity.report.figures.look import look as look
from amity.report.figures.look import save as save

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, TEXT = 3.4, 7.0  # inches
LETTER = 0.057  # inches of an average letter of the small print
LINE = 0.17  # inches from one line of a legend to the next
LOG_RATIO = 100.0  # from the least to the greatest value: an axis over more is logarithmic
HANDLE = 0.42  # inches of a legend's entry beside its text

DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.3, 1, 1.3)), (0, (8, 1.5)))
FILLED = ("full", "none", "left", "bottom", "right")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")

# One line per dash, one place per colour. What papers show side by side differs in colour; what belongs together,
# such as a method and its fine-tuned form, differs in the dash.
_PLACES = """
fedamp         fedavg       heurfedamp   apfl      fedprox    scaffold      apple        separate
pfedatt        fedavg-ft    twin         ditto     fedprox-ft vrlsgd        fedacs       pooled
psgd-residual  fedavg-local pfedme       fedfomo   perfedavg  psgd-share    l2gd         psgd-mtl
psgd-mixture   ifca         psgd-moreau  psgd-apfl fedala     fedbn         pfedgraph    mr-mtl
accord         -            -            -         fedbabu    fedrep        -            -
""".split()


class Pen(NamedTuple):
    """The way a row is drawn in every figure; no two share marker and dash, so that grey prints can be read too."""

    colour: str
    marker: str
    dash: Any
    filled: str  # the marker: wholly, in part or not, one way for each dash

    @property
    def line(self) -> dict[str, Any]:
        return {**self.dots, "linestyle": self.dash}

    @property
    def dots(self) -> dict[str, Any]:
        style: dict[str, Any] = {"color": self.colour, "marker": self.marker, "linestyle": ""}
        if self.filled == "full":
            return {**style, "markeredgecolor": "white", "markeredgewidth": 0.4, "markersize": 4}
        style |= {"markeredgecolor": self.colour, "markeredgewidth": 0.8, "markersize": 3.2}
        if self.filled == "none":
            return {**style, "markerfacecolor": "white"}  # not see-through: the line would show
        return {**style, "fillstyle": self.filled, "markerfacecoloralt": "white"}


def pen(place: int) -> Pen:
    """Return the pen with this number; after the last one they begin again."""
    colour, dash = place % len(COLOURS), place // len(COLOURS) % len(DASHES)
    return Pen(COLOURS[colour], MARKERS[colour], DASHES[dash], FILLED[dash])


def pens(names: Iterable[str]) -> dict[str, Pen]:
    """Return a pen for every name: a method has the same in all experiments, others take the first that are free."""
    names = list(names)
    own = {name: _PLACES.index(name.lower()) for name in names if name.lower() in _PLACES and name != "-"}
    free = (place for place in range(len(names) + len(_PLACES)) if place not in own.values())
    return {name: pen(own[name] if name in own else next(free)) for name in names}


@dataclass(frozen=True)
class Sheet:
    """A figure of small multiples, filled row by row."""

    figure: Figure
    axes: list[Axes]  # the panels
    spare: Axes | None  # an empty place, for a legend
    across: int
    width: float  # of a panel, in inches
    height: float

    def left(self, place: int) -> bool:
        return place % self.across == 0

    def bottom(self, place: int) -> bool:
        return place + self.across >= len(self.axes)

    def titles(self, texts: Sequence[str], always: bool = False) -> None:
        """Write a title over each panel, in as many lines as it needs; a single panel has none unless `always`."""
        if len(self.axes) > 1 or always:
            for axes, text in zip(self.axes, texts, strict=True):
                axes.set_title(_wrapped(text, self.width))

    def labels(self, x: str = "", y: str = "") -> None:
        """Write labels at the outer edges."""
        for place, axes in enumerate(self.axes):
            axes.set_xlabel(_wrapped(x, self.width - 0.3) if self.bottom(place) else "")
            axes.set_ylabel(_wrapped(y, self.height - 0.2) if self.left(place) else "")

    def level(self, always: bool = False) -> None:
        """Give all panels one y-axis; unless `always`, only if none of them would be squashed by it."""
        if any(axes.get_yscale() != "linear" for axes in self.axes):
            return
        limits = [axes.get_ylim() for axes in self.axes]
        low, high = min(limit[0] for limit in limits), max(limit[1] for limit in limits)
        if not always and high - low > 1.6 * min(top - bottom for bottom, top in limits):
            return
        for place, axes in enumerate(self.axes):
            axes.set_ylim(low, high)
            axes.tick_params(labelleft=self.left(place))

    def legend(self, handles: Sequence[Artist], labels: Sequence[str]) -> None:
        """Put the legend into the empty place if it fits there, else under the panels."""
        if self.spare is not None:
            columns = _spare_columns(labels, self.width, self.height)
            self.spare.legend(handles, labels, loc="center", ncols=columns, borderaxespad=0)
        else:
            columns, _ = _grid(labels, float(self.figure.get_figwidth()))
            self.figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def sheet(count: int, across: int, height: float, legend: Sequence[str] = (), width: float | None = None) -> Sheet:
    """Return panels of a height in inches, at most `across` in a row, with room for a legend of these labels."""
    from matplotlib.figure import Figure

    across = min(across, count)
    down = math.ceil(count / across)
    full = width or (COLUMN if across == 1 else TEXT)
    empty = across * down > count and bool(legend) and _spare_columns(legend, full / across, height) > 0
    below = 0.0 if empty or not legend else _grid(legend, full)[1] * LINE + 0.1
    figure = Figure(figsize=(full, down * height + below), layout="constrained")
    grid = figure.add_gridspec(down, across)
    axes = [figure.add_subplot(grid[place // across, place % across]) for place in range(count)]
    spare = None
    if empty:
        spare = figure.add_subplot(grid[down - 1, count % across :])
        spare.set_axis_off()
    return Sheet(figure, axes, spare, across, full / across, height)


def across(count: int, columns: int = 0) -> int:
    """Return how many panels stand side by side; those of a column stand below each other where that is possible."""
    return columns if columns in (2, 3) and count > columns else {1: 1, 2: 2, 4: 2}.get(count, 3)


def _wrapped(text: str, width: float) -> str:
    """Break a text into the lines that a width in inches needs; labels are a little larger than the small print."""
    return "\n".join(textwrap.wrap(text, max(8, int(width / LETTER / 1.05))))


def _entry_width(labels: Sequence[str]) -> float:
    """Return the width of the longest entry of a legend, in inches."""
    return HANDLE + LETTER * max(len(label) for label in labels) + 0.12


def _grid(labels: Sequence[str], width: float) -> tuple[int, int]:
    """Return the columns and lines of a legend under the panels."""
    most = max(1, int(width / _entry_width(labels)))
    lines = math.ceil(len(labels) / most)
    return math.ceil(len(labels) / lines), lines


def _spare_columns(labels: Sequence[str], width: float, height: float) -> int:
    """Return the columns of a legend in an empty place; 0 where it does not fit."""
    columns = math.ceil(len(labels) * LINE / (height - 0.3))
    return columns if columns * _entry_width(labels) <= width else 0


def handle(pen: Pen, dots: bool = False) -> Artist:
    """Return what a legend shows of a row: its line, or its marker alone."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **(pen.dots if dots else pen.line))


def whole_rounds(axes: Axes) -> None:
    """Put whole numbers along the x-axis: there are no half rounds."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10], integer=True))


def line_legend(drawn: Sheet, pens: Sequence[Pen], labels: Sequence[str]) -> None:
    """Add a legend of lines, unless there is only one: the caption says what that is."""
    if len(pens) > 1:
        drawn.legend([handle(pen) for pen in pens], labels)


def finite(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the values that were measured."""
    array = np.array(values, dtype=np.float64)
    return array[np.isfinite(array)]
