"""Packs: files in which data with natural silos are passed on, with the silo and the part of every example.

What is text in them becomes bytes, so that a decoded pack is arrays alone and the cache can keep it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from amity.contract import InputError
from amity.data.formats import npz
from amity.data.formats.content import AGAIN, Arrays, read_bytes
from amity.data.memory import MemoryBudget

_TABLE = "table"


def arrays(paths: Sequence[Path], needed: Sequence[str]) -> Arrays:
    """Return the arrays of an npz file that are needed, those of text as bytes (see `words`)."""
    (path,) = paths
    npz.weigh(path, MemoryBudget())
    found = npz.read(path)
    if absent := [name for name in needed if name not in found]:
        raise InputError(f"{path} must contain {', '.join(absent)}, it does not: {AGAIN}")
    return {name: _bytes("\n".join(map(str, a))) if (a := found[name]).dtype.kind == "U" else a for name in needed}


def words(array: Tensor) -> tuple[str, ...]:
    """Return the text that an array was."""
    return tuple(array.numpy().tobytes().decode().split("\n"))


def table(paths: Sequence[Path]) -> Arrays:
    """Return a csv file as bytes (see `rows`)."""
    (path,) = paths
    return {_TABLE: np.frombuffer(read_bytes(path), dtype=np.uint8)}


def rows(decoded: Mapping[str, Tensor]) -> list[dict[str, str]]:
    """Return the rows of a table, each a text by column."""
    text = decoded[_TABLE].numpy().tobytes().decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def _bytes(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), dtype=np.uint8)
