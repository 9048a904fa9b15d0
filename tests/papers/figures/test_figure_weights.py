"""Collaboration weights: sorted by group, scaled by the weights of others, also where some are negative."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.drawing import GROUPS, figure, not_blank, panels
from papers.synthetic import ROUNDS, results, save_weights

from amity.papers.figures import draw
from amity.papers.spec import Output

FOUR: dict[str, Any] = {name: {} for name in ("mnist", "fmnist", "emnist", "cifar100")}


@pytest.mark.parametrize("kind", ["heatmap", "trajectories"])
def test_negative_weights(kind: str, tmp_path: Path) -> None:
    found = results(tmp_path, {"apple": {}}, FOUR, weights=True, signed=True)
    assert not_blank(draw(Output(kind, "it"), found, tmp_path)[0])


def test_heatmaps_are_sorted_by_group_and_scaled_by_the_others(tmp_path: Path) -> None:
    found = results(tmp_path, {"fedamp": {"label": "FedAMP"}}, {"left": {}}, weights=True, groups=GROUPS)
    axes = panels(figure("heatmap", found))[0]
    (image,) = axes.images
    weights = found.seeds("fedamp", "left")[0].weights[ROUNDS]
    order = [0, 2, 6, 1, 3, 7, 4, 5]
    assert np.array_equal(image.get_array(), weights[np.ix_(order, order)])
    others = weights[~np.eye(8, dtype=bool)]
    assert image.get_clim() == pytest.approx((0, others.max()))
    assert axes.get_title() == "FedAMP, left: block score 12.3"
    assert [line.get_ydata()[0] for line in axes.lines[::2]] == [2.5, 5.5]
    bar = axes.child_axes[0]
    assert "clipped" in bar.get_ylabel()


def test_signed_weights_have_their_zero_in_the_middle(tmp_path: Path) -> None:
    found = results(tmp_path, {"apple": {}}, {"left": {}}, weights=True, signed=True)
    low, high = panels(figure("heatmap", found))[0].images[0].get_clim()
    assert low == -high < 0


def test_weights_that_were_not_asked_for_or_are_all_own(tmp_path: Path) -> None:
    found = results(tmp_path, {"apple": {}}, {"left": {}}, weights=True)
    one = found.seeds("apple", "left")[0]
    alone, unknown = np.eye(8), np.full((8, 8), np.nan)
    save_weights(one.path, {1: alone, 2: unknown, 3: alone})
    assert panels(figure("heatmap", found))[0].images[0].get_clim() == (0, 1)
    again = results(tmp_path, {"apple": {}}, {"left": {}}, weights=False)  # the same file, read anew
    left, right = panels(figure("trajectories", again, silo=2))
    assert [list(line.get_xdata()) for line in right.lines] == [[1, 3]] * 8
    assert [list(line.get_ydata()) for line in left.lines] == [[float(silo == 2)] * 2 for silo in range(8)]
    save_weights(one.path, {1: unknown})
    assert len(draw(Output("heatmap", "it"), results(tmp_path, {"apple": {}}, {"left": {}}), tmp_path)) == 2
