"""IDX, the format of MNIST, Fashion-MNIST and EMNIST: a short header, then raw bytes, all of it verified."""

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
from amity.data.formats.content import AGAIN, BLOCK, Arrays, digest_of, not_official, read_bytes, unreadable
from amity.data.memory import MemoryBudget

_BYTES = 0x08  # the only element type that these data sets use
PARTS = ("train_images", "train_labels", "test_images", "test_labels")


def unpack(raw: bytes, path: Path, budget: MemoryBudget) -> bytes | bytearray:
    """Return the content, decompressed if its first bytes are those of gzip: the name of a file may have changed."""
    if raw[:2] != b"\x1f\x8b":
        return raw
    content = bytearray()
    try:
        with gzip.open(io.BytesIO(raw)) as stream:
            while block := stream.read(BLOCK):
                budget.take(len(block), path)
                content += block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is not a complete gzip file ({error}): {AGAIN}") from error
    return content


def parse(content: bytes | bytearray, axes: int, path: Path) -> npt.NDArray[np.uint8]:
    """Return the array in an IDX file, which must have this many axes, as a view of the content."""
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


def read(path: Path, axes: int, digest: str | None = None, budget: MemoryBudget | None = None) -> npt.NDArray[np.uint8]:
    """Return the array in a file, compared with the checksum of its unpacked content where one is given."""
    content = unpack(read_bytes(path), path, budget or MemoryBudget())
    array = parse(content, axes, path)
    if digest is not None and (found := digest_of(io.BytesIO(content), digest)) != digest:
        raise not_official(path, digest, found)
    return array


def four(paths: Sequence[Path], digests: Sequence[str | None]) -> Arrays:
    """Return the arrays of four files: images and labels of the train part, then of the test part."""
    axes, budget = (3, 1, 3, 1), MemoryBudget()
    found = [read(*file, budget) for file in zip(paths, axes, digests, strict=True)]
    return dict(zip(PARTS, found, strict=True))


def upright(arrays: Arrays) -> Arrays:
    """Return EMNIST's images upright: they are stored column by column, and would lie on their side."""
    return {key: array.swapaxes(1, 2) if array.ndim == 3 else array for key, array in arrays.items()}


def zipped(path: Path, names: Sequence[str]) -> Arrays:
    """Return the arrays of the four IDX files with these names, in whichever folder of a zip file they are."""
    budget = MemoryBudget()
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.rpartition("/")[2]: info for info in archive.infolist()}
            if absent := [name for name in names if name not in members]:
                raise InputError(f"{path} must contain {', '.join(absent)}, it does not: {AGAIN}")
            for name in names:
                budget.take(members[name].file_size, path / name)
            packed = [archive.read(members[name]) for name in names]
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # under a password, or packed otherwise
        raise InputError(f"{path} is not a complete zip file ({error}): {AGAIN}") from error
    except OSError as error:
        raise unreadable(path, error) from error
    inside = [path / name for name in names]
    contents = [unpack(raw, where, budget) for raw, where in zip(packed, inside, strict=True)]
    found = [parse(content, n, where) for content, where, n in zip(contents, inside, (3, 1, 3, 1), strict=True)]
    return dict(zip(PARTS, found, strict=True))
