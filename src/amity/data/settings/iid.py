"""Every silo sees the same distribution: shuffled and split equally, train and test alike (FedAMP, PFedAtt)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator

from amity.data.settings.quotas import too_many
from amity.data.settings.setting import Dealt
from amity.data.source import Source


@dataclass(frozen=True)
class Iid:
    """Equal random parts."""

    def deal(self, source: Source, clients: int, rng: Generator) -> Dealt:
        most = min(len(source.train.y), len(source.test.y))
        if clients > most:
            raise too_many("iid", source.name, most, clients)
        train, test = (
            [part.sort().values for part in torch.randperm(len(split.y), generator=rng).tensor_split(clients)]
            for split in (source.train, source.test)
        )
        return Dealt(train, test, [0] * clients)
