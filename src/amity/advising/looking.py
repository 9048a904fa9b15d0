"""What there is to see of a federation without training anything: sizes, classes, and how labels differ."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TypedDict

import torch

from amity.data import Silos

NATURAL = ("natural", "own")
"""Settings in which silos are as they came, and not dealt."""


class Looked(TypedDict):
    """A federation at a glance."""

    silos: int
    natural: bool  # as they came, not dealt by a setting
    classes: int  # 0: labels are quantities
    smallest: int  # training examples
    median: float
    largest: int
    classes_held: float | None  # by a silo, in the median
    labels_differ: (
        float | None
    )  # share of a silo's labels that would have to change to be as all silos' are, in the mean


def looked(silos: Silos) -> Looked:
    """Look at a federation's training data."""
    sizes = silos.sizes
    counts = [silo.train.y.bincount(minlength=silos.classes) for silo in silos.silos] if silos.classes else []
    return {
        "silos": len(sizes),
        "natural": silos.setting.partition(":")[0] in NATURAL,
        "classes": silos.classes,
        "smallest": min(sizes),
        "median": float(statistics.median(sizes)),
        "largest": max(sizes),
        "classes_held": statistics.median(int((one > 0).sum()) for one in counts) if counts else None,
        "labels_differ": _apart(counts) if counts else None,
    }


def _apart(counts: Sequence[torch.Tensor]) -> float:
    """Return the mean distance of the silos' labels from those of all: half of what their shares differ by."""
    table = torch.stack(list(counts)).double()  # [m, classes]
    shares, whole = table / table.sum(1, keepdim=True), table.sum(0) / table.sum()
    return float((shares - whole).abs().sum(1).mean()) / 2


def words_of(seen: Looked, data: str) -> list[str]:
    """Return what was seen, in a few lines."""
    came = "as they came" if seen["natural"] else "dealt"
    sizes = f"{seen['smallest']} to {seen['largest']} training examples each, {seen['median']:g} in the median"
    first = f"{seen['silos']} silos of {data}, {came}; {sizes}."
    if seen["classes_held"] is None or seen["labels_differ"] is None:
        return [first, "Labels are quantities."]
    held, every = seen["classes_held"], seen["classes"]
    some = f"A silo holds {held:g} of {every} classes in the median"
    return [first, f"{some}; {seen['labels_differ']:.0%} of its labels would have to change to be as all silos' are."]
