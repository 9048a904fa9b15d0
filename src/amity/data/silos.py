"""A federation's data: one `Silo` after another, dealt from a data set or brought by the user."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from amity.contract import InputError, Scale, Silo, Split
from amity.data.division import spread
from amity.streams import key_of, stream


@dataclass(frozen=True, eq=False)
class Silos:
    """The silos of a federation and where they come from."""

    silos: tuple[Silo, ...]
    classes: int  # 0: labels are quantities, not classes
    data: str
    setting: str
    notes: tuple[str, ...] = ()  # departures from the setting's plan
    labels: tuple[str, ...] = ()  # names of the classes, where they have names
    participation: float = 1.0  # the share of silos sampled in each round, unless a run says otherwise

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example."""
        return tuple(self.silos[0].train.x.shape[1:])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Training examples per silo."""
        return tuple(len(silo.train.y) for silo in self.silos)

    def at_most(self, count: int, seed: int) -> Silos:
        """The same silos with a random part of the training data where they have more than `count`; 0: all.

        Tests and validation data that silos brought stay whole. A larger count gives a larger part of the same.
        """
        if count < 0:
            raise InputError(f"the training examples per silo must be >= 0, got {count}: set --per-silo 0 for all")
        return replace(self, silos=tuple(_reduced(silo, count, seed) for silo in self.silos)) if count else self

    def with_validation(self, fraction: float, seed: int) -> Silos:
        """The same silos with a random fraction of each class of their training data set aside.

        Silos that brought validation data keep it, and all their training data.
        """
        if not 0 <= fraction < 1:
            raise InputError(f"the validation fraction must be >= 0 and < 1, got {fraction}: set --val-fraction 0.15")
        if fraction == 0:
            return self
        return replace(self, silos=tuple(_set_aside(silo, fraction, seed) for silo in self.silos))

    def standardised(self) -> Silos:
        """The same silos, with quantities as each silo sees them: less the mean of its own training labels, over their
        deviation. Classes stay.

        By itself, so that nothing about its labels leaves a silo, and a rate that suits one suits all. What is
        measured is in the silo's own unit again (`Silo.scale`). A federation whose silos differ in the level or the
        scale of their labels alone is thereby made of equals; one that has a rule in common, but inputs on
        different levels, has to learn its offsets.
        """
        return self if self.classes else replace(self, silos=tuple(_standardised(silo) for silo in self.silos))

    def pooled(self) -> Silos:
        """The same silos, but all training data lie at the first; the others have none. Tests stay where they are."""
        first, *others = self.silos
        x = torch.cat([silo.train.x for silo in self.silos])
        y = torch.cat([silo.train.y for silo in self.silos])
        emptied = (silo._replace(train=Split(silo.train.x[:0], silo.train.y[:0])) for silo in others)
        note = f"all training data lie at {first.name!r}, a reference that no federation has: its traffic means nothing"
        return replace(self, silos=(first._replace(train=Split(x, y)), *emptied), notes=(*self.notes, note))

    def manifest(self) -> dict[str, Any]:
        """What each silo holds, and a hash of all of it: equal hashes, equal federations."""
        return {
            "data": self.data,
            "setting": self.setting,
            "classes": self.classes,
            "labels": list(self.labels),
            "shape": list(self.shape),
            "notes": list(self.notes),
            "silos": [
                {"name": silo.name, "group": silo.group}
                | {part: self._counts(split) for part, split in parts(silo).items()}
                for silo in self.silos
            ],
            "sha256": self.sha256,
        }

    def _counts(self, split: Split | None) -> list[int] | None:
        """Examples per class; in all, where there are no classes."""
        if split is None:
            return None
        return split.y.bincount(minlength=self.classes).tolist() if self.classes else [len(split.y)]

    @cached_property
    def sha256(self) -> str:
        """A hash of every silo's name and data, with the unit of its labels where they are quantities."""
        digest = hashlib.sha256(f"{self.classes}".encode())
        for silo in self.silos:
            if not self.classes:
                digest.update(f"/{tuple(silo.scale)}/".encode())  # standardised, labels are the same in every unit
            for part, split in parts(silo).items():
                if split is not None:
                    digest.update(f"/{silo.name}/{part}/{tuple(split.x.shape)}/".encode())
                    digest.update(split.x.contiguous().numpy().data)
                    digest.update(split.y.contiguous().numpy().data)
        return digest.hexdigest()


def parts(silo: Silo) -> dict[str, Split | None]:
    return {"train": silo.train, "val": silo.val, "test": silo.test}


def _standardised(silo: Silo) -> Silo:
    own = silo.train.y.double()
    # A constant label is as well off without, and rounding must not make a deviation of it.
    constant = bool((own == own[:1]).all())
    zero = own[:1].sum() if constant else own.mean()
    scale = Scale(zero.item(), 1.0 if constant else own.std(correction=0).item() or 1.0)

    def seen(split: Split) -> Split:
        y = ((split.y.double() - scale.zero) / scale.unit).float()
        if not (math.isfinite(scale.unit) and y.isfinite().all()):
            raise InputError(
                f"silo {silo.name!r}: quantities must be finite less their mean and over their deviation, got mean "
                f"{scale.zero:g}, deviation {scale.unit:g}: use a larger unit or drop extreme ones"
            )
        return Split(split.x, y)

    val = None if silo.val is None else seen(silo.val)
    return silo._replace(train=seen(silo.train), val=val, test=seen(silo.test), scale=scale)


def _reduced(silo: Silo, count: int, seed: int) -> Silo:
    x, y = silo.train
    if len(y) <= count:
        return silo
    chosen = torch.randperm(len(y), generator=stream(seed, "per-silo", key_of(silo.name)))[:count].sort().values
    return silo._replace(train=Split(x[chosen], y[chosen]))


def _set_aside(silo: Silo, fraction: float, seed: int) -> Silo:
    if silo.val is not None:
        return silo
    x, y = silo.train
    count = max(1, round(fraction * len(y)))
    if count >= len(y):
        raise InputError(
            f"silo {silo.name!r} needs a training example besides validation, val-fraction {fraction} "
            f"leaves none of {len(y)}: lower --val-fraction"
        )
    chosen = spread(y, count, stream(seed, "validation", key_of(silo.name)))
    return silo._replace(train=Split(x[~chosen], y[~chosen]), val=Split(x[chosen], y[chosen]))
