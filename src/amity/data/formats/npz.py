"""npz files, read without pickle: silos of a user's own, MedMNIST as it is published, and packs of the same form."""

from __future__ import annotations

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from amity.contract import InputError
from amity.data.formats.content import AGAIN, Arrays, unreadable
from amity.data.formats.part import Part, part_of_arrays
from amity.data.memory import MemoryBudget

_NEEDED = ("train_images", "train_labels", "test_images", "test_labels")
_OPTIONAL = ("val_images", "val_labels", "train_coarse_labels", "test_coarse_labels")
# The errors of numpy and zipfile for files that are damaged, encrypted, packed in unknown ways, or of absurd shapes.
_DAMAGED = (
    *(ValueError, TypeError, EOFError, KeyError, OverflowError, MemoryError, RuntimeError, SyntaxError),
    *(struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


def weigh(path: Path, budget: MemoryBudget, least: int = 1) -> None:
    """Take the memory for all arrays, as the file's directory and their headers give it; `least` bytes per number."""
    with _whole(path):
        with path.open("rb") as stream:
            if not zipfile.is_zipfile(stream):
                return  # `read` knows what to say
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                count = _numbers(archive, info) if info.filename.endswith(".npy") else 0
                budget.take(max(info.file_size, least * count), path)


def _numbers(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Return how many numbers an array claims to have; the file must hold them, as numpy allocates them all at once."""
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        reader = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
        shape, _, dtype = reader[min(version[0], 2)](member)
    count = math.prod(shape)
    if not dtype.hasobject and count * dtype.itemsize > info.file_size:
        raise ValueError(f"{info.filename} is shorter than its header says")
    return count if dtype.kind in "biuf" else 0


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Turn the errors of an unreadable file into one that says what is wrong with it."""
    try:
        yield
    except InputError:
        raise
    except _DAMAGED as error:
        if "Object arrays" in str(error):
            raise InputError(
                f"{path} must hold plain arrays, found Python objects: save it with arrays of numbers or of str"
            ) from error
        raise InputError(f"{path} is not an npz file of plain arrays, or is damaged: {AGAIN}") from error
    except OSError as error:
        raise unreadable(path, error) from error


def read(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """Return all arrays of an npz file that was weighed."""
    with _whole(path), path.open("rb") as stream:
        if stream.read(6) == np.lib.format.MAGIC_PREFIX:
            arrays = {}  # one array without a name, however large
        else:
            stream.seek(0)
            loaded = np.load(stream, allow_pickle=False)
            arrays = {name: loaded[name] for name in loaded.files}
    if not arrays:
        raise InputError(f"{path} must be an npz file with named arrays, found none: save it with numpy.savez")
    return arrays


def images(paths: Sequence[Path]) -> Arrays:
    """Return train_, test_ and, where they exist, val_images with their labels, which the file may hold as [n, 1]."""
    (path,) = paths
    weigh(path, MemoryBudget())
    arrays = read(path)
    if absent := [name for name in _NEEDED if name not in arrays]:
        raise InputError(f"{path} must contain {', '.join(absent)}, it does not: {AGAIN}")
    kept = {name: arrays[name] for name in (*_NEEDED, *_OPTIONAL) if name in arrays}
    return {name: a.squeeze(1) if a.ndim == 2 and a.shape[1] == 1 else a for name, a in kept.items()}


def parts(path: Path) -> list[Part]:
    """Return one silo's examples (x, y), or its train and test part (x_train, y_train, x_test, y_test)."""
    arrays = read(path)
    if absent := [name for name in ("x_val", "y_val") if name in arrays]:
        raise InputError(
            f"{path} must hold parts to train and test on, found {absent[0]}: join it to x_train, "
            "--val-fraction sets validation examples aside"
        )
    for pairs in ((("x_train", "y_train"), ("x_test", "y_test")), (("x", "y"),)):
        if all(name in arrays for pair in pairs for name in pair):
            return [part_of_arrays(arrays[x], arrays[y], f"{path}, {x}:", f"{path}, {y}:", str(path)) for x, y in pairs]
    found = ", ".join(arrays)
    raise InputError(f"{path} must contain x and y, or x_train, y_train, x_test, y_test, found {found}: rename them")
