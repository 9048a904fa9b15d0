"""IDX, the file format of MNIST and its kin: a short header, then raw bytes. All of it is verified."""

from __future__ import annotations

import gzip
import io
import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from amity.contract import InputError
from amity.data import files
from amity.data.files import AGAIN, Arrays

_BYTES = 0x08  # the only element type that these data sets use
PARTS = ("train_images", "train_labels", "test_images", "test_labels")


def unpack(raw: bytes, path: Path) -> bytes:
    """Content, decompressed where it is gzip: told by its first bytes, since names get changed."""
    try:
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is not a complete gzip file ({error}): {AGAIN}") from error


def parse(content: bytes, axes: int, path: Path) -> npt.NDArray[np.uint8]:
    """The array in an IDX file that must have this many axes. Read-only: it is a view of the content."""
    magic = bytes((0, 0, _BYTES, axes))
    start = 4 + 4 * axes
    if content[:4] != magic or len(content) < start:
        found = content[:4].hex() or "nothing"
        raise InputError(f"{path} must start with {magic.hex()} as an IDX file, found {found}: {AGAIN}")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", count=axes, offset=4))
    expected = start + math.prod(shape)
    if len(content) != expected:
        text = " x ".join(map(str, shape))
        raise InputError(f"{path} must have {expected} bytes for {text}, found {len(content)}: {AGAIN}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read(path: Path, axes: int, digest: str | None = None) -> npt.NDArray[np.uint8]:
    """The array in a file, verified against the digest of its unpacked content where one is given."""
    content = unpack(files.content(path), path)
    array = parse(content, axes, path)
    if digest is not None and (found := files.digest_of(io.BytesIO(content), digest)) != digest:
        raise files.not_official(path, digest, found)
    return array


def four(paths: Sequence[Path], digests: Sequence[str | None]) -> Arrays:
    """The images and labels of train and test, in this order, as four files."""
    axes = (3, 1, 3, 1)
    found = [read(*file) for file in zip(paths, axes, digests, strict=True)]
    return dict(zip(PARTS, found, strict=True))


def upright(arrays: Arrays) -> Arrays:
    """EMNIST's images lie on their side: stored column by column."""
    return {key: array.swapaxes(1, 2) if array.ndim == 3 else array for key, array in arrays.items()}


def zipped(path: Path, names: Sequence[str]) -> Arrays:
    """The four IDX files with these names anywhere inside a zip file."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.rpartition("/")[2]: info for info in archive.infolist()}
            if absent := [name for name in names if name not in members]:
                raise InputError(f"{path} must contain {', '.join(absent)}, it does not: {AGAIN}")
            packed = [archive.read(members[name]) for name in names]
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path} is not a complete zip file ({error}): {AGAIN}") from error
    except OSError as error:
        raise files.unreadable(path, error) from error
    inside = [path / name for name in names]
    found = [parse(unpack(raw, where), n, where) for raw, where, n in zip(packed, inside, (3, 1, 3, 1), strict=True)]
    return dict(zip(PARTS, found, strict=True))
