"""What the delivered models did with each test example, packed: paired verdicts on silos are made from it.

Of classes: right or wrong, a bit for each example. Of quantities: the error of each, with the silo's R2, which tells
how far its labels lie apart. Either as base64 text, a silo each.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from amity.record import Record, scores_of
from amity.record.shapes import MAYBE

Array = npt.NDArray[Any]


class SiloTested(TypedDict):
    """One silo's test examples with its delivered model."""

    examples: int
    right: str | None  # bits, where labels are classes
    errors: str | None  # float32, where they are quantities
    r2: float | None


SHAPE = ([({"examples": int, "right": (str, None), "errors": (str, None), "r2": MAYBE}, None)], None)
"""The shape of a list of these, one for each silo; null where a silo has no test."""


def packed(record: Record, delivered_round: int) -> list[SiloTested | None]:
    """Return what is kept of each silo's test."""
    kept = [record.predictions.get(silo, {}).get("delivered") for silo in record.silos]
    quantities = any(each is not None and each.dtype != bool for each in kept)
    r2 = (scores_of(record.lines[delivered_round - 1], "r2") if quantities else None) or [None] * len(kept)
    return [packed_silo(each, score) for each, score in zip(kept, r2, strict=True)]


def packed_silo(each: Array | None, r2: float | None) -> SiloTested | None:
    """Return what is kept of one silo's test; None where it has none."""
    if each is None or not len(each):
        return None
    if each.dtype == bool:
        return {"examples": len(each), "right": _text(np.packbits(each)), "errors": None, "r2": None}
    known = None if r2 is None or not np.isfinite(r2) else float(r2)
    return {"examples": len(each), "right": None, "errors": _text(each.astype("<f4")), "r2": known}


def unpacked(tested: SiloTested) -> Array | None:
    """Return right or wrong, or the error, of each example; None where the text does not hold so many.  # [n]"""
    n = tested["examples"]
    try:
        if tested["right"] is not None:
            bits = np.frombuffer(base64.b64decode(tested["right"], validate=True), np.uint8)
            return np.unpackbits(bits, count=n).astype(bool) if len(bits) == -(-n // 8) else None
        errors = np.frombuffer(base64.b64decode(tested["errors"] or "", validate=True), "<f4")
    except (binascii.Error, ValueError):
        return None
    return errors if len(errors) == n else None


def _text(array: Array) -> str:
    return base64.b64encode(array.tobytes()).decode()
