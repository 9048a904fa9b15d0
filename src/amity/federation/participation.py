"""Who takes part in a round, who drops out and when, and for how many epochs each trains."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from amity.config.participation import Participation
from amity.contract import Federation
from amity.learn.streams import shuffled, stream


def epochs_of(rule: Participation, fed: Federation, client: int, round: int) -> int:
    """E, or this client's own E_i in this round."""
    if rule.local_epochs_range is None:
        return rule.epochs
    low, high = rule.local_epochs_range
    rng = stream(fed.seed, "epochs", int(fed.keys[client]), round)
    return int(torch.randint(low, high + 1, (1,), generator=rng))


class Lot(NamedTuple):
    """How the lot fell in one round."""

    asked: Tensor  # sampled, less those dropped before training; ascending
    lost: frozenset[int]  # asked and trained, but the upload does not arrive
    dropped: dict[int, str]  # client -> why


def draw(rule: Participation, fed: Federation, round: int, left: frozenset[int] = frozenset()) -> Lot:
    """Sample clients and drop some of them, uniformly; at least one is asked and at least one kept.

    Nobody is left out of the ending. Those that have left the federation are not there to be drawn.
    """
    here = torch.tensor([client for client in range(fed.clients) if client not in left])
    if round == rule.ending:  # which is every silo's own affair
        return Lot(here, frozenset(), {})
    order = here[shuffled(fed.keys[here], stream(fed.seed, "participation", 0, round))]
    count, out = sampled_of(rule, len(here))
    sampled = order[:count]
    gone = sampled[shuffled(fed.keys[sampled], stream(fed.seed, "drop", 0, round))[:out]]
    why = "dropped before training" if rule.drop_phase == "before" else "upload lost after training"
    dropped = {client: why for client in sorted(gone.tolist())}
    if rule.drop_phase == "before":
        staying = sampled[~torch.isin(sampled, gone)]
        return Lot(staying.sort().values, frozenset(), dropped)
    return Lot(sampled.sort().values, frozenset(dropped), dropped)


def sampled_of(rule: Participation, silos: int) -> tuple[int, int]:
    """How many of so many silos are sampled in a round, and how many of these drop out.

    >>> sampled_of(Participation(participation=0.5, drop=0.3), 20)
    (10, 3)
    """
    count = max(1, _nearest(rule.participation * silos))
    return count, min(count - 1, _nearest(rule.drop * count))


def _nearest(value: float) -> int:
    return math.floor(value + 0.5)
