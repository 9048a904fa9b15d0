"""A federation's data: one `Silo` after another, dealt from a data set or brought by the user."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from amity.contract import InputError, Silo, Split
from amity.streams import key_of, stream

Arrays = tuple[ArrayLike | Tensor, ArrayLike | Tensor, ArrayLike | Tensor, ArrayLike | Tensor]
"""x_train, y_train, x_test, y_test."""


@dataclass(frozen=True, eq=False)
class Silos:
    """The silos of a federation and where they come from."""

    silos: tuple[Silo, ...]
    classes: int
    data: str
    setting: str
    notes: tuple[str, ...] = ()  # departures from the setting's plan
    participation: float = 1.0  # the share of silos sampled in each round, unless a run says otherwise

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example."""
        return tuple(self.silos[0].train.x.shape[1:])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Training examples per silo."""
        return tuple(len(silo.train.y) for silo in self.silos)

    def with_validation(self, fraction: float, seed: int) -> Silos:
        """The same silos with a random fraction of each class of their training data set aside.

        Silos that brought validation data keep it, and all their training data.
        """
        if not 0 <= fraction < 1:
            raise InputError(f"the validation fraction must be >= 0 and < 1, got {fraction}: set --val-fraction 0.15")
        if fraction == 0:
            return self
        return replace(self, silos=tuple(_set_aside(silo, fraction, seed) for silo in self.silos))

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
            "shape": list(self.shape),
            "notes": list(self.notes),
            "silos": [
                {"name": silo.name, "group": silo.group}
                | {part: self._counts(split) for part, split in _parts(silo).items()}
                for silo in self.silos
            ],
            "sha256": self.sha256,
        }

    def _counts(self, split: Split | None) -> list[int] | None:
        return None if split is None else split.y.bincount(minlength=self.classes).tolist()

    @cached_property
    def sha256(self) -> str:
        """A hash of every silo's name and data."""
        digest = hashlib.sha256(f"{self.classes}".encode())
        for silo in self.silos:
            for part, split in _parts(silo).items():
                if split is not None:
                    digest.update(f"/{silo.name}/{part}/{tuple(split.x.shape)}/".encode())
                    digest.update(split.x.contiguous().numpy().data)
                    digest.update(split.y.contiguous().numpy().data)
        return digest.hexdigest()


def _parts(silo: Silo) -> dict[str, Split | None]:
    return {"train": silo.train, "val": silo.val, "test": silo.test}


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
    rng = stream(seed, "validation", key_of(silo.name))
    order = torch.randperm(len(y), generator=rng)
    order = order[torch.argsort(y[order], stable=True)]  # by class, at random within
    # Every (n / count)-th from a random start: each class gives its share up to one, no example is favoured.
    start = torch.rand((), generator=rng, dtype=torch.float64)
    ticks = ((torch.arange(count) + start) * (len(y) / count)).long().clamp(max=len(y) - 1)
    chosen = torch.zeros(len(y), dtype=torch.bool)
    chosen[order[ticks]] = True
    return silo._replace(train=Split(x[~chosen], y[~chosen]), val=Split(x[chosen], y[chosen]))


def federation(silos: Mapping[str, Arrays] | Sequence[Silo], classes: int | None = None, data: str = "own") -> Silos:
    """A federation of your own data: name -> (x_train, y_train, x_test, y_test), arrays or tensors.

    x is [n, ...], floating point or uint8 (images), and kept as float32, not scaled. y is [n], whole numbers
    from 0 to classes - 1; `classes` is the largest label plus one, unless given. Examples have one shape in
    all silos, and every silo has some to train and some to test on.
    """
    named = _from_arrays(silos) if isinstance(silos, Mapping) else list(silos)
    if not named:
        raise InputError("a federation needs at least one silo, got none: add one")
    checked = tuple(_checked(silo) for silo in named)
    _check_names([silo.name for silo in checked])
    _check_shapes(checked)
    return Silos(checked, _class_count(checked, classes), data, "own")


def _from_arrays(silos: Mapping[str, Arrays]) -> list[Silo]:
    out = []
    for name, arrays in silos.items():
        if not isinstance(arrays, (tuple, list)) or len(arrays) != 4:
            got = f"{len(arrays)} items" if isinstance(arrays, (tuple, list)) else type(arrays).__name__
            raise InputError(f"silo {name!r} must be (x_train, y_train, x_test, y_test), got {got}: give these four")
        x_train, y_train, x_test, y_test = (_tensor(array, name) for array in arrays)
        out.append(Silo(name, Split(x_train, y_train), Split(x_test, y_test)))
    return out


def _tensor(array: ArrayLike | Tensor, name: str) -> Tensor:
    if isinstance(array, Tensor):
        return array
    try:
        return torch.from_numpy(np.array(array))  # a copy: torch cannot view read-only memory
    except (TypeError, ValueError) as error:
        reason = str(error).split(". ")[0].splitlines()[0]
        raise InputError(f"silo {name!r} must hold arrays of numbers ({reason}): convert its columns") from error


def _checked(silo: Silo) -> Silo:
    if not isinstance(silo, Silo):
        raise InputError(f"a federation is made of Silo or name -> arrays, got {type(silo).__name__}: use these")
    return silo._replace(
        train=_split(silo.train, "train", silo.name),
        val=None if silo.val is None else _split(silo.val, "val", silo.name),
        test=_split(silo.test, "test", silo.name),
    )


def _split(split: Split, part: str, name: str) -> Split:
    where = f"silo {name!r}, {part}:"
    x, y = _features(_tensor(split.x, name), where), _labels(_tensor(split.y, name), where)
    if len(x) != len(y):
        raise InputError(f"{where} needs one label per example, got {len(x)} examples and {len(y)} labels: align them")
    if len(y) == 0:
        raise InputError(f"{where} needs at least one example, got none: add some or leave this silo out")
    return Split(x, y)


def _features(x: Tensor, where: str) -> Tensor:
    # Other whole numbers may be counts or indices into a table: only the user knows which.
    if not x.is_floating_point() and x.dtype != torch.uint8:
        raise InputError(f"{where} x must be floating point or uint8, got {_dtype(x)}: convert it to float32")
    if x.ndim < 2:
        raise InputError(f"{where} x must be [n, ...] with features, got shape {tuple(x.shape)}: add an axis")
    x = x.detach().cpu().float()
    bad = (~x.isfinite()).flatten(1).any(1).nonzero().flatten()
    if len(bad):
        raise InputError(f"{where} x must be finite, got NaN or infinity in row {bad[0]}: impute or drop it")
    return x


def _labels(y: Tensor, where: str) -> Tensor:
    if y.is_floating_point() or y.is_complex():
        raise InputError(f"{where} labels must be whole numbers, got {_dtype(y)}: convert them to int64")
    if y.ndim != 1:
        raise InputError(f"{where} labels must be [n], got shape {tuple(y.shape)}: give one per example")
    y = y.detach().cpu().long()
    if len(y) and y.min() < 0:
        raise InputError(f"{where} labels must be >= 0, got {y.min()}: number the classes from 0")
    return y


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _check_names(names: Sequence[str]) -> None:
    """A silo's name becomes a file name and the key of its random streams."""
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"\w[\w .-]{0,99}", name):
            raise InputError(
                f"a silo's name must start with a letter or digit, then up to 99 of these or space _ . -, "
                f"got {name!r}: rename it"
            )
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"silo names must differ, got {name!r} {names.count(name)} times: rename one")


def _check_shapes(silos: Sequence[Silo]) -> None:
    first = tuple(silos[0].train.x.shape[1:])
    for silo in silos:
        for part, split in _parts(silo).items():
            if split is not None and split.x.shape[1:] != first:
                got = tuple(split.x.shape[1:])
                raise InputError(
                    f"silo {silo.name!r}, {part}: examples must have the shape {first} of {silos[0].name!r}, "
                    f"got {got}: give all silos the same features"
                )


def _class_count(silos: Sequence[Silo], classes: int | None) -> int:
    if classes is not None and classes < 1:
        raise InputError(f"a federation needs at least 1 class, got {classes}: raise classes")
    top = {
        (silo.name, part): int(split.y.max())
        for silo in silos
        for part, split in _parts(silo).items()
        if split is not None
    }
    if classes is None:
        return max(top.values()) + 1
    for (name, part), label in top.items():
        if label >= classes:
            raise InputError(f"silo {name!r}, {part}: labels must be 0 to {classes - 1}, got {label}: raise classes")
    return classes
