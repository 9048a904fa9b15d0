"""Synthetic clusters: classes that overlap, made of random numbers that do not follow a run's seed."""

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
    """Return ten classes of two Gaussian clusters each, which overlap and which no linear model separates well."""
    rng = stream(0, "source/synthetic")
    centres = 0.7 * torch.randn(10, 2, 20, generator=rng)  # [class, cluster, feature]

    def draw(per_class: int) -> Split:
        y = torch.arange(10).repeat(per_class)  # [n]
        cluster = torch.randint(2, (len(y),), generator=rng)
        return Split(centres[y, cluster] + torch.randn(len(y), 20, generator=rng), y)

    return Source(entry.name, draw(600), draw(150), entry.classes)
