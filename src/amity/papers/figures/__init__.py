"""The figures of an experiment, as PNG and PDF, made from its outcomes alone.

    view.py          what a figure is asked to show: rows, columns, labels, options
    style.py         the look of all figures: sizes, fonts, pens, panels, legends, files
    curves.py        curves, clients: accuracies against the round
    distribution.py  distribution: the accuracies of all silos
    sweep.py         sweep: accuracies against the value of an option
    gains.py         gains: each silo against training alone
    suite.py         suite-map: the gain recovered, federation by method
    weights.py       heatmap, trajectories: who learns from whom
    settings.py      schedulers, division: what is known before any run

Matplotlib is imported where something is drawn, so that everything else works without it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from amity.config.options import unknown
from amity.papers.figures import curves, distribution, gains, settings, style, suite, sweep, weights
from amity.papers.figures.view import View
from amity.papers.outcome import writable_folder
from amity.papers.results import Results
from amity.papers.spec import Output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWINGS: dict[str, Callable[[View], Figure | None]] = {
    "curves": curves.curves,
    "distribution": distribution.distribution,
    "heatmap": weights.heatmap,
    "sweep": sweep.sweep,
    "trajectories": weights.trajectories,
    "clients": curves.clients,
    "schedulers": settings.schedulers,
    "division": settings.division,
    "gains": gains.gains,
    "suite-map": suite.suite_map,
}
"""Kinds of output that are figures, and what draws each of them: None where nothing is recorded yet."""


def draw(output: Output, results: Results, folder: Path, data_dir: str | None = None) -> list[Path]:
    """Draw one output and return its files, {folder}/{output.name}.png and .pdf: none where nothing is recorded."""
    if output.kind not in DRAWINGS:
        raise unknown("kind of figure", output.kind, DRAWINGS)
    with style.look():
        figure = DRAWINGS[output.kind](View(output, results, data_dir))
        if figure is None:
            return []
        with writable_folder(folder):
            return style.save(figure, folder, output.name)
