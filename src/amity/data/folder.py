"""A folder of silos: `--data folder:PATH`. Every entry of PATH is a silo, a file or a folder.

    PATH/north.csv                           one file: a seeded part of it is held out for testing
    PATH/south/train.csv, test.csv           a folder with both parts; npz and parquet alike
    PATH/east/data.npz                       a folder with one file
    PATH/west/cat/1.png, dog/2.png           a folder per class, with images
    PATH/west/train/cat/1.png, test/...      the same, divided

Labels may be words; classes are the union over silos.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path

from amity.contract import InputError, Split
from amity.data import labels, pictures, tables
from amity.data.division import Division
from amity.data.files import unreadable
from amity.data.own import check_names
from amity.data.sources import FOLDER, Own, Source, joined, scaled
from amity.data.tables import Part

FEW, MANY = 10, 20  # different whole numbers: with fewer they are classes, with more it is worth a word
_TYPES = ", ".join(suffix.removeprefix(".") for suffix in tables.READERS)


def read_folder(path: Path, division: Division, kind: labels.Kind = "auto") -> Source:
    """All silos of a folder, each with its own train and test part; `kind`: what their labels are."""
    entries = _entries(path, "a folder with one file or folder per silo")
    if not entries:
        raise InputError(f"{path} must hold one file or folder per silo, found nothing: add some")
    try:
        names = [_name(entry) for entry in entries]
        check_names(names)
        _check_level(path, names)
        found = {name: _silo(entry) for name, entry in zip(names, entries, strict=True)}
    except OSError as error:
        raise unreadable(Path(error.filename or path), error) from error
    parts = _alike([part for own in found.values() for part in own])
    kind = "classes" if kind == "auto" and any(part.named for part in parts) else kind  # a folder per class is one
    marks, notes = _numbered({str(entry): own for entry, own in zip(entries, found.values(), strict=True)}, kind)
    if marks.classes == 1:
        raise InputError(f"{path} must have two classes or more, found {marks.names[0]!r} only: check the labels")
    splits = iter([Split(part.x, y) for part, y in zip(parts, marks.parts, strict=True)])
    train, test = [], []
    for name, own in found.items():
        one, other = (next(splits), next(splits)) if len(own) == 2 else division.divide(next(splits), name)
        train.append(one)
        test.append(other)
    counts = [Own(name, len(a.y), len(b.y)) for name, a, b in zip(found, train, test, strict=True)]
    name = f"{FOLDER}{path}"
    return Source(
        name, joined(train), joined(test), marks.classes, silos=tuple(counts), labels=marks.names, notes=notes
    )


def _check_level(path: Path, names: Sequence[str]) -> None:
    """Train and test side by side are no silos: one would learn from the other's tests."""
    other = next((part for part in ("test", "val") if part in names), None)
    if "train" in names and other:
        raise InputError(
            f"{path} must hold one file or folder per silo, found train and {other}, the parts of one: give the "
            "folder above, with such a folder for each silo"
        )


def _numbered(silos: Mapping[str, Sequence[Part]], kind: labels.Kind) -> tuple[labels.Numbered, tuple[str, ...]]:
    """The labels, and what was guessed of them. Folders of images are classes by their names.

    Whole numbers are classes, but prices and blood counts are whole numbers too: those that hardly repeat, by
    scikit-learn's rule of more than half, are quantities, unless they are codes from 0 or 1 on. Where many others
    are taken for classes, that is said.
    """
    by_name = all(part.named for own in silos.values() for part in own)
    given = {where: [part.y for part in own] for where, own in silos.items()}
    marks = labels.number(given, kind, by_name=by_name)
    if kind != "auto" or not all(map(labels.is_number, marks.names)):
        return marks, ()
    count, different = sum(map(len, marks.parts)), sum(len(part.unique()) for part in marks.parts)
    low, high = (Decimal(marks.names[end]) for end in (0, -1)) if marks.classes else (0, 0)
    codes = low in (0, 1) and high < 2 * marks.classes  # of many classes, small silos have not all
    found = f"{count} examples have {marks.classes} different whole numbers for labels"
    if marks.classes >= FEW and 2 * different > count and not codes:
        note = f"{found}, which hardly repeat, taken for quantities: if they are classes, set --labels classes"
        return labels.number(given, "quantities"), (note,)
    if marks.classes > MANY:
        return marks, (f"{found}, taken for classes: if they are quantities, set --labels quantities",)
    return marks, ()


def _entries(path: Path, wanted: str) -> list[Path]:
    """What a folder shows, in the order of names."""
    try:
        return sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} must be {wanted}, it is not: check the path") from None
    except OSError as error:
        raise unreadable(path, error) from error


def _name(path: Path) -> str:
    # macOS may write accents apart, other systems do not: the name decides which examples are held out.
    return unicodedata.normalize("NFC", path.name if path.is_dir() else path.stem)


def _silo(entry: Path) -> list[Part]:
    """Train and test, or one part to be divided."""
    if entry.is_file():
        return _file(entry)
    inside = _entries(entry, "a silo's folder")
    by_name = {_name(path): path for path in inside}
    if {"train", "test"} == by_name.keys() and len(inside) == 2:
        return [_half(by_name[part]) for part in ("train", "test")]
    if len(inside) == 1 and inside[0].is_file():
        return _file(inside[0])
    if inside and all(path.is_dir() for path in inside):
        return [pictures.read(entry, inside)]
    found = ", ".join(path.name for path in inside[:5]) or "nothing"
    raise InputError(
        f"silo {entry} must hold train and test, one file ({_TYPES}), or a folder of images per class, "
        f"found {found}: arrange it so"
    )


def _half(path: Path) -> Part:
    if path.is_dir():
        return pictures.read(path, _entries(path, "a folder per class"))
    parts = _file(path)
    if len(parts) != 1:
        raise InputError(f"{path} must hold x and y, found train and test parts: the file's name says which it is")
    return parts[0]


def _file(path: Path) -> list[Part]:
    if path.suffix.lower() not in tables.READERS:
        raise InputError(f"{path} must be a silo ({_TYPES}, or a folder), it is not: move it elsewhere")
    return tables.read(path)


def _alike(parts: Sequence[Part]) -> list[Part]:
    """The same features everywhere; grey images among coloured ones get three channels, pixels among numbers are
    scaled."""
    shapes = {tuple(part.x.shape[1:]) for part in parts}
    if {len(shape) for shape in shapes} == {3} and {shape[0] for shape in shapes} == {1, 3}:
        parts = [part._replace(x=part.x.expand(-1, 3, -1, -1)) for part in parts]
    if len({part.x.dtype for part in parts}) > 1:
        parts = [part._replace(x=scaled(part.x)) for part in parts]
    first = parts[0]
    titled = next((part for part in parts if part.columns), first)
    for part in parts:
        if part.columns and part.columns != titled.columns:
            pairs = zip_longest(map(repr, titled.columns), map(repr, part.columns), fillvalue="nothing")
            wanted, got = next(pair for pair in pairs if pair[0] != pair[1])
            raise InputError(
                f"{part.where}: columns must be those of {titled.where} in the same order, found {got} for {wanted}: "
                "give all silos the same columns"
            )
        if part.x.shape[1:] != first.x.shape[1:]:
            raise InputError(
                f"{part.where}: examples must have the shape {tuple(first.x.shape[1:])} of {first.where}, "
                f"found {tuple(part.x.shape[1:])}: give all silos the same features"
            )
    return list(parts)
