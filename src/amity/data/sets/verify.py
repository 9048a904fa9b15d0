"""Checks of decoded arrays against what the catalogue says of a data set, and notes on what is not complete."""

from __future__ import annotations

import numpy as np

from amity.contract import InputError
from amity.data.formats.content import AGAIN, Arrays
from amity.data.sets.entry import SourceEntry
from amity.data.sets.files import Found
from amity.data.source import Source


def checked(arrays: Arrays, entry: SourceEntry, found: Found) -> Arrays:
    """Return the arrays with images as uint8 [n, C, H, W]; refuse images of other shapes and labels out of range."""
    where = " and ".join(dict.fromkeys(str(path.parent if len(found.paths) > 1 else path) for path in found.paths))
    out = dict(arrays)
    for key in [key for key in arrays if key.endswith("_images")]:
        x = arrays[key]
        n, shape = len(x), tuple(x.shape[1:])
        channels, height, width = entry.shape
        if channels == 1 and shape == (height, width):
            x = x[:, None]
        elif shape == (height, width, channels):
            x = x.transpose(0, 3, 1, 2)
        if x.dtype != np.uint8 or tuple(x.shape[1:]) != entry.shape:
            wanted = " x ".join(map(str, entry.shape))
            raise InputError(f"{where}: {key} must be uint8 images of {wanted}, found {x.dtype} {shape}: {AGAIN}")
        out[key] = x
        part = key.removesuffix("_images")
        fine = 100 if f"{part}_coarse_labels" in arrays else entry.classes  # both names of CIFAR-100 read these files
        for name, count in ((f"{part}_labels", fine), (f"{part}_coarse_labels", 20)):
            if name in arrays and (problem := _problem(arrays[name], n, count)):
                raise InputError(f"{where}: {name} must be {problem}: {AGAIN}")
    return out


def _problem(y: np.ndarray, n: int, classes: int) -> str | None:
    """Return what labels should be and are not, or None."""
    if y.shape != (n,):
        return f"one label per image, found {len(y) if y.ndim == 1 else y.shape} for {n}"
    if not np.issubdtype(y.dtype, np.integer) or n and not 0 <= y.min() <= y.max() < classes:
        return f"whole numbers from 0 to {classes - 1}, found {y.dtype} up to {y.max()}"
    return None


def notes_on(entry: SourceEntry, source: Source, found: Found) -> tuple[str, ...]:
    """Return a note if fewer examples were read than are published, and the note of the files' layout."""
    official = entry.official
    assert official is not None
    counts, published = (len(source.train.y), len(source.test.y)), (official.train, official.test)
    words = ("training examples", "test examples")
    if official.test == 0:
        counts, published, words = (sum(counts), 0), (official.train, 0), ("examples", "")
    short = [f"{n:,} of {all_:,} {what}" for n, all_, what in zip(counts, published, words, strict=True) if what]
    subset = () if counts == published else (f"{entry.name} is not complete here: {' and '.join(short)}",)
    return subset + ((found.layout.note,) if found.layout.note else ())
