"""Files as bytes: reading them, comparing their checksums, and the errors where that fails."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from amity.contract import InputError

Arrays = Mapping[str, npt.NDArray[np.generic]]
"""A decoded data set: uint8 images [n, C, H, W] and labels [n], or tables, under names like "train_images"."""

AGAIN = "replace it with a fresh copy"
BLOCK = 1 << 20  # bytes read at a time


def read_bytes(path: Path) -> bytes:
    """Return the whole content of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InputError:
    """Return the error for a file that the system does not let us read."""
    return InputError(f"{path} cannot be read ({error.strerror or error}): check its permissions")


def check_digest(path: Path, digest: str | None) -> None:
    """Refuse a file whose checksum is not the published one; without a checksum there is nothing to compare."""
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
    """Return the error for a file whose checksum is not the published one."""
    kind, _, value = digest.partition(":")
    return InputError(
        f"{path} must have the official content ({kind} {value}), found {found.partition(':')[2]}: {AGAIN}"
    )


def digest_of(stream: BinaryIO, like: str) -> str:
    """Return the checksum of a stream, of the same kind as the one given ("md5:..." or "sha256:...")."""
    kind = like.partition(":")[0]
    digest = hashlib.new(kind, usedforsecurity=False)
    while block := stream.read(BLOCK):
        digest.update(block)
    return f"{kind}:{digest.hexdigest()}"
