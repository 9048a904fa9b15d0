"""The files of a data set: their names and checksums, the directories searched for them, and which are missing."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from amity.contract import InputError
from amity.data.formats.content import Arrays, check_digest, digest_of


@dataclass(frozen=True)
class File:
    """A file as its publisher offers it. Checksums are "md5:..." or "sha256:...", None where none is published."""

    name: str
    urls: tuple[str, ...] = ()
    digest: str | None = None  # of the file as it is fetched
    content: str | None = None  # of the content of a .gz, which people often compress anew


@dataclass(frozen=True)
class Layout:
    """One of the forms in which a data set is published or passed on: its files, and how to decode them."""

    files: tuple[File, ...]
    decode: Callable[[Sequence[Path]], Arrays]  # takes the paths of `files`, in their order
    subset: bool = False  # this form never holds the whole data set
    note: str = ""  # shown to everybody who uses this form


@dataclass(frozen=True)
class Found:
    """A layout whose files were all found, and their paths."""

    layout: Layout
    paths: tuple[Path, ...]

    @property
    def summed(self) -> bool:
        """True if there is a published checksum for every file."""
        return all(file.content or (file.digest and path.name == file.name) for file, path in self._pairs())

    def _pairs(self) -> Iterator[tuple[File, Path]]:
        return zip(self.layout.files, self.paths, strict=True)

    def decode(self) -> Arrays:
        """Check the files against their published checksums, and return the arrays in them."""
        for file, path in self._pairs():
            if file.content is None and path.name == file.name:
                check_digest(path, file.digest)
        return self.layout.decode(self.paths)


def search_path(data_dir: str | Path | None = None) -> list[Path]:
    """Return the directories that are searched for data sets, in the order of the search."""
    places = [data_dir, os.environ.get("AMITY_DATA"), "data", user_cache()]
    return [expanded(place) for place in places if place]


def check_named(data_dir: str | Path | None, *, variable: bool = True) -> None:
    """Refuse a --data-dir or AMITY_DATA that is no directory: data from elsewhere may not be what the user meant."""
    if data_dir and not os.path.isdir(expanded(data_dir)):
        raise InputError(
            f"--data-dir must name a directory, {str(data_dir)!r} is none: check the path; "
            "`amity data fetch NAME --data-dir DIR` makes one"
        )
    named = os.environ.get("AMITY_DATA")
    if variable and named and not os.path.isdir(expanded(named)):
        raise InputError(f"AMITY_DATA must name a directory, {named!r} is none: correct the variable, or unset it")


def user_cache() -> Path:
    """Return the directory for fetched and decoded data sets of this user."""
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "amity"


def expanded(path: str | Path) -> Path:
    """Return a path with ~ replaced by the home directory; containers may have none, which is an InputError."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(
            f"{str(path)!r} needs a home directory, which there is not: give the whole path, "
            "set HOME, or XDG_CACHE_HOME for the user cache"
        ) from error


def find(layouts: Sequence[Layout], folders: Sequence[str], roots: Sequence[Path]) -> Found | None:
    """Return the first layout whose files are all there, or None.

    Each root directory is searched by itself first, for the layouts in their order; a layout whose files are
    scattered over several roots comes last.
    """
    for places in (*([root] for root in roots), roots):
        for layout in layouts:
            paths = [_place(file.name, folders, places) for file in layout.files]
            if all(paths):
                return Found(layout, tuple(path for path in paths if path))
    return None


def missing(layout: Layout, folders: Sequence[str], roots: Sequence[Path]) -> list[File]:
    """Return the files of a layout that are in none of the directories."""
    return [file for file in layout.files if _place(file.name, folders, roots) is None]


def damaged(layout: Layout, folders: Sequence[str], roots: Sequence[Path]) -> list[File]:
    """Return the files of a layout that are there, but whose content is not the published one."""
    there = ((file, _place(file.name, folders, roots)) for file in layout.files)
    return [file for file, path in there if path is not None and not _official(file, path)]


def _official(file: File, path: Path) -> bool:
    packed = path.name == file.name
    try:
        with path.open("rb") as stream:
            if packed and file.digest and digest_of(stream, file.digest) == file.digest:
                return True
        if file.content is None:
            return not (packed and file.digest)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as inside:
            return digest_of(cast(BinaryIO, inside), file.content) == file.content
    except (OSError, EOFError, zlib.error):
        return False


def _place(name: str, folders: Sequence[str], roots: Sequence[Path]) -> Path | None:
    """Return the first place of a file; one that is published as .gz may be there decompressed."""
    spellings = (name, name.removesuffix(".gz")) if not name.endswith(".tar.gz") else (name,)
    places = (root / folder / spelling for root in roots for folder in folders for spelling in spellings)
    return next((place for place in places if os.path.isfile(place)), None)
