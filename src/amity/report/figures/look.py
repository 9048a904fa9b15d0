"""The look of figures on paper: fonts, sizes, lines, and the files that they are written to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amity.errors import InputError
from amity.record import replacing
from amity.report.figures.colours import INK, PALE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL = 7  # points of the small print

LOOK: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": "#9aa5b1",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": PALE,
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.2,
    "pdf.fonttype": 42,  # TrueType, which journals ask for
    "figure.dpi": 100,
    "savefig.dpi": 220,
}
_FILES: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Formats, and what matplotlib would write beside the picture: left out, so that equal figures are equal files."""


@contextmanager
def look() -> Iterator[None]:
    """Make everything drawn inside look the same on every machine, and put the user's own settings back afterwards."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("figures need matplotlib, which is not there: pip install 'amity[figures]'") from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(LOOK)
        yield


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure in all formats and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, metadata in _FILES.items():
        path = folder / f"{name}.{kind}"
        with replacing(path) as temporary:
            figure.savefig(temporary, format=kind, metadata=metadata)
        paths.append(path)
    return paths
