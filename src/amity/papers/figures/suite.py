"""A map of federations by methods: the share of the gain that each method recovers in each of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from amity.papers.figures import style
from amity.papers.figures.view import View
from amity.papers.suite import Federation
from amity.papers.tables.suite import ends_of
from amity.report.figures import ABSENT, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 100.0  # percent: colours end there, on either side of training alone
THOUSAND = 1000.0  # percent: from here on shares are told in thousands


def suite_map(view: View) -> Figure | None:
    """Draw a square for each federation and method, blue where it recovers some of the gain, red where it loses."""
    from matplotlib import colormaps

    alone, ceiling = (view.known("rows", row) for row in ends_of(view.output))
    found = [Federation(view.results, column, alone, ceiling) for column in view.columns]
    found = [federation for federation in found if federation.rows]
    rows = [row for row in view.rows if any(row in federation.rows for federation in found)]
    if not rows:
        return None
    shares = np.array([[_share(federation, row) for row in rows] for federation in found])  # [federations, methods]
    names = [view.column_label(federation.column) for federation in found]
    drawn = style.sheet(1, 1, 0.26 * len(found) + 1.3, width=style.TEXT)
    axes = drawn.axes[0]
    colours = colormaps["RdBu"].with_extremes(bad=ABSENT)
    image = axes.imshow(np.ma.masked_invalid(shares), cmap=colours, vmin=-SHOWN, vmax=SHOWN, aspect="auto")
    for (down, across), share in np.ndenumerate(shares):
        if math.isfinite(share):
            ink = "white" if abs(share) > 0.65 * SHOWN else INK
            said = f"{share:.0f}" if abs(share) < THOUSAND else f"{share / THOUSAND:.0f}k"
            size = style.SMALL - (1 if len(said) < 4 else 2)  # four letters are as wide as a square of many
            axes.text(across, down, said, ha="center", va="center", fontsize=size, color=ink)
    axes.set_xticks(range(len(rows)), [view.row_label(row) for row in rows], rotation=60, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0)
    axes.grid(False)
    bar = axes.figure.colorbar(image, ax=axes, extend="both", pad=0.01, aspect=30)
    bar.set_label("gain recovered, %", fontsize=style.SMALL)
    bar.outline.set_linewidth(0.4)
    return drawn.figure


def _share(federation: Federation, row: str) -> float:
    share = federation.recovered(row)["share"] if row in federation.rows else None
    return math.nan if share is None else share
