"""The settings of APPLE (Luo and Wu, IJCAI 2022): 12 silos, a matrix of shares for train and test alike.

Counts are shares of a class, rounded down to whole numbers; what is left over goes to nobody.

`shards`, the paper's practical setting: of every class one silo has 80 %, one has 10 %, and the others share the
last 10 % equally, 1 % each where there are 12; who has which is drawn anew for each class.

`pathological-apple`: random orders of all classes are laid one after the other and cut into pairs, one for each
silo. Of each class every holder has a random share.

Departures: any number of silos from 3 (`shards`) or 1. A pair that straddles two orders can name one class twice; the
second order is then drawn again, unless `allow_duplicate`. Shares that leave a silo nothing to train or to test on
are drawn again, up to 100 times. 15 % validation is the method's part (`val_fraction`), not the setting's. MedMNIST
keeps its official train and test parts, which the authors' code joins with the validation part and divides anew 80 to
20, and CIFAR-10 its 32 x 32 pixels, which it shrinks to 28 x 28: one data set is the same in every setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import InputError
from amity.data.settings.quotas import apart, by_classes, supply, too_many
from amity.data.settings.setting import Dealt
from amity.data.source import Source

_DRAWS = 100


@dataclass(frozen=True)
class Shards:
    """Of every class, 80 % for one silo, 10 % for another, 10 % for all others together."""

    def deal(self, source: Source, clients: int, rng: Generator) -> Dealt:
        if clients < 3:
            raise InputError(f"shards needs at least 3 clients, got {clients}: raise --clients")
        stock, test_stock = supply(source.train.y, source.classes), supply(source.test.y, source.classes)
        # A silo that has the small share of every class needs a class that gives it one example.
        most = 2 + min(int(stock.max()), int(test_stock.max())) // 10
        if clients > most:
            raise too_many("shards", source.name, most if most > 2 else 0, clients)
        parts = _parts(clients)
        owners = torch.stack([torch.randperm(clients, generator=rng) for _ in range(source.classes)], dim=1)
        shares = parts[owners]  # [m, classes]
        train, test = (apart(y, shares * n // parts.sum(), rng) for y, n in _sides(source, stock, test_stock))
        return Dealt(train, test, [None] * clients)


def _parts(clients: int) -> Tensor:
    """Return 80 %, 10 %, and 10 % for all others together, in whole parts of 10 (m - 2).  # [m]"""
    parts = torch.ones(clients, dtype=torch.int64)
    parts[0], parts[1] = 8 * (clients - 2), clients - 2
    return parts


def _sides(source: Source, stock: Tensor, test_stock: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
    return (source.train.y, stock), (source.test.y, test_stock)


@dataclass(frozen=True)
class PathologicalApple:
    """Two classes for each silo, and a random share of each."""

    called: ClassVar[str] = "pathological-apple"

    allow_duplicate: bool = option(False, "a silo's pair may be one class twice")
    share: Literal["normalised", "free"] = option(
        "normalised",
        "the holders' random shares add up to the whole class, or each takes a random part of what is left",
    )

    def __post_init__(self) -> None:
        check(self)

    def deal(self, source: Source, clients: int, rng: Generator) -> Dealt:
        if source.classes < 2:
            rule = f"{self.called} needs 2 classes or more"
            raise InputError(f"{rule}, {source.name} has {source.classes}: choose other data")
        stock, test_stock = supply(source.train.y, source.classes), supply(source.test.y, source.classes)
        most = min(len(source.train.y), len(source.test.y))
        if clients > most:
            raise too_many(self.called, source.name, most, clients)
        held = self._held(clients, source.classes, rng)
        for _ in range(_DRAWS):
            shares = self._shares(held, rng)
            quotas, test_quotas = ((shares * n).long() for n in (stock, test_stock))
            if quotas.any(1).all() and test_quotas.any(1).all():
                break
        else:
            raise InputError(
                f"{self.called} on {source.name} left a silo without examples in {_DRAWS} draws of the shares: "
                f"lower --clients, got {clients}"
            )
        train, test = apart(source.train.y, quotas, rng), apart(source.test.y, test_quotas, rng)
        return Dealt(train, test, by_classes(held))

    def _held(self, clients: int, classes: int, rng: Generator) -> Tensor:
        """Choose the classes that each silo holds.  # [m, classes] bool"""
        slots = torch.empty(0, dtype=torch.int64)
        while len(slots) < 2 * clients:
            order = torch.randperm(classes, generator=rng)
            straddles = len(slots) % 2 == 1
            if straddles and order[0] == slots[-1] and not self.allow_duplicate:
                continue
            slots = torch.cat([slots, order])
        return torch.zeros(clients, classes, dtype=torch.bool).scatter_(1, slots[: 2 * clients].view(-1, 2), True)

    def _shares(self, held: Tensor, rng: Generator) -> Tensor:
        """Draw each silo's share of each class.  # [m, classes]"""
        shares = torch.rand(held.shape, generator=rng, dtype=torch.float64) * held
        if self.share == "normalised":
            return shares / shares.sum(0).clamp(min=torch.finfo(torch.float64).tiny)
        order = torch.randperm(len(held), generator=rng)  # so that no silo always chooses first
        left = (1 - shares[order]).cumprod(0)  # after each
        before = torch.cat([torch.ones_like(left[:1]), left[:-1]])
        shares[order] = shares[order] * before
        return shares
