"""Digits: 8x8 handwritten digits that come with scikit-learn. Their division does not follow a run's seed."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from amity.contract import Split
from amity.data.division import Division
from amity.data.sets.entry import SourceEntry
from amity.data.source import Source
from amity.learn.streams import stream


def build(entry: SourceEntry, _: Mapping[str, Tensor], __: Division) -> Source:
    """Return the digits, with 30 % of every class for testing."""
    from sklearn.datasets import load_digits  # here, because it takes a second

    pixels, labels = load_digits(return_X_y=True)
    x = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8).div_(8).sub_(1)  # pixels are 0 to 16
    y = torch.tensor(labels, dtype=torch.int64)
    held_out = _stratified(y, 0.3)
    return Source(entry.name, Split(x[~held_out], y[~held_out]), Split(x[held_out], y[held_out]), entry.classes)


def _stratified(y: Tensor, fraction: float) -> Tensor:
    """Choose this fraction of every class at random.  # [n] bool"""
    rng = stream(0, "source/digits")
    chosen = torch.zeros(len(y), dtype=torch.bool)
    for label in range(int(y.max()) + 1):
        members = (y == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=rng)
        chosen[members[order[: round(fraction * len(members))]]] = True
    return chosen
