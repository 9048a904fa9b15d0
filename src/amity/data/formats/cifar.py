"""CIFAR in its binary version: records of label bytes, then 3 x 32 x 32 pixels, red first, row by row. No pickle.

CIFAR-10 has one label byte. CIFAR-100 has two, the superclass (coarse) and the class (fine).
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from amity.contract import InputError
from amity.data.formats.content import AGAIN, Arrays, read_bytes, unreadable
from amity.data.memory import MemoryBudget

_PIXELS = 3 * 32 * 32

TEN = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
HUNDRED = ("train.bin", "test.bin")


def loose(paths: Sequence[Path]) -> Arrays:
    """Return the arrays of unpacked files, of which the last one is the test part."""
    return _parts([(path, read_bytes(path)) for path in paths])


def packed(path: Path, names: Sequence[str]) -> Arrays:
    """Return the arrays of the files with these names inside a .tar.gz, in whichever folder; nothing is unpacked to
    disk."""
    found: dict[str, bytes] = {}
    budget = MemoryBudget()
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if name in names and member.isfile() and (stream := archive.extractfile(member)) is not None:
                    budget.take(member.size, path / name)
                    found[name] = stream.read()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a complete tar file ({str(error).splitlines()[0]}): {AGAIN}") from error
    except OSError as error:
        raise unreadable(path, error) from error
    if absent := [name for name in names if name not in found]:
        raise InputError(f"{path} must contain {', '.join(absent)}, it does not: {AGAIN}")
    return _parts([(path / name, found[name]) for name in names])


def _parts(contents: Sequence[tuple[Path, bytes]]) -> Arrays:
    marks = 2 if contents[-1][0].name == HUNDRED[-1] else 1
    parts = [records(content, marks, path) for path, content in contents]
    train, test = np.concatenate(parts[:-1]), parts[-1]
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for part, rows in (("train", train), ("test", test)):
        arrays[f"{part}_images"] = rows[:, marks:].reshape(-1, 3, 32, 32)
        arrays[f"{part}_labels"] = rows[:, marks - 1]
        if marks == 2:
            arrays[f"{part}_coarse_labels"] = rows[:, 0]
    return arrays


def records(content: bytes, marks: int, path: Path) -> npt.NDArray[np.uint8]:
    """Return one row per image, with its label bytes first.  # [n, marks + 3072]"""
    size = marks + _PIXELS
    if not content or len(content) % size:
        raise InputError(f"{path} must be whole records of {size} bytes, found {len(content)} bytes: {AGAIN}")
    return np.frombuffer(content, np.uint8).reshape(-1, size)
