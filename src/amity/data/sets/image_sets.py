"""Published sets of images, built from their decoded arrays: MNIST and its kin, CIFAR, MedMNIST."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from amity.contract import InputError, Split
from amity.data.division import Division
from amity.data.formats.content import AGAIN
from amity.data.sets.entry import SourceEntry
from amity.data.source import Source


def build_images(entry: SourceEntry, arrays: Mapping[str, Tensor], _: Division) -> Source:
    """Return images as bytes, with their labels and their official parts."""

    def split(part: str) -> Split:
        return Split(arrays[f"{part}_images"], arrays[f"{part}_labels"].long())

    val = split("val") if "val_images" in arrays else None
    return Source(entry.name, split("train"), split("test"), entry.classes, val=val)


def build_cifar100(entry: SourceEntry, arrays: Mapping[str, Tensor], division: Division) -> Source:
    """Return CIFAR-100 by its 100 classes, with the superclass of each as the files tell it."""
    source = build_images(entry, arrays, division)
    superclass = [-1] * 100
    for part in ("train", "test"):
        pairs = arrays[f"{part}_labels"].long() * 20 + arrays[f"{part}_coarse_labels"].long()
        for fine, coarse in (divmod(pair, 20) for pair in pairs.unique().tolist()):
            if superclass[fine] not in (-1, coarse):
                raise InputError(
                    f"cifar100: class {fine} must have one superclass, found {superclass[fine]} and {coarse}: {AGAIN}"
                )
            superclass[fine] = coarse
    return replace(source, superclass=tuple(superclass))


def build_cifar100_coarse(entry: SourceEntry, arrays: Mapping[str, Tensor], division: Division) -> Source:
    """Return CIFAR-100 by its 20 superclasses."""
    fine_first = sorted(arrays.items(), key=lambda item: "_coarse_" in item[0])  # so that coarse labels replace them
    return build_images(entry, {key.replace("_coarse_", "_"): array for key, array in fine_first}, division)
