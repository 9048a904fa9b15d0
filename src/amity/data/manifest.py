"""The manifest of a federation: who holds how much of what. It is written to `manifest.json` and read for reports."""

from __future__ import annotations

from typing import TypedDict


class SiloCounts(TypedDict):
    """One silo: examples per class of each part, or one number per part where labels are quantities."""

    name: str
    group: int | None  # the distribution that the silo was drawn from, where silos share one
    train: list[int]
    val: list[int] | None  # None: no validation part
    test: list[int]


class Manifest(TypedDict):
    """All silos, where they come from, and a hash of their data: equal hashes mean equal federations."""

    data: str
    setting: str
    classes: int  # 0: labels are quantities
    labels: list[str]  # names of the classes, where they have names
    label: str | None  # the column of the labels, where the data are tables
    features: list[str]  # the columns of the features, where the data are tables
    shape: list[int]  # of one example
    notes: list[str]
    silos: list[SiloCounts]
    sha256: str
