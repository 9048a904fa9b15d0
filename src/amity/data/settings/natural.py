"""Silos as they are: a data set's own, or a user's folder of silos.

    heart           four hospitals                 eicu            four regions, and hospitals of unknown region
    har             30 people with a phone         exam            63 schools of inner London
    har-signals     the same                       contraception   55 districts of Bangladesh
    writers         60 writers, in two groups      parkinsons      42 patients

What is too small to be a silo is left out by the data set, and its notes say so (docs/data.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Generator, Tensor

from amity.contract import InputError
from amity.data.settings.setting import Dealt
from amity.data.source import Source


@dataclass(frozen=True)
class Natural:
    """The data set's own silos, as they are."""

    def deal(self, source: Source, clients: int, rng: Generator) -> Dealt:
        return _dealt(source, clients)


def _dealt(source: Source, clients: int) -> Dealt:
    own = source.silos
    if not own:
        raise InputError(f"natural needs data that come as silos, {source.name} does not: choose another setting")
    if clients != len(own):
        raise InputError(f"natural on {source.name} has {len(own)} silos, got {clients} clients: leave --clients out")

    def positions(counts: list[int]) -> list[Tensor]:
        return [torch.arange(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]

    return Dealt(
        train=positions([silo.train for silo in own]),
        test=positions([silo.test for silo in own]),
        groups=[silo.group for silo in own],
        names=[silo.name for silo in own],
    )
