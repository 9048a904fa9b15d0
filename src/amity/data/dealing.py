"""What every setting returns, and how counts become examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from amity.contract import InputError


class Dealt(NamedTuple):
    """Positions in the arrays of a data set, one tensor per silo."""

    train: list[Tensor]
    test: list[Tensor]
    groups: Sequence[int | None]  # the distribution that each silo was drawn from, where that is known
    notes: tuple[str, ...] = ()  # departures from the plan
    names: Sequence[str] = ()  # of silos that have their own


def equally(n: int, parts: int) -> list[int]:
    """n as whole numbers that differ by at most one, the larger ones first."""
    return [n // parts + (part < n % parts) for part in range(parts)]


def supply(y: Tensor, classes: int) -> Tensor:
    """How many examples there are of each class.  # [classes]"""
    return y.bincount(minlength=classes)


def apart(y: Tensor, quotas: Tensor, rng: Generator) -> list[Tensor]:
    """Random examples by quotas [m, classes]; no example goes to two silos."""
    hands: list[list[int]] = [[] for _ in quotas]
    for label, counts in enumerate(quotas.T.tolist()):
        members = (y == label).nonzero().flatten()
        pool = iter(members[torch.randperm(len(members), generator=rng)].tolist())
        for hand, count in zip(hands, counts, strict=True):
            hand.extend(islice(pool, count))
    return [torch.tensor(sorted(hand), dtype=torch.int64) for hand in hands]


def overlapping(y: Tensor, quotas: Tensor, rng: Generator) -> list[Tensor]:
    """Random examples by quotas [m, classes]; silos may share an example, none gets it twice."""
    return [apart(y, quota.unsqueeze(0), rng)[0] for quota in quotas]


def largest(fits: Callable[[int], bool], bound: int) -> int:
    """The largest number up to `bound` that fits, or 0; if a number fits, all smaller ones must."""
    low, high = 0, bound
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def too_many(setting: str, data: str, most: int, clients: int) -> InputError:
    """The error for more silos than the data can serve."""
    if most == 0:
        return InputError(f"{setting} on {data} serves no silo at all, got {clients}: choose other data")
    return InputError(f"{setting} on {data} serves at most {most} clients, got {clients}: lower --clients")
