"""Who takes part in a round, who drops out and when, and for how many epochs each trains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from amity.contract import Federation, InputError
from amity.options import check, option
from amity.streams import shuffled, stream


@dataclass(frozen=True)
class Participation:
    participation: float = option(1.0, "share of the silos sampled in each round", above=0, at_most=1)
    drop: float = option(0.0, "share of the sampled silos that drop out", at_least=0, at_most=1)
    drop_phase: Literal["before", "after"] = option("before", "they drop before training, or lose their upload after")
    epochs: int = option(5, "local epochs per round", at_least=1)
    local_epochs_range: tuple[int, int] | None = None  # each silo's own epochs, redrawn every round

    def __post_init__(self) -> None:
        check(self)
        if self.local_epochs_range is not None:
            low, high = self.local_epochs_range
            if not 1 <= low <= high:
                raise InputError(
                    f"local_epochs_range needs 1 <= LO <= HI, got {low}:{high}: give for example 1:{max(1, low, high)}"
                )

    def epochs_of(self, fed: Federation, client: int, round: int) -> int:
        """E, or this client's own E_i in this round."""
        if self.local_epochs_range is None:
            return self.epochs
        low, high = self.local_epochs_range
        rng = stream(fed.seed, "epochs", int(fed.keys[client]), round)
        return int(torch.randint(low, high + 1, (1,), generator=rng))


class Lot(NamedTuple):
    """How the lot fell in one round."""

    asked: Tensor  # sampled, less those dropped before training; ascending
    lost: frozenset[int]  # asked and trained, but the upload does not arrive
    dropped: dict[int, str]  # client -> why


def draw(rule: Participation, fed: Federation, round: int) -> Lot:
    """Sample clients and drop some of them, uniformly; at least one is asked and at least one kept."""
    order = shuffled(fed.keys, stream(fed.seed, "participation", 0, round))
    count = max(1, _nearest(rule.participation * fed.clients))
    sampled = order[:count]
    out = min(count - 1, _nearest(rule.drop * count))
    gone = sampled[shuffled(fed.keys[sampled], stream(fed.seed, "drop", 0, round))[:out]]
    why = "dropped before training" if rule.drop_phase == "before" else "upload lost after training"
    dropped = {client: why for client in sorted(gone.tolist())}
    if rule.drop_phase == "before":
        staying = sampled[~torch.isin(sampled, gone)]
        return Lot(staying.sort().values, frozenset(), dropped)
    return Lot(sampled.sort().values, frozenset(dropped), dropped)


def _nearest(value: float) -> int:
    return math.floor(value + 0.5)
