"""IDX, the file format of MNIST and its kin: a short header, then raw bytes. All of it is verified."""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from amity.contract import InputError, Split

_BYTES = 0x08  # the only element type that these data sets use
_AGAIN = "replace it with a fresh copy"


def unpack(path: Path) -> bytes:
    """A file's content, decompressed where it is gzip: told by its first bytes, since names get changed."""
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is not a complete gzip file ({error}): {_AGAIN}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check its permissions") from error


def parse(content: bytes, axes: int, path: Path) -> npt.NDArray[np.uint8]:
    """The array in an IDX file that must have this many axes. Read-only: it is a view of the content."""
    magic = bytes((0, 0, _BYTES, axes))
    start = 4 + 4 * axes
    if content[:4] != magic or len(content) < start:
        found = content[:4].hex() or "nothing"
        raise InputError(f"{path} must start with {magic.hex()} as an IDX file, found {found}: {_AGAIN}")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", count=axes, offset=4))
    expected = start + math.prod(shape)
    if len(content) != expected:
        text = " x ".join(map(str, shape))
        raise InputError(f"{path} must have {expected} bytes for {text}, found {len(content)}: {_AGAIN}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read(path: Path, axes: int, md5: str | None = None) -> npt.NDArray[np.uint8]:
    """The array in a file, verified against the sum of its unpacked content where one is given."""
    content = unpack(path)
    array = parse(content, axes, path)
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 is not None and found != md5:
        raise InputError(f"{path} must have the official content (md5 {md5}), found {found}: {_AGAIN}")
    return array


def labelled(images: Path, labels: Path, classes: int, sums: Mapping[str, str]) -> Split:
    """Grey images in [-1, 1] with their labels. `sums` maps file names without .gz to md5 sums."""
    x = read(images, 3, sums.get(images.name.removesuffix(".gz")))  # [n, H, W]
    y = read(labels, 1, sums.get(labels.name.removesuffix(".gz")))  # [n]
    if len(x) != len(y):
        raise InputError(f"{labels} must have one label per image, found {len(y)} for {len(x)}: {_AGAIN}")
    if len(y) and y.max() >= classes:
        raise InputError(f"{labels} must have labels 0 to {classes - 1}, found {y.max()}: {_AGAIN}")
    pixels = torch.from_numpy(x.copy()).unsqueeze(1)  # [n, 1, H, W]; a copy, for torch wants writable memory
    return Split(pixels.float().div_(127.5).sub_(1), torch.from_numpy(y.astype(np.int64)))
