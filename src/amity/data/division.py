"""A test part for data that bring none: a seeded choice that takes its share of every class."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from amity.contract import InputError, Split
from amity.learn.streams import key_of, stream


class Division(NamedTuple):
    """The rule by which data without a test part are divided."""

    seed: int = 0
    test_fraction: float = 0.2

    def held_out(self, y: Tensor, name: str) -> Tensor:
        """Choose the examples of a silo that are for testing: the same share of every class, up to one.  # [n] bool

        The choice depends on the seed and the silo's name, not on the other silos.
        """
        if not isinstance(self.test_fraction, (int, float)) or not 0 < self.test_fraction < 1:
            raise InputError(f"the test fraction must be > 0 and < 1, got {self.test_fraction!r}: set it to 0.2")
        n = len(y)
        if n < 2:
            raise InputError(f"silo {name!r} needs 2 examples or more to train and test on, got {n}: add some")
        count = min(max(1, round(self.test_fraction * n)), n - 1)
        return choose_by_class(y, count, stream(self.seed, "test", key_of(name)))

    def divide(self, whole: Split, name: str) -> tuple[Split, Split]:
        """Return the train and the test part of one silo."""
        held_out = self.held_out(whole.y, name)
        return Split(whole.x[~held_out], whole.y[~held_out]), Split(whole.x[held_out], whole.y[held_out])


def choose_by_class(y: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """Choose `count` examples at random, of each class its share up to one.  # [n] bool"""
    order = torch.randperm(len(y), generator=rng)
    order = order[torch.argsort(y[order], stable=True)]  # by class, at random within
    # Every (n / count)-th from a random start: each class gives its share up to one, no example is favoured.
    start = torch.rand((), generator=rng, dtype=torch.float64)
    ticks = ((torch.arange(count) + start) * (len(y) / count)).long().clamp(max=len(y) - 1)
    chosen = torch.zeros(len(y), dtype=torch.bool)
    chosen[order[ticks]] = True
    return chosen
