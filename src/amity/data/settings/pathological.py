"""Two classes per silo (McMahan et al., AISTATS 2017).

`pure`: there are 2m class slots, each class equally often up to one, dealt so that the two classes of a silo
differ. The examples of a class are split equally over its slots, in train and test alike.

`shards`: the examples, sorted by class, are cut into 2m equal shards, and every silo gets two at random. They may
be of one class, and a shard may straddle two. Test examples follow the shares of each class that silos train on.

Departures: `pure` is the default, because only with it every silo has two classes, whatever the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import InputError
from amity.data.settings.quotas import alike, apart, by_classes, equally, supply, too_many
from amity.data.settings.setting import Dealt
from amity.data.source import Source


@dataclass(frozen=True)
class Pathological:
    """Two classes, or two shards of the sorted data, for each silo."""

    scheme: Literal["pure", "shards"] = option(
        "pure", "two different classes per silo, or two random shards of the sorted data"
    )

    def __post_init__(self) -> None:
        check(self)

    def deal(self, source: Source, clients: int, rng: Generator) -> Dealt:
        return (_pure if self.scheme == "pure" else _shards)(source, clients, rng)


def _pure(source: Source, clients: int, rng: Generator) -> Dealt:
    if source.classes < 2:
        raise InputError(f"pathological needs 2 classes or more, {source.name} has {source.classes}: choose other data")
    stock, test_stock = supply(source.train.y, source.classes), supply(source.test.y, source.classes)
    most = source.classes * int(torch.minimum(stock, test_stock).min()) // 2  # every slot needs an example
    if clients > most:
        raise too_many("pathological", source.name, most, clients)
    slots = _slots(clients, source.classes, rng)  # [m, 2]
    held = torch.zeros(clients, source.classes, dtype=torch.bool).scatter_(1, slots, True)
    train = apart(source.train.y, _shares(held, stock), rng)
    test = apart(source.test.y, _shares(held, test_stock), rng)
    return Dealt(train, test, by_classes(held))


def _slots(clients: int, classes: int, rng: Generator) -> Tensor:
    """Deal two different classes to each silo.  # [m, 2]"""
    copies = torch.tensor(equally(2 * clients, classes))
    labels = torch.randperm(classes, generator=rng)  # which classes get the odd slots is random
    deck = labels.repeat_interleave(copies)
    slots = deck[torch.randperm(len(deck), generator=rng)].view(clients, 2)
    for silo in range(clients):
        first, second = slots[silo].tolist()
        if first == second:
            # A class has at most m slots, so some silo has none of it: a swap with that one mends the pair.
            without = (slots != first).all(1).nonzero().flatten()
            other = without[torch.randint(len(without), (), generator=rng)]
            slots[silo, 1], slots[other, 1] = slots[other, 1].item(), second
    return slots


def _shares(held: Tensor, stock: Tensor) -> Tensor:
    """Split each class's examples equally over the silos that hold it.  # [m, classes]"""
    shares = torch.zeros(held.shape, dtype=torch.int64)
    for label, count in enumerate(stock.tolist()):
        holders = held[:, label].nonzero().flatten()
        if len(holders):
            shares[holders, label] = torch.tensor(equally(count, len(holders)))
    return shares


def _shards(source: Source, clients: int, rng: Generator) -> Dealt:
    y = source.train.y
    stock, test_stock = supply(y, source.classes), supply(source.test.y, source.classes)
    most = min(len(y) // 2, int(test_stock[stock > 0].sum()))
    if clients > most:
        raise too_many("pathological", source.name, most, clients)
    order = torch.randperm(len(y), generator=rng)
    shards = order[torch.argsort(y[order], stable=True)].tensor_split(2 * clients)
    pairs = torch.randperm(2 * clients, generator=rng).view(clients, 2).tolist()
    train = [torch.cat([shards[first], shards[second]]).sort().values for first, second in pairs]
    quotas = torch.stack([supply(y[part], source.classes) for part in train])
    test_quotas, moved = alike(quotas, stock, test_stock)
    notes = (f"{moved} test examples were moved so that every silo has one",) if moved else ()
    return Dealt(train, apart(source.test.y, test_quotas, rng), by_classes(quotas > 0), notes)
