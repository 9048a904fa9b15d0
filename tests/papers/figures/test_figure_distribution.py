"""The distribution of accuracies over silos: every silo is seen, or counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from papers.drawing import COLUMNS, ROWS, figure, panels
from papers.synthetic import results


def test_silos_that_failed_do_not_squash_the_others(tmp_path: Path) -> None:
    """Two of 60 far below: the axis begins above them, and a mark says how many there are."""
    found = results(tmp_path, ROWS, {"left": {}}, silos=20)
    failed = found.seeds("fedavg", "left")[0]
    failed.content["best"]["accuracy"][:2] = [1.0, 2.0]
    (axes,) = panels(figure("distribution", found))
    hidden = [20 - len(dots.get_offsets()) for dots in axes.collections[::2]]  # beside each row's dots is its median
    assert axes.get_xlim()[0] > 30 and hidden[1] >= 2 and sum(hidden) <= 3
    assert [text.get_text().strip() for text in axes.texts] == [f"◂ {count}" for count in hidden if count]
    assert "silos left of the axis" in [text.get_text() for text in axes.figure.legends[0].texts]
    whole = figure("distribution", results(tmp_path, ROWS, {"left": {}}, silos=20))
    assert not panels(whole)[0].texts and "silos left of the axis" not in str(whole.legends[0].texts)


def test_distributions_show_every_silo(tmp_path: Path) -> None:
    found = results(tmp_path, ROWS, COLUMNS, seeds=2)
    first, second = panels(figure("distribution", found))
    shown = sorted(first.collections[0].get_offsets()[:, 0])
    assert shown == pytest.approx(sorted(v for seed in found.seeds("separate", "left") for v in seed.accuracies))
    assert [label.get_text() for label in first.get_yticklabels()] == ["Separate", "fedavg", "FedAMP"]
