"""Curves against the round: the drawn lines are compared with numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.drawing import COLUMNS, ROWS, figure, panels
from papers.synthetic import ROUNDS, experiment, outcome, results

from amity.papers.results import Results
from amity.report.figures import COLOURS


def test_curves_show_the_mean_over_seeds_and_one_deviation(tmp_path: Path) -> None:
    found = results(tmp_path, {"fedamp": {}}, {"left": {}}, seeds=3, every=3)
    (axes,) = panels(figure("curves", found, y="worst"))
    seeds: Any = [found.seeds("fedamp", "left")[seed].rounds["worst"][::3] for seed in range(3)]
    line, band = axes.lines[0], axes.collections[0].get_paths()[0].vertices
    assert list(line.get_xdata()) == list(range(1, ROUNDS + 1, 3))
    assert line.get_ydata() == pytest.approx(np.mean(seeds, axis=0))
    assert line.get_color() == COLOURS[0]
    top = band[band[:, 0] == 1][:, 1].max()
    assert top == pytest.approx(np.mean(seeds, axis=0)[0] + np.std(seeds, axis=0, ddof=1)[0])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "worst silo's test accuracy, %")


def test_curves_either_way_round(tmp_path: Path) -> None:
    found = results(tmp_path, ROWS, COLUMNS)
    by_row, by_column = figure("curves", found), figure("curves", found, by="column")
    assert [axes.get_title() for axes in panels(by_row)] == ["LEFT", "right"]
    assert [axes.get_title() for axes in panels(by_column)] == ["Separate", "fedavg", "FedAMP"]
    assert [len(axes.lines) for axes in panels(by_row)] == [3, 3]
    assert [len(axes.lines) for axes in panels(by_column)] == [2, 2, 2]
    (short,) = {len(line.get_xdata()) for axes in panels(figure("curves", found, rounds=7)) for line in axes.lines}
    assert short == 7


def test_clients_show_every_silo_and_their_mean(tmp_path: Path) -> None:
    found = results(tmp_path, {"fedamp": {}}, {"left": {}}, every=2)
    (axes,) = panels(figure("clients", found))
    one = found.seeds("fedamp", "left")[0]
    measured = np.array([row for row in one.clients or [] if row])
    assert len(axes.lines) == 9
    assert axes.lines[3].get_ydata() == pytest.approx(measured[:, 3])
    assert axes.lines[8].get_ydata() == pytest.approx(measured.mean(axis=1))


def test_silos_of_all_methods_are_seen_on_one_axis(tmp_path: Path) -> None:
    """Whose silos lie closer together could not be told from axes of their own."""
    plan = experiment({"fedavg": {}, "fedamp": {}}, {"left": {}})
    found = {(row, "left"): [outcome(tmp_path / row, level=level)] for row, level in (("fedavg", 10), ("fedamp", 90))}
    low, high = panels(figure("clients", Results(plan, "cpu", found, {})))
    assert low.get_ylim() == high.get_ylim()
