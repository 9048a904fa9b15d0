"""Files of data sets: what they are called, where they are published, where they lie, whether they are whole."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from amity.contract import InputError

Arrays = Mapping[str, npt.NDArray[np.generic]]
"""A decoded data set: uint8 images [n, C, H, W] and labels [n], or tables, under names like "train_images"."""

AGAIN = "replace it with a fresh copy"
BLOCK = 1 << 20


@dataclass(frozen=True)
class File:
    """A file as its publisher offers it. Digests are "md5:..." or "sha256:...", None where none is published."""

    name: str
    urls: tuple[str, ...] = ()
    digest: str | None = None  # of the file as it is fetched
    content: str | None = None  # of what is inside its .gz, which people pack anew


@dataclass(frozen=True)
class Layout:
    """One way in which a data set comes."""

    files: tuple[File, ...]
    decode: Callable[[Sequence[Path]], Arrays]  # the paths of `files`, in their order
    subset: bool = False  # it never holds everything
    note: str = ""  # what its users have to know


@dataclass(frozen=True)
class Found:
    """The files of a layout where they lie."""

    layout: Layout
    paths: tuple[Path, ...]

    @property
    def summed(self) -> bool:
        """Whether there is a digest to check each of them against."""
        return all(file.content or (file.digest and path.name == file.name) for file, path in self._pairs())

    def _pairs(self) -> Iterator[tuple[File, Path]]:
        return zip(self.layout.files, self.paths, strict=True)

    def decode(self) -> Arrays:
        """The arrays in the files, once these are known to be what was published."""
        for file, path in self._pairs():
            if file.content is None and path.name == file.name:
                check(path, file.digest)
        return self.layout.decode(self.paths)


def search_path(data_dir: str | Path | None = None) -> list[Path]:
    """The directories that are searched for data sets, first one first."""
    places = [data_dir, os.environ.get("AMITY_DATA"), "data", user_cache()]
    return [expanded(place) for place in places if place]


def user_cache() -> Path:
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "amity"


def expanded(path: str | Path) -> Path:
    """With ~ as a home directory, which containers may lack."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(
            f"{str(path)!r} needs a home directory, which there is not: give the whole path, "
            "set HOME, or XDG_CACHE_HOME for the user cache"
        ) from error


def find(layouts: Sequence[Layout], folders: Sequence[str], roots: Sequence[Path]) -> Found | None:
    """The first complete layout: by directory, then as the layouts are listed, then scattered over directories."""
    for places in (*([root] for root in roots), roots):
        for layout in layouts:
            paths = [_place(file.name, folders, places) for file in layout.files]
            if all(paths):
                return Found(layout, tuple(path for path in paths if path))
    return None


def missing(layout: Layout, folders: Sequence[str], roots: Sequence[Path]) -> list[File]:
    return [file for file in layout.files if _place(file.name, folders, roots) is None]


def damaged(layout: Layout, folders: Sequence[str], roots: Sequence[Path]) -> list[File]:
    """Files that are there and are not what was published."""
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
    """Where a file is first found; one that is offered as .gz may lie there unpacked."""
    spellings = (name, name.removesuffix(".gz")) if not name.endswith(".tar.gz") else (name,)
    places = (root / folder / spelling for root in roots for folder in folders for spelling in spellings)
    return next((place for place in places if os.path.isfile(place)), None)


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be read ({error.strerror or error}): check its permissions")


def check(path: Path, digest: str | None) -> None:
    """Refuse a file that is not what was published."""
    if digest is None:
        return
    try:
        with path.open("rb") as stream:
            found = digest_of(stream, digest)
    except OSError as error:
        raise unreadable(path, error) from error
    if found != digest:
        raise not_official(path, digest, found)


def not_official(path: Path, digest: str, found: str) -> InputError:
    kind, _, value = digest.partition(":")
    return InputError(
        f"{path} must have the official content ({kind} {value}), found {found.partition(':')[2]}: {AGAIN}"
    )


def digest_of(stream: BinaryIO, like: str) -> str:
    """The digest of a stream, of the same kind as the one given."""
    kind = like.partition(":")[0]
    digest = hashlib.new(kind, usedforsecurity=False)
    while block := stream.read(BLOCK):
        digest.update(block)
    return f"{kind}:{digest.hexdigest()}"
