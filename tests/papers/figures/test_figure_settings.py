"""Figures of what is known before any run: APPLE's penalty, and who holds what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.drawing import COLUMNS, ROWS, figure, panels
from papers.synthetic import experiment, results

from amity.config.run import Run
from amity.papers.figures import settings
from amity.papers.results import Results
from amity.papers.runs import deal_silos
from amity.report.figures import COLOURS


def test_schedulers_end_where_the_penalty_does(tmp_path: Path) -> None:
    (axes,) = panels(figure("schedulers", results(tmp_path, ROWS, COLUMNS), rounds=8, penalty_rounds=0.5))
    cosine, exponential = (line.get_ydata() for line in axes.lines)
    root = 0.5**0.5
    assert cosine == pytest.approx([1, (1 + root) / 2, 0.5, (1 - root) / 2, 0, 0, 0, 0])
    assert exponential == pytest.approx([1, 1e-3**0.25, 1e-3**0.5, 1e-3**0.75, 0, 0, 0, 0])


def test_bubbles_of_a_few_examples_are_still_seen() -> None:
    from matplotlib.figure import Figure

    axes: Any = Figure().add_subplot()
    settings._draw_bubbles(axes, np.array([[6000, 10], [0, 1]]), [COLOURS[0]] * 2, 196 / 6000)
    assert sorted(axes.collections[0].get_sizes()) == pytest.approx([1, 1, 196])


def test_bubbles_are_as_large_as_the_counts() -> None:
    plan = experiment({"fedavg": {"choose": {"lr": [0.1, 0.2]}}}, {"left": {"per_silo": 40}})
    (axes,) = panels(figure("division", Results(plan, "cpu", {}, {})))
    run = Run(method="fedavg", data="digits", setting="practical", clients=6)
    counts = np.array([s["train"] for s in deal_silos(run).at_most(40, 0).manifest()["silos"]])  # [m, classes]
    (dots,) = axes.collections
    places, sizes = dots.get_offsets().astype(int), dots.get_sizes()
    assert len(places) == (counts > 0).sum()
    held = np.array([counts[silo, label] for silo, label in places])
    assert sizes / sizes.max() == pytest.approx(held / held.max())


def test_many_silos_are_cells_of_a_grid() -> None:
    plan = experiment({"fedavg": {}}, {"left": {"clients": 50}})
    axes = panels(figure("division", Results(plan, "cpu", {}, {})))[0]
    assert axes.images[0].get_array().shape == (10, 50)
