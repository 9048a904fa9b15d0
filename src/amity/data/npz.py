"""npz files, read without pickle: MedMNIST as it is published, and packs of the same form."""

from __future__ import annotations

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from amity.contract import InputError
from amity.data import files
from amity.data.files import AGAIN, Arrays

_NEEDED = ("train_images", "train_labels", "test_images", "test_labels")
_OPTIONAL = ("val_images", "val_labels", "train_coarse_labels", "test_coarse_labels")
# What numpy and zipfile raise for files that are damaged, encrypted, packed in unknown ways, or of absurd shapes.
_DAMAGED = (
    *(ValueError, TypeError, EOFError, KeyError, OverflowError, MemoryError, RuntimeError, SyntaxError),
    *(struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


def read(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """All arrays of an npz file."""
    try:
        with path.open("rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            arrays = {} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except _DAMAGED as error:
        if "Object arrays" in str(error):
            raise InputError(
                f"{path} must hold plain arrays, found Python objects: save it with arrays of numbers or of str"
            ) from error
        raise InputError(f"{path} is not an npz file of plain arrays, or is damaged: {AGAIN}") from error
    except OSError as error:
        raise files.unreadable(path, error) from error
    if not arrays:
        raise InputError(f"{path} must be an npz file with named arrays, found none: save it with numpy.savez")
    return arrays


def images(paths: Sequence[Path]) -> Arrays:
    """train_, test_ and where they exist val_images, and their labels. Labels may be [n, 1]."""
    (path,) = paths
    arrays = read(path)
    if absent := [name for name in _NEEDED if name not in arrays]:
        raise InputError(f"{path} must contain {', '.join(absent)}, it does not: {AGAIN}")
    kept = {name: arrays[name] for name in (*_NEEDED, *_OPTIONAL) if name in arrays}
    return {name: a.squeeze(1) if a.ndim == 2 and a.shape[1] == 1 else a for name, a in kept.items()}
