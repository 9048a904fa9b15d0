"""Counts of examples per silo and class, how they are shared, and how they become examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from amity.contract import InputError


def equally(n: int, parts: int) -> list[int]:
    """Divide n into whole numbers that differ by at most one, the larger ones first."""
    return [n // parts + (part < n % parts) for part in range(parts)]


def proportionally(n: int, weights: Sequence[int]) -> list[int]:
    """Divide n into whole numbers in proportion to the weights; the largest remainders get what rounding leaves.

    Of equal remainders the first comes first. No number exceeds its weight if n is at most their sum.
    """
    total = sum(weights)
    parts = [n * weight // total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: -(n * weights[i] % total))
    for i in by_remainder[: n - sum(parts)]:
        parts[i] += 1
    return parts


def supply(y: Tensor, classes: int) -> Tensor:
    """Return how many examples there are of each class.  # [classes]"""
    return y.bincount(minlength=classes)


def apart(y: Tensor, quotas: Tensor, rng: Generator) -> list[Tensor]:
    """Draw random examples by quotas [m, classes]; no example goes to two silos."""
    return _drawn(_members(y, quotas.shape[1]), quotas, rng)


def overlapping(y: Tensor, quotas: Tensor, rng: Generator) -> list[Tensor]:
    """Draw random examples by quotas [m, classes]; silos may share an example, but none gets it twice."""
    members = _members(y, quotas.shape[1])
    return [_drawn(members, quota.unsqueeze(0), rng)[0] for quota in quotas]


def _members(y: Tensor, classes: int) -> list[Tensor]:
    """Return the positions of the examples of each class."""
    return list(torch.argsort(y, stable=True).split(supply(y, classes).tolist()))


def _drawn(members: list[Tensor], quotas: Tensor, rng: Generator) -> list[Tensor]:
    """Draw by quotas from the positions of each class, and return each silo's positions in ascending order."""
    silos = torch.arange(len(quotas))
    places, owners = [], []
    for those, counts in zip(members, quotas.T, strict=True):
        drawn = those[torch.randperm(len(those), generator=rng)]
        owner = silos.repeat_interleave(counts)
        places.append(drawn[: len(owner)])
        owners.append(owner[: len(drawn)])
    place, owner = torch.cat(places), torch.cat(owners)
    order = torch.argsort(owner, stable=True)
    return [part.sort().values for part in place[order].split(owner.bincount(minlength=len(quotas)).tolist())]


def cut(shares: Tensor, stock: Tensor) -> Tensor:
    """Cut every class by shares [m, classes] that add up to 1 or less, to within one example.  # [m, classes]"""
    ends = (shares.cumsum(0) * stock).round().long()
    return torch.diff(ends, dim=0, prepend=torch.zeros_like(ends[:1]))


def alike(quotas: Tensor, stock: Tensor, test_stock: Tensor) -> tuple[Tensor, int]:
    """Return test quotas by the shares of each class that silos have in training, and how many had to be moved.

    They are moved so that no silo is left without a test example.  # [m, classes]
    """
    return topped_up(cut(quotas / stock.clamp(min=1), test_stock), 1, quotas)


def topped_up(quotas: Tensor, least: int, like: Tensor) -> tuple[Tensor, int]:
    """Return quotas [m, classes] of at least this many examples per silo, and how many were moved for that.

    The largest silos give, of classes that the receiver has in `like` wherever somebody can spare one. There must be
    `least` examples for every silo in all.
    """
    quotas, moved = quotas.clone(), 0
    for silo in (quotas.sum(1) < least).nonzero().flatten().tolist():
        while (need := least - int(quotas[silo].sum())) > 0:
            spare = (quotas.sum(1) - least).clamp(min=0)  # [m]
            fitting = quotas * (like[silo] > 0)
            given = fitting if (fitting[spare > 0] > 0).any() else quotas
            giver = int((spare * (given > 0).any(1)).argmax())
            label = int(given[giver].argmax())
            count = min(need, int(spare[giver]), int(given[giver, label]))
            quotas[giver, label] -= count
            quotas[silo, label] += count
            moved += count
    return quotas, moved


def by_classes(held: Tensor) -> list[int]:
    """Return the group of each silo: those that hold the same classes, of [m, classes], have the same one."""
    sets = [tuple(row) for row in held.tolist()]
    number = {row: group for group, row in enumerate(sorted(set(sets), reverse=True))}
    return [number[row] for row in sets]


def largest(fits: Callable[[int], bool], bound: int) -> int:
    """Return the largest number up to `bound` that fits, or 0; if a number fits, all smaller ones must."""
    low, high = 0, bound
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def too_many(setting: str, data: str, most: int, clients: int) -> InputError:
    """Return the error for more silos than the data can serve."""
    if most == 0:
        return InputError(f"{setting} on {data} serves no silo at all, got {clients}: choose other data")
    return InputError(f"{setting} on {data} serves at most {most} clients, got {clients}: lower --clients")
