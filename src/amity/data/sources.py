"""Data sets as they come: examples, labels and the official (or a fixed) division into train and test.

Pixels are scaled to [-1, 1] by constants, (x / largest - 0.5) / 0.5, never by statistics of the data: no silo
could know these of the others. They stay bytes until they are dealt to silos: a quarter of the memory, and a
load that copies nothing. `digits` and `synthetic` need no file and do not depend on a run's seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from amity import options
from amity.contract import InputError, Split
from amity.data import cache, catalogue, files, heart
from amity.data.catalogue import Official
from amity.data.division import Division
from amity.data.fetch import Notify, fetch
from amity.data.files import Arrays, Found
from amity.data.labels import Kind
from amity.streams import stream


class Own(NamedTuple):
    """A natural silo: its examples stand together, in the order of the silos."""

    name: str
    train: int  # examples
    test: int


@dataclass(frozen=True, eq=False)
class Source:
    """A data set in memory."""

    name: str
    train: Split  # x [n, ...] uint8 pixels or float32; y [n] int64, float64 where classes is 0
    test: Split
    classes: int  # 0: labels are quantities, not classes
    val: Split | None = None  # the official validation part, where there is one
    silos: tuple[Own, ...] = ()  # natural silos, where there are any
    labels: tuple[str, ...] = ()  # names of the classes, where they have names
    superclass: tuple[int, ...] = ()  # of each class, where there are any
    notes: tuple[str, ...] = ()  # what is not as published


Build = Callable[["Entry", Mapping[str, Tensor], Division], Source]


@dataclass(frozen=True)
class Entry:
    """What is known of a data set before it is loaded."""

    name: str
    title: str
    description: str
    classes: int
    shape: tuple[int, ...]  # of one example
    build: Build
    official: Official | None = None  # None: built in
    natural: bool = False  # it comes as silos

    @property
    def files(self) -> tuple[str, ...]:
        """What is fetched, or has to be put in place."""
        return tuple(file.name for file in self.official.layouts[0].files) if self.official else ()

    def find(self, data_dir: str | Path | None = None) -> Found | None:
        """Where its files lie, if they do."""
        if self.official is None:
            return None
        return files.find(self.official.layouts, self.official.folders, files.search_path(data_dir))


def load(
    name: str,
    data_dir: str | Path | None = None,
    *,
    seed: int = 0,
    test_fraction: float = 0.2,
    labels: Kind = "auto",
    cached: bool = True,
    notify: Notify | None = None,
) -> Source:
    """A data set by name, or "folder:PATH" for your own silos (see docs/data.md).

    Files are searched in `data_dir`, $AMITY_DATA, ./data and the user cache, else fetched into the first or last of
    these. `seed` and `test_fraction` divide data that bring no test part. `labels`: what those of your own silos are.
    `cached=False` decodes and verifies anew.
    """
    division = Division(seed, test_fraction)
    if name.startswith(FOLDER):
        from amity.data.folder import read_folder

        path = name.removeprefix(FOLDER)
        if not path:
            raise InputError(f"{FOLDER} needs the path of a folder with your silos, got none: {FOLDER}PATH")
        return read_folder(files.expanded(path), division, labels)
    if name not in SOURCES:
        raise options.unknown("data set", name, [*SOURCES, f"{FOLDER}PATH"])
    entry = SOURCES[name]
    if labels == "quantities":
        raise InputError(f"the labels of {name} are classes, got labels=quantities: leave it at auto")
    if entry.official is None:
        return entry.build(entry, {}, division)
    found = entry.find(data_dir) or _fetched(entry, data_dir, notify)

    def decode() -> Arrays:
        return _checked(found.decode(), entry, found)

    arrays = cache.decoded(entry.official.folders[0], found.paths, decode) if cached else _tensors(decode())
    source = entry.build(entry, arrays, division)
    return replace(source, notes=_notes(entry, source, found))


FOLDER = "folder:"


def _tensors(arrays: Arrays) -> dict[str, Tensor]:
    return {key: torch.tensor(array) for key, array in arrays.items()}


def fetch_into(entry: Entry, data_dir: str | Path | None, notify: Notify | None = None) -> list[Path]:
    """Fetch the official files that are not there yet, or are damaged, into `data_dir`; without one, those that are
    nowhere yet, into the user cache."""
    if entry.official is None:
        return []
    roots = [files.expanded(data_dir)] if data_dir else files.search_path(None)
    layout, folders = entry.official.layouts[0], entry.official.folders
    wanted = files.missing(layout, folders, roots) + files.damaged(layout, folders, roots)
    place = roots[-1] / folders[0]
    try:
        return fetch(wanted, place, notify)
    except InputError as error:
        names = ", ".join(file.name for file in wanted)
        raise InputError(f"{error}: try again, or put {names} into {place} yourself") from error


def _fetched(entry: Entry, data_dir: str | Path | None, notify: Notify | None) -> Found:
    official = entry.official
    assert official is not None
    roots = files.search_path(data_dir)
    absent = [file.name for file in files.missing(official.layouts[0], official.folders, roots)]
    try:
        fetch_into(entry, data_dir, notify)
    except InputError as error:
        raise InputError(
            f"{entry.name} needs {', '.join(absent)}, not found under {' or '.join(official.folders)} in any of "
            f"{', '.join(map(str, roots))}, and {error.__cause__}: put them into {official.folders[0]} in one of "
            f"these, or set AMITY_DATA to the directory that holds {official.folders[0]}"
        ) from error
    found = entry.find(data_dir)
    assert found is not None  # whatever was missing has come
    return found


def _checked(arrays: Arrays, entry: Entry, found: Found) -> Arrays:
    """Images as uint8 [n, C, H, W], each with a label that exists."""
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
            raise InputError(f"{where}: {key} must be uint8 images of {wanted}, found {x.dtype} {shape}: {files.AGAIN}")
        out[key] = x
        part = key.removesuffix("_images")
        fine = 100 if f"{part}_coarse_labels" in arrays else entry.classes  # both names of CIFAR-100 read these files
        for name, count in ((f"{part}_labels", fine), (f"{part}_coarse_labels", 20)):
            if name in arrays and (problem := _problem(arrays[name], n, count)):
                raise InputError(f"{where}: {name} must be {problem}: {files.AGAIN}")
    return out


def _problem(y: np.ndarray, n: int, classes: int) -> str | None:
    if y.shape != (n,):
        return f"one label per image, found {len(y) if y.ndim == 1 else y.shape} for {n}"
    if not np.issubdtype(y.dtype, np.integer) or n and not 0 <= y.min() <= y.max() < classes:
        return f"whole numbers from 0 to {classes - 1}, found {y.dtype} up to {y.max()}"
    return None


def _notes(entry: Entry, source: Source, found: Found) -> tuple[str, ...]:
    """What was read, where that is not all that was published."""
    official = entry.official
    assert official is not None
    counts, published = (len(source.train.y), len(source.test.y)), (official.train, official.test)
    words = ("training examples", "test examples")
    if official.test == 0:
        counts, published, words = (sum(counts), 0), (official.train, 0), ("examples", "")
    short = [f"{n:,} of {all_:,} {what}" for n, all_, what in zip(counts, published, words, strict=True) if what]
    subset = () if counts == published else (f"{entry.name} is not complete here: {' and '.join(short)}",)
    return subset + ((found.layout.note,) if found.layout.note else ())


def _images(entry: Entry, arrays: Mapping[str, Tensor], _: Division) -> Source:
    def split(part: str) -> Split:
        x, y = arrays[f"{part}_images"], arrays[f"{part}_labels"]
        return Split(x, y.long())

    val = split("val") if "val_images" in arrays else None
    return Source(entry.name, split("train"), split("test"), entry.classes, val=val)


def scaled(x: Tensor) -> Tensor:
    """What a model sees: pixels in [-1, 1], anything else as it is."""
    return x.float().div_(127.5).sub_(1) if x.dtype == torch.uint8 else x


def _hundred(entry: Entry, arrays: Mapping[str, Tensor], division: Division) -> Source:
    source = _images(entry, arrays, division)
    superclass = [-1] * 100
    for part in ("train", "test"):
        pairs = arrays[f"{part}_labels"].long() * 20 + arrays[f"{part}_coarse_labels"].long()
        for fine, coarse in (divmod(pair, 20) for pair in pairs.unique().tolist()):
            if superclass[fine] not in (-1, coarse):
                raise InputError(
                    f"cifar100: class {fine} must have one superclass, found {superclass[fine]} and {coarse}: "
                    f"{files.AGAIN}"
                )
            superclass[fine] = coarse
    return replace(source, superclass=tuple(superclass))


def _coarse(entry: Entry, arrays: Mapping[str, Tensor], division: Division) -> Source:
    swapped = {key.replace("_coarse_", "_"): value for key, value in sorted(arrays.items(), key=_fine_first)}
    return _images(entry, swapped, division)


def _fine_first(item: tuple[str, Tensor]) -> bool:
    return "_coarse_" in item[0]


def _heart(entry: Entry, arrays: Mapping[str, Tensor], division: Division) -> Source:
    train, test, silos = [], [], []
    for hospital in heart.HOSPITALS:
        table = arrays[hospital].numpy()
        y = torch.from_numpy(heart.diagnosis(table))
        held_out = division.held_out(y, hospital)
        x = torch.from_numpy(heart.features(table, ~held_out.numpy()))
        train.append(Split(x[~held_out], y[~held_out]))
        test.append(Split(x[held_out], y[held_out]))
        silos.append(Own(hospital, len(train[-1].y), len(test[-1].y)))
    return Source(entry.name, joined(train), joined(test), entry.classes, silos=tuple(silos))


def joined(splits: Sequence[Split]) -> Split:
    return Split(torch.cat([split.x for split in splits]), torch.cat([split.y for split in splits]))


def _digits(entry: Entry, _: Mapping[str, Tensor], __: Division) -> Source:
    from sklearn.datasets import load_digits  # here, because it takes a second

    pixels, labels = load_digits(return_X_y=True)
    x = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8).div_(8).sub_(1)  # pixels are 0 to 16
    y = torch.tensor(labels, dtype=torch.int64)
    held_out = _stratified(y, 0.3)
    return Source(entry.name, Split(x[~held_out], y[~held_out]), Split(x[held_out], y[held_out]), entry.classes)


def _stratified(y: Tensor, fraction: float) -> Tensor:
    """A random choice of this fraction of every class.  # [n] bool"""
    rng = stream(0, "source/digits")
    chosen = torch.zeros(len(y), dtype=torch.bool)
    for label in range(int(y.max()) + 1):
        members = (y == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=rng)
        chosen[members[order[: round(fraction * len(members))]]] = True
    return chosen


def _synthetic(entry: Entry, _: Mapping[str, Tensor], __: Division) -> Source:
    """Ten classes of two Gaussian clusters each: they overlap, and no linear model separates them well."""
    rng = stream(0, "source/synthetic")
    centres = 0.7 * torch.randn(10, 2, 20, generator=rng)  # [class, cluster, feature]

    def draw(per_class: int) -> Split:
        y = torch.arange(10).repeat(per_class)  # [n]
        cluster = torch.randint(2, (len(y),), generator=rng)
        return Split(centres[y, cluster] + torch.randn(len(y), 20, generator=rng), y)

    return Source(entry.name, draw(600), draw(150), entry.classes)


_ALL = (
    Entry(
        name="digits",
        title="Digits",
        description="8x8 handwritten digits, 1,258 train and 539 test; built in (scikit-learn)",
        classes=10,
        shape=(1, 8, 8),
        build=_digits,
    ),
    Entry(
        name="synthetic",
        title="Synthetic clusters",
        description="20 features, classes that overlap, 6,000 train and 1,500 test; built in",
        classes=10,
        shape=(20,),
        build=_synthetic,
    ),
    Entry(
        name="mnist",
        title="MNIST",
        description="28x28 handwritten digits, 60,000 train and 10,000 test",
        classes=10,
        shape=(1, 28, 28),
        build=_images,
        official=catalogue.MNIST,
    ),
    Entry(
        name="fmnist",
        title="Fashion-MNIST",
        description="28x28 photographs of clothes, 60,000 train and 10,000 test",
        classes=10,
        shape=(1, 28, 28),
        build=_images,
        official=catalogue.FMNIST,
    ),
    Entry(
        name="emnist",
        title="EMNIST by class",
        description="28x28 handwritten digits and letters, 697,932 train and 116,323 test",
        classes=62,
        shape=(1, 28, 28),
        build=_images,
        official=catalogue.EMNIST,
    ),
    Entry(
        name="cifar10",
        title="CIFAR-10",
        description="32x32 colour photographs, 50,000 train and 10,000 test",
        classes=10,
        shape=(3, 32, 32),
        build=_images,
        official=catalogue.CIFAR10,
    ),
    Entry(
        name="cifar100",
        title="CIFAR-100",
        description="32x32 colour photographs, fine labels, 50,000 train and 10,000 test",
        classes=100,
        shape=(3, 32, 32),
        build=_hundred,
        official=catalogue.CIFAR100,
    ),
    Entry(
        name="cifar100-coarse",
        title="CIFAR-100 by superclass",
        description="the same photographs, coarse labels, 50,000 train and 10,000 test",
        classes=20,
        shape=(3, 32, 32),
        build=_coarse,
        official=catalogue.CIFAR100,
    ),
    Entry(
        name="organamnist",
        title="OrganAMNIST",
        description="28x28 axial slices of abdominal CT, 34,561 train and 17,778 test",
        classes=11,
        shape=(1, 28, 28),
        build=_images,
        official=catalogue.ORGANAMNIST,
    ),
    Entry(
        name="pathmnist",
        title="PathMNIST",
        description="28x28 colour patches of colorectal tissue, 89,996 train and 7,180 test",
        classes=9,
        shape=(3, 28, 28),
        build=_images,
        official=catalogue.PATHMNIST,
    ),
    Entry(
        name="heart",
        title="UCI Heart Disease",
        description="patients of four hospitals, 920 in all: four natural silos, no test part of its own",
        classes=2,
        shape=(len(heart.FEATURES),),
        build=_heart,
        official=catalogue.HEART,
        natural=True,
    ),
)
SOURCES = {entry.name: entry for entry in _ALL}
