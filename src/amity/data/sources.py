"""Data sets as they come: examples, labels and the official (or a fixed) division into train and test.

Pixels are scaled to [-1, 1] by constants, (x / largest - 0.5) / 0.5, never by statistics of the data: no silo
could know these of the others. `digits` and `synthetic` need no file and do not depend on a run's seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from amity import options
from amity.contract import InputError, Split
from amity.data import idx
from amity.streams import stream


@dataclass(frozen=True, eq=False)
class Source:
    """A data set in memory."""

    name: str
    train: Split  # x [n, ...] float32, y [n] int64
    test: Split
    classes: int
    superclass: tuple[int, ...] = ()  # of each class, where there are any


@dataclass(frozen=True)
class Entry:
    """What is known of a data set before it is loaded."""

    title: str
    description: str
    classes: int
    shape: tuple[int, ...]  # of one example
    read: Callable[[Sequence[Path]], tuple[Split, Split]]  # the directories to search -> train, test
    files: tuple[str, ...] = ()  # none: nothing to fetch


def load(name: str, data_dir: str | Path | None = None) -> Source:
    """A data set by name. Files are searched in `data_dir`, $AMITY_DATA, ./data and the user cache."""
    if name not in SOURCES:
        raise options.unknown("data set", name, SOURCES)
    train, test = SOURCES[name].read(search_path(data_dir))
    return Source(name, train, test, SOURCES[name].classes)


def search_path(data_dir: str | Path | None = None) -> list[Path]:
    """The directories that are searched for data sets, first one first."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    places = [data_dir, os.environ.get("AMITY_DATA"), "data", Path(cache) / "amity"]
    return [Path(place).expanduser() for place in places if place]


def _digits(_: Sequence[Path]) -> tuple[Split, Split]:
    from sklearn.datasets import load_digits  # here, because it takes a second

    pixels, labels = load_digits(return_X_y=True)
    x = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8).div_(8).sub_(1)  # pixels are 0 to 16
    y = torch.tensor(labels, dtype=torch.int64)
    held_out = _stratified(y, 0.3)
    return Split(x[~held_out], y[~held_out]), Split(x[held_out], y[held_out])


def _stratified(y: Tensor, fraction: float) -> Tensor:
    """A random choice of this fraction of every class.  # [n] bool"""
    rng = stream(0, "source/digits")
    chosen = torch.zeros(len(y), dtype=torch.bool)
    for label in range(int(y.max()) + 1):
        members = (y == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=rng)
        chosen[members[order[: round(fraction * len(members))]]] = True
    return chosen


def _synthetic(_: Sequence[Path]) -> tuple[Split, Split]:
    """Ten classes of two Gaussian clusters each: they overlap, and no linear model separates them well."""
    rng = stream(0, "source/synthetic")
    centres = 0.7 * torch.randn(10, 2, 20, generator=rng)  # [class, cluster, feature]

    def draw(per_class: int) -> Split:
        y = torch.arange(10).repeat(per_class)  # [n]
        cluster = torch.randint(2, (len(y),), generator=rng)
        return Split(centres[y, cluster] + torch.randn(len(y), 20, generator=rng), y)

    return draw(600), draw(150)


_MNIST = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
# Sums of the unpacked content, because the .gz around it may have been made anew. Those of Fashion-MNIST were
# taken from files whose .gz had the four official sums.
_FMNIST = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}


def _mnist(roots: Sequence[Path]) -> tuple[Split, Split]:
    return _idx("mnist", ("mnist", "MNIST/raw"), _MNIST, roots)  # the second is where torchvision puts it


def _fmnist(roots: Sequence[Path]) -> tuple[Split, Split]:
    return _idx("fmnist", ("fashion-mnist", "fmnist", "FashionMNIST/raw"), _FMNIST, roots)


def _idx(name: str, folders: Sequence[str], sums: Mapping[str, str], roots: Sequence[Path]) -> tuple[Split, Split]:
    found = {file: _find(file, folders, roots) for file in sums}
    missing = [f"{file}.gz" for file, path in found.items() if path is None]
    if missing:
        raise InputError(
            f"{name} needs {', '.join(missing)}, not found under {' or '.join(folders)} in any of "
            f"{', '.join(map(str, roots))}: put them into {folders[0]} in one of these, or set AMITY_DATA "
            f"to the directory that holds {folders[0]}"
        )
    train_x, train_y, test_x, test_y = (path for path in found.values() if path)
    return idx.labelled(train_x, train_y, 10, sums), idx.labelled(test_x, test_y, 10, sums)


def _find(file: str, folders: Sequence[str], roots: Sequence[Path]) -> Path | None:
    """Where a file is first found, packed or unpacked."""
    spellings = (f"{file}.gz", file)
    places = (root / folder / name for root in roots for folder in folders for name in spellings)
    return next((place for place in places if os.path.isfile(place)), None)


SOURCES = {
    "digits": Entry(
        title="Digits",
        description="8x8 handwritten digits, 1,258 train and 539 test; built in (scikit-learn)",
        classes=10,
        shape=(1, 8, 8),
        read=_digits,
    ),
    "synthetic": Entry(
        title="Synthetic clusters",
        description="20 features, classes that overlap, 6,000 train and 1,500 test; built in",
        classes=10,
        shape=(20,),
        read=_synthetic,
    ),
    "mnist": Entry(
        title="MNIST",
        description="28x28 handwritten digits, 60,000 train and 10,000 test",
        classes=10,
        shape=(1, 28, 28),
        read=_mnist,
        files=tuple(f"{file}.gz" for file in _MNIST),
    ),
    "fmnist": Entry(
        title="Fashion-MNIST",
        description="28x28 photographs of clothes, 60,000 train and 10,000 test",
        classes=10,
        shape=(1, 28, 28),
        read=_fmnist,
        files=tuple(f"{file}.gz" for file in _FMNIST),
    ),
}
