"""The figures of an experiment, as PNG and PDF, made from its outcomes alone.

    view.py        what a figure is asked to show: rows, columns, labels, options
    paper.py       how all of them look: sizes, fonts, pens, panels, legends, files
    accuracies.py  curves, distribution, sweep, clients, gains
    weights.py     heatmap, trajectories
    settings.py    schedulers, division: what is known before any run

Matplotlib is imported where something is drawn, so that everything else works without it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from amity.experiments.figures import accuracies, paper, settings, weights
from amity.experiments.figures.view import View
from amity.experiments.outcome import writing
from amity.experiments.reproduce import Results
from amity.experiments.spec import Output
from amity.options import unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWINGS: dict[str, Callable[[View], Figure | None]] = {
    "curves": accuracies.curves,
    "distribution": accuracies.distribution,
    "heatmap": weights.heatmap,
    "sweep": accuracies.sweep,
    "trajectories": weights.trajectories,
    "clients": accuracies.clients,
    "schedulers": settings.schedulers,
    "division": settings.division,
    "gains": accuracies.gains,
}
"""Kind of output -> what draws it; None where nothing is recorded yet."""


def draw(output: Output, results: Results, folder: Path, data_dir: str | None = None) -> list[Path]:
    """Draw one output; gives the files written ({folder}/{output.name}.png and .pdf).

    An output for which nothing is recorded yet writes nothing and gives [].
    """
    if output.kind not in DRAWINGS:
        raise unknown("kind of figure", output.kind, DRAWINGS)
    with paper.look():
        figure = DRAWINGS[output.kind](View(output, results, data_dir))
        if figure is None:
            return []
        with writing(folder):
            return paper.save(figure, folder, output.name)
