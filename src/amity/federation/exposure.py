"""What a mixture shows: whether all that a silo is sent from others is, in effect, one other silo's model.

A silo knows its own model, so it can take its own part out of what it is sent. What is left is

    sum over j != i of xi_ij w_j

and where one j has nearly all of that weight, what is left is w_j: docs/privacy.md has the arithmetic, and a test does
it. Who is shown to whom is said in the record; `--min-mix` prevents it (`methods/_mixing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from amity.contract import Download, Federation

SHOWN = 0.9
"""The share of what comes from others that shows a silo's model: the rest is a tenth of it at most."""

NOTHING = 1e-6
"""A weight of all others together that is lost in the rounding of float32: then nobody is shown."""


class Shown(NamedTuple):
    """A silo whose model another one can work out."""

    to: int
    model_of: int


def shown(weights: Tensor, who: Sequence[int]) -> list[Shown]:
    """The silos whose models the receivers `who` can all but read, from what each is mixed.  # [who, m]

    >>> shown(torch.tensor([[0.5, 0.49, 0.01], [0.2, 0.4, 0.4]]), [0, 1])
    [Shown(to=0, model_of=1)]
    """
    others = weights.abs().double().clone()
    others[range(len(who)), list(who)] = 0.0
    total, (largest, place) = others.sum(1), others.max(1)
    found = (total > NOTHING) & (largest >= SHOWN * total)
    return [Shown(who[at], int(place[at])) for at in found.nonzero()[:, 0].tolist()]


def least_uploads(fed: Federation) -> int:
    """The uploads that a round needs, so that nobody is shown by being averaged with too few others."""
    return 0 if fed.least_mix == 1 else fed.least_mix + 1


def warning(down: Download, who: Sequence[int], names: Sequence[str]) -> list[str]:
    """What the record says where a silo is shown to another: one line, which names the first two."""
    found = [] if down.weights is None else shown(down.weights, who)
    if not found:
        return []
    to, one = (names[client] for client in found[0])
    others = "" if len(found) == 1 else ", and others are shown likewise"
    return [
        f"{to} is sent little but {one}'s model, and can work it out{others}: --min-mix mixes more (docs/privacy.md)"
    ]
