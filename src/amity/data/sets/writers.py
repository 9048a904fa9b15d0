"""MNIST by writer: 60 of the people who wrote its digits, each a silo with about 100 of them.

Half are census employees, half high-school students: the two groups of NIST's forms.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from amity.contract import Split
from amity.data.division import Division
from amity.data.sets.entry import SourceEntry
from amity.data.sets.natural_silos import dealing, joined
from amity.data.sets.packs import words
from amity.data.source import Source

_OF_A_PART = ("images", "labels", "silo")
ARRAYS = (*(f"{part}_{key}" for part in ("train", "test") for key in _OF_A_PART), "silo_names", "silo_group")


def build(entry: SourceEntry, arrays: Mapping[str, Tensor], _: Division) -> Source:
    """Return the digits of every writer."""
    x, y, silo = (torch.cat([arrays[f"{part}_{key}"] for part in ("train", "test")]) for key in _OF_A_PART)
    is_test = torch.arange(len(y)) >= len(arrays["train_labels"])
    writers = dealing(silo, is_test, words(arrays["silo_names"]), arrays["silo_group"].tolist())
    train, test = (Split(x[rows], y[rows].long()) for rows in map(joined, (writers.train, writers.test)))
    return Source(entry.name, train, test, entry.classes, silos=writers.silos, notes=writers.notes)
