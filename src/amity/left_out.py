"""Silos without their test data, and with a part of their training data in that place.

So a model can be judged after all that it learns from, an ending too, and still nothing is chosen by test data: what
`amity advise` probes by, and what `amity tune` compares runs with an ending by.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from amity.contract import Silo, Split
from amity.data import Silos
from amity.errors import InputError
from amity.learn.streams import key_of, stream

PARTS = 4
"""A silo's training data fall into so many parts, each of which may be left out once."""


def without(silos: Silos, part: int, seed: int) -> Silos:
    """Return the same silos with one part of each one's training data in place of its test data."""
    return replace(silos, silos=tuple(_parted(silo, part, seed) for silo in silos.silos))


def check_sizes(silos: Silos, who: str) -> None:
    """Refuse silos that are too small to leave something out, to hold something out and to learn from the rest."""
    small = [f"{silo.name!r} ({len(silo.train.y)})" for silo in silos.silos if len(silo.train.y) < PARTS]
    if small:
        some = ", ".join(small[:3]) + (", ..." if len(small) > 3 else "")
        raise InputError(
            f"{who} needs at least {PARTS} training examples at each silo, got fewer at {some}: leave these silos out"
        )


def _parted(silo: Silo, part: int, seed: int) -> Silo:
    x, y = silo.train
    left_out = parts_of(y, stream(seed, "advice", key_of(silo.name))) == part
    return silo._replace(train=Split(x[~left_out], y[~left_out]), test=Split(x[left_out], y[left_out]))


def parts_of(y: Tensor, rng: torch.Generator) -> Tensor:
    """Return the part that each example falls into: at random, with labels spread evenly over the parts.  # [n]"""
    order = torch.randperm(len(y), generator=rng)
    order = order[torch.argsort(y[order], stable=True)]  # by label, at random within
    out = torch.empty(len(y), dtype=torch.int64)
    out[order] = torch.arange(len(y)) % PARTS
    return out
