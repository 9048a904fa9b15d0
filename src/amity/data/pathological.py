"""Two classes per silo (McMahan et al. 2017, in its pure form: no shard straddles two classes).

There are 2m class slots, each class equally often up to one, dealt so that the two classes of a silo differ.
The examples of a class are split equally over its slots, in train and test alike.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from amity.contract import InputError
from amity.data.dealing import Dealt, apart, equally, supply, too_many
from amity.data.sources import Source


def pathological(source: Source, clients: int, rng: Generator) -> Dealt:
    if source.classes < 2:
        raise InputError(f"pathological needs 2 classes or more, {source.name} has {source.classes}: choose other data")
    stock, test_stock = supply(source.train.y, source.classes), supply(source.test.y, source.classes)
    most = source.classes * int(torch.minimum(stock, test_stock).min()) // 2  # every slot needs an example
    if clients > most:
        raise too_many("pathological", source.name, most, clients)
    slots = _slots(clients, source.classes, rng)  # [m, 2]
    train = apart(source.train.y, _shares(slots, stock), rng)
    test = apart(source.test.y, _shares(slots, test_stock), rng)
    return Dealt(train, test, _groups(slots))


def _slots(clients: int, classes: int, rng: Generator) -> Tensor:
    """Two different classes per silo.  # [m, 2]"""
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


def _groups(slots: Tensor) -> list[int]:
    """Silos with the same two classes are of one group."""
    pairs = [tuple(sorted(pair)) for pair in slots.tolist()]
    number = {pair: group for group, pair in enumerate(sorted(set(pairs)))}
    return [number[pair] for pair in pairs]


def _shares(slots: Tensor, stock: Tensor) -> Tensor:
    """Each class's examples split equally over the silos that hold it.  # [m, classes]"""
    shares = torch.zeros(len(slots), len(stock), dtype=torch.int64)
    for label, count in enumerate(stock.tolist()):
        holders = (slots == label).any(1).nonzero().flatten()
        if len(holders):
            shares[holders, label] = torch.tensor(equally(count, len(holders)))
    return shares
