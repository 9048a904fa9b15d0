"""A data set in memory, before it is dealt to silos.

Pixels are scaled to [-1, 1] by constants, (x / largest - 0.5) / 0.5, never by statistics of the data: no silo could
know these of the others. They stay bytes until they are dealt to silos, which takes a quarter of the memory and lets a
load copy nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from amity.contract import Split
from amity.data.schema.account import ColumnAccount
from amity.data.schema.table_schema import TableSchema

FOLDER = "folder:"
"""The beginning of a data set's name that is the path of a user's own silos."""


class NaturalSilo(NamedTuple):
    """A silo that a data set brings: its examples stand together, and silos follow each other in their order."""

    name: str
    train: int  # examples
    test: int
    group: int | None = None  # of silos that are of one kind, where the data set says so


@dataclass(frozen=True, eq=False)
class Source:
    """Examples and labels, with the official (or a fixed) division into train and test."""

    name: str
    train: Split  # x [n, ...] uint8 pixels or float32; y [n] int64, float64 where classes is 0
    test: Split
    classes: int  # 0: labels are quantities, not classes
    val: Split | None = None  # the official validation part, where there is one
    silos: tuple[NaturalSilo, ...] = ()  # the data set's own silos, where it comes as silos
    labels: tuple[str, ...] = ()  # names of the classes, where they have names
    superclass: tuple[int, ...] = ()  # of each class, where there are superclasses
    notes: tuple[str, ...] = ()  # what differs from the published data set
    label: str = ""  # the column of the labels, where the data are tables with named columns
    features: tuple[str, ...] = ()  # and the names of the features
    schema: TableSchema | None = None  # by which tables became features
    account: tuple[ColumnAccount, ...] = ()  # what was done with each of their columns, in words


def scale_pixels(x: Tensor) -> Tensor:
    """Return what a model sees: uint8 pixels in [-1, 1], anything else unchanged."""
    return x.float().div_(127.5).sub_(1) if x.dtype == torch.uint8 else x


def join(splits: Sequence[Split]) -> Split:
    """Return the examples of several splits as one, in their order."""
    return Split(torch.cat([split.x for split in splits]), torch.cat([split.y for split in splits]))
