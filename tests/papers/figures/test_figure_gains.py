"""Gains over training alone: differences at the same seed, by silo or sorted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.drawing import ROWS, figure, panels
from papers.synthetic import results

from amity.papers.figures import style
from amity.papers.results import Results


def test_gains_are_differences_at_the_same_seed(tmp_path: Path) -> None:
    full = results(tmp_path, ROWS, {"left": {}}, seeds=2)
    found = Results(full.experiment, "cpu", {**full.outcomes, ("fedamp", "left"): full.seeds("fedamp", "left")[1:]}, {})
    (axes,) = panels(figure("gains", found))
    by_hand = {
        "fedamp": _difference(full, "fedamp", "separate", [1]),
        "fedavg": _difference(full, "fedavg", "separate", [0, 1]),
    }
    dots = {line.get_color(): line.get_xdata() for line in axes.lines[:2]}
    for row, gain in by_hand.items():
        assert dots[style.pens(ROWS)[row].colour] == pytest.approx(gain)
    (against,) = panels(figure("gains", found, against="fedavg"))
    assert len(against.lines) == 3 and "fedavg" in against.get_xlabel()  # two rows, and the line at zero


def _difference(found: Results, row: str, other: str, seeds: list[int]) -> Any:
    pairs = [(found.seeds(row, "left")[seed].accuracies, found.seeds(other, "left")[seed].accuracies) for seed in seeds]
    return np.mean([np.array(ours) - np.array(theirs) for ours, theirs in pairs], axis=0)


def test_gains_of_many_silos_are_sorted(tmp_path: Path) -> None:
    found = results(tmp_path, ROWS, {"left": {}}, silos=25)
    (axes,) = panels(figure("gains", found))
    zero, *lines = axes.lines
    assert list(zero.get_ydata()) == [0, 0]
    assert lines[0].get_ydata() == pytest.approx(sorted(_difference(found, "fedavg", "separate", [0]), reverse=True))
