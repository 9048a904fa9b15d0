"""Writing so that a reader sees the old file or the new one, and reading with errors in one line."""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from torch import Tensor

from amity.contract import InputError

Array = npt.NDArray[Any]


def plain(value: Any) -> Any:
    """The same value in JSON's types. JSON has no NaN: what is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def to_json(value: Any, indent: int | None = None) -> bytes:
    return (json.dumps(plain(value), allow_nan=False, indent=indent) + "\n").encode()


def sync(path: Path) -> None:
    """Wait until a file or directory has reached the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a directory
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary sibling to write to; it takes the place of `path` if all goes well."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def written_to(path: Path) -> Iterator[None]:
    """One line where the disk is full or gone: what was recorded before stays, and the run can go on from there."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write to {path} ({reason}): make room there, then --resume continues it") from error


def replace(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type, unused-ignore]


def load_arrays(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def load_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
