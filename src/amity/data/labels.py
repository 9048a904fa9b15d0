"""Labels as users write them, words or numbers: classes are the union over silos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from amity.errors import InputError

Written = npt.NDArray[np.generic]
"""Labels of one part of one silo: text or finite numbers.  # [n]"""


Kind = Literal["auto", "classes", "quantities"]
"""What labels are; auto: quantities where one has a fraction, else classes."""


class Numbered(NamedTuple):
    parts: list[Tensor]  # [n] int64: the class; float32: the quantity, where there are no classes
    classes: int  # 0: quantities
    names: tuple[str, ...]  # of the classes, in their order


def number(parts: Sequence[Written], kind: Kind = "auto") -> Numbered:
    """Words are classes in alphabetical order, whole numbers in theirs; a fraction anywhere makes all quantities.

    `kind` says what they are where this guess is wrong: counts are whole quantities, grades may be 1.5.
    """
    numeric = [_as_numbers(part) for part in parts]
    values = [part for part in numeric if part is not None]
    if len(values) < len(parts):
        if kind == "quantities":
            raise InputError("quantities must be finite numbers, got words for labels: leave labels at auto")
        texts = [_as_text(part) for part in parts]
        known = sorted({text for part in texts for text in part})
        place = {text: i for i, text in enumerate(known)}
        return Numbered([torch.tensor([place[text] for text in part]) for part in texts], len(known), tuple(known))
    fractions = any((part != np.floor(part)).any() for part in values)
    if kind == "quantities" or (kind == "auto" and fractions):
        return Numbered([torch.tensor(part, dtype=torch.float32) for part in values], 0, ())
    union = np.unique(np.concatenate(values))
    found = [torch.from_numpy(np.searchsorted(union, part)) for part in values]
    return Numbered(found, len(union), tuple(f"{value:g}" if fractions else f"{value:.0f}" for value in union))


def is_text(part: Written) -> bool:
    return part.dtype.kind in "US" or (part.dtype == object and all(isinstance(label, str) for label in part.flat))


def _as_numbers(part: Written) -> npt.NDArray[np.float64] | None:
    try:
        values = np.array([float(label) for label in _as_text(part)]) if is_text(part) else part.astype(np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def _as_text(part: Written) -> list[str]:
    if part.dtype.kind == "S":
        return [label.decode() for label in part.tolist()]
    if is_text(part):
        return [str(label) for label in part.tolist()]
    return [f"{label:.0f}" if float(label) == int(label) else str(label) for label in part.tolist()]
