"""A federation's data: one `Silo` after another, dealt from a data set or brought by the user."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from amity.contract import InputError, Scale, Silo, Split
from amity.data.division import choose_by_class
from amity.data.manifest import Manifest, SiloCounts
from amity.data.schema.account import ColumnAccount
from amity.data.schema.columns import told
from amity.data.schema.table_schema import TableSchema
from amity.learn.streams import key_of, stream

NAMED = 8  # silos whose names are printed


@dataclass(frozen=True, eq=False)
class Silos:
    """The silos of a federation and where they come from.

    >>> amity.deal(amity.load("digits"), "iid", clients=3, seed=0)
    3 silos of digits, iid: 10 classes, examples of shape (1, 8, 8)
      419 to 420 training examples each, 1258 in all; 539 test examples
      silo-00, silo-01, silo-02
    """

    silos: tuple[Silo, ...]
    classes: int  # 0: labels are quantities, not classes
    data: str
    setting: str
    notes: tuple[str, ...] = ()  # departures from the setting's plan
    labels: tuple[str, ...] = ()  # names of the classes, where they have names
    participation: float = 1.0  # the share of silos sampled in each round, unless a run says otherwise
    label: str = ""  # the column of the labels, where the data are tables with named columns
    features: tuple[str, ...] = ()  # and the names of the features
    schema: TableSchema | None = None  # by which tables became features: it codes new rows
    account: tuple[ColumnAccount, ...] = ()  # what was done with each of their columns, in words
    pixels: bool = False  # whether whole numbers 0 to 255 were taken for pixels, and scaled to -1 to 1

    @property
    def columns(self) -> str:
        """The names of the label and the features in a few words; empty where they have none."""
        return told(self.label, self.features) if self.features else ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.silos[0].train.x.shape[1:])

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of training examples of each silo."""
        return tuple(len(silo.train.y) for silo in self.silos)

    def at_most(self, count: int, seed: int) -> Silos:
        """Return the same silos with at most `count` training examples each, chosen at random; 0 keeps all.

        Test and validation data that silos brought stay whole. A larger count adds to the choice of a smaller one.
        """
        if count < 0:
            raise InputError(f"the training examples per silo must be >= 0, got {count}: set --per-silo 0 for all")
        return replace(self, silos=tuple(_reduced(silo, count, seed) for silo in self.silos)) if count else self

    def with_validation(self, fraction: float, seed: int) -> Silos:
        """Return the same silos with a random fraction of each class of their training data set aside.

        Silos that brought validation data keep it, and all their training data.
        """
        if not 0 <= fraction < 1:
            raise InputError(f"the validation fraction must be >= 0 and < 1, got {fraction}: set --val-fraction 0.15")
        if fraction == 0:
            return self
        return replace(self, silos=tuple(_set_aside(silo, fraction, seed) for silo in self.silos))

    def __str__(self) -> str:
        """Return a few lines: how many silos there are, how large they are, and what they hold."""
        sizes = sorted(self.sizes)
        what = f"{self.classes} classes" if self.classes else "quantities"
        tests = sum(len(silo.test.y) for silo in self.silos)
        names = ", ".join(silo.name for silo in self.silos[:NAMED]) + (", ..." if len(self.silos) > NAMED else "")
        return "\n".join(
            [
                f"{len(self.silos)} silos of {self.data}, {self.setting}: {what}, examples of shape {self.shape}",
                f"  {sizes[0]} to {sizes[-1]} training examples each, {sum(sizes)} in all; {tests} test examples",
                f"  {names}",
            ]
        )

    __repr__ = __str__

    def standardised(self) -> Silos:
        """Return the same silos with standardised quantities: less the mean of a silo's own training labels, over their
        deviation. Classes stay as they are.

        Every silo does this by itself, so that nothing about its labels leaves it, and a learning rate that suits one
        suits all. Results are measured in the silo's own unit again (`Silo.scale`). Silos that differ only in the level
        or the scale of their labels thereby become equals; silos that share a rule, but have inputs on different
        levels, have to learn their offsets.
        """
        return self if self.classes else replace(self, silos=tuple(_standardised(silo) for silo in self.silos))

    def pooled(self) -> Silos:
        """Return the same silos with all training data at the first and none at the others. Test data stay."""
        first, *others = self.silos
        x = torch.cat([silo.train.x for silo in self.silos])
        y = torch.cat([silo.train.y for silo in self.silos])
        emptied = (silo._replace(train=Split(silo.train.x[:0], silo.train.y[:0]), own=silo.train) for silo in others)
        note = f"all training data lie at {first.name!r}, a reference that no federation has: its traffic means nothing"
        return replace(
            self, silos=(first._replace(train=Split(x, y), own=first.train), *emptied), notes=(*self.notes, note)
        )

    def manifest(self) -> Manifest:
        """Return what each silo holds, and a hash of all of it: equal hashes mean equal federations."""
        return {
            "data": self.data,
            "setting": self.setting,
            "classes": self.classes,
            "labels": list(self.labels),
            "label": self.label or None,
            "features": list(self.features),
            "shape": list(self.shape),
            "notes": list(self.notes),
            "silos": [self._silo_counts(silo) for silo in self.silos],
            "sha256": self.sha256,
        }

    def _silo_counts(self, silo: Silo) -> SiloCounts:
        return {
            "name": silo.name,
            "group": silo.group,
            "train": self._counts(silo.train),
            "val": None if silo.val is None else self._counts(silo.val),
            "test": self._counts(silo.test),
        }

    def _counts(self, split: Split) -> list[int]:
        """Return the number of examples of each class, or of all examples where there are no classes."""
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
    """Return the parts of a silo's data by name; `val` may be None."""
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
    chosen = choose_by_class(y, count, stream(seed, "validation", key_of(silo.name)))
    return silo._replace(train=Split(x[~chosen], y[~chosen]), val=Split(x[chosen], y[chosen]))
