"""The silos that a data set has by nature: people, writers, patients, regions, schools, districts.

One rule says what is too small to be a silo: fewer than LEAST_TRAIN examples to learn from, or fewer than LEAST_TEST
to be judged by. Such a silo is left out with all its examples, and a note of the data says which ones and how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from amity.data.schema.columns import listed
from amity.data.source import NaturalSilo

LEAST_TRAIN = 10
LEAST_TEST = 2


class Dealing(NamedTuple):
    """Which examples the silos hold: positions, those of a silo together, one silo after the other."""

    silos: tuple[NaturalSilo, ...]
    train: tuple[Tensor, ...]  # [n] each, in ascending order
    test: tuple[Tensor, ...]
    notes: tuple[str, ...]  # the silos that were left out


def dealing(silo: Tensor, is_test: Tensor, names: Sequence[str], groups: Sequence[int | None] = ()) -> Dealing:
    """Return the silos of a data set, from the number of the silo and the part of each example.  # [n], [n] bool"""
    kept, train, test = list[NaturalSilo](), list[Tensor](), list[Tensor]()
    small, examples = list[str](), 0
    for number, name in enumerate(names):
        own = silo == number
        to_train, to_test = ((own & part).nonzero().flatten() for part in (~is_test, is_test))
        counts = len(to_train), len(to_test)
        if counts[0] < LEAST_TRAIN or counts[1] < LEAST_TEST:
            small.append(name)
            examples += sum(counts)
            continue
        kept.append(NaturalSilo(name, *counts, groups[number] if groups else None))
        train.append(to_train)
        test.append(to_test)
    return Dealing(tuple(kept), tuple(train), tuple(test), _left_out(small, examples))


def _left_out(names: Sequence[str], examples: int) -> tuple[str, ...]:
    if not names:
        return ()
    silos = "1 silo" if len(names) == 1 else f"{len(names)} silos"
    return (
        f"left out: {silos} with fewer than {LEAST_TRAIN} examples to train on or {LEAST_TEST} to test on, "
        f"{examples:,} examples in all ({listed(names)})",
    )


def joined(positions: Sequence[Tensor]) -> Tensor:
    """Return the positions of all silos as one.  # [n]"""
    return torch.cat(list(positions))
