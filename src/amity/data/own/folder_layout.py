"""The entries of a folder of silos: which file or folder is a silo, and where its train and test parts are.

PATH/north.csv                           one file: a seeded part of it is held out for testing
PATH/south/train.csv, test.csv           a folder with both parts; npz and parquet alike
PATH/east/data.npz                       a folder with one file
PATH/west/cat/1.png, dog/2.png           a folder per class, with images
PATH/west/train/cat/1.png, test/...      the same, divided
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from amity.contract import InputError
from amity.data.formats import silo_file
from amity.data.formats.content import unreadable

_TYPES = ", ".join(suffix.removeprefix(".") for suffix in silo_file.SUFFIXES)


class Piece(NamedTuple):
    """The place of a silo's examples: a file, or a folder with one folder of images per class."""

    path: Path
    classes: tuple[Path, ...] | None = None  # the folders of images
    half: bool = False  # it is the train or the test part, not both

    @property
    def is_table(self) -> bool:
        """True for csv and parquet."""
        return self.classes is None and self.path.suffix.lower() in silo_file.TABLES


def entries(path: Path, wanted: str) -> list[Path]:
    """Return what a folder holds, hidden files aside, in the order of names; `wanted` says what it should be."""
    try:
        return sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} must be {wanted}, it is not: check the path") from None
    except OSError as error:
        raise unreadable(path, error) from error


def silo_name(path: Path) -> str:
    """Return the name of the silo that a file or folder holds."""
    # macOS may write accents apart, other systems do not: the name decides which examples are held out.
    return unicodedata.normalize("NFC", path.name if path.is_dir() else path.stem)


def check_level(path: Path, names: Sequence[str]) -> None:
    """Refuse a folder with one silo's train and test part: taken for two silos, one would learn the other's tests."""
    other = next((part for part in ("test", "val") if part in names), None)
    if "train" in names and other:
        raise InputError(
            f"{path} must hold one file or folder per silo, found train and {other}, the parts of one: give the "
            "folder above, with such a folder for each silo"
        )


def pieces(entry: Path) -> list[Piece]:
    """Return the pieces of a silo: its train and test part, or one that is still to be divided or holds both."""
    if entry.is_file():
        return [_file(entry)]
    inside = entries(entry, "a silo's folder")
    by_name = {silo_name(path): path for path in inside}
    if {"train", "test"} == by_name.keys() and len(inside) == 2:
        return [_half(by_name[part]) for part in ("train", "test")]
    if len(inside) == 1 and inside[0].is_file():
        return [_file(inside[0])]
    if inside and all(path.is_dir() for path in inside):
        return [Piece(entry, tuple(inside))]
    found = ", ".join(path.name for path in inside[:5]) or "nothing"
    raise InputError(
        f"silo {entry} must hold train and test, one file ({_TYPES}), or a folder of images per class, "
        f"found {found}: arrange it so"
    )


def _half(path: Path) -> Piece:
    if path.is_dir():
        return Piece(path, tuple(entries(path, "a folder per class")), half=True)
    return _file(path)._replace(half=True)


def _file(path: Path) -> Piece:
    if path.suffix.lower() not in silo_file.SUFFIXES:
        raise InputError(f"{path} must be a silo ({_TYPES}, or a folder), it is not: move it elsewhere")
    return Piece(path)
