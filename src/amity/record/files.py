"""Writing so that a reader sees the old file or the new one, and reading with errors of one line."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from torch import Tensor

from amity.errors import AmityError, DamagedFile, DiskFull, InputError
from amity.federation.safe_files import is_device
from amity.federation.safe_files import sync as sync
from amity.record.sharing import allow, begin_file
from amity.small_files import parse_json as parse_text
from amity.small_files import parse_toml, read_small

Array = npt.NDArray[Any]

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # a full disk, a quota, a limit on the size of files


def plain(value: Any) -> Any:
    """Return the same value in JSON's types. JSON has no NaN: a number that is not finite becomes null."""
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
    """Return the text of a JSON file, in plain types."""
    return (json.dumps(plain(value), allow_nan=False, indent=indent) + "\n").encode()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling to write to; it takes the place of `path` if all goes well. A device is written to."""
    if is_device(path):
        yield path
        return
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        begin_file(temporary)
        yield temporary
        allow(temporary)
        sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def written_to(path: Path) -> Iterator[None]:
    """Turn a disk that is full or gone into one line: what was recorded before stays, and the run can go on."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        text = f"cannot write to {path} ({reason}): make room there, then --resume continues it"
        raise not_written(error, text) from error


def not_written(error: Exception, text: str) -> AmityError:
    """Return the error about something that cannot be written: `DiskFull` for want of room, else `InputError`."""
    if isinstance(error, OSError):
        no_room = error.errno in _NO_ROOM
    else:  # safetensors tells the system's number in its text alone
        no_room = "No space left" in str(error) or any(f"(os error {number})" in str(error) for number in _NO_ROOM)
    return DiskFull(text) if no_room else InputError(text)


def replace(path: Path, content: bytes) -> None:
    """Put a file with this content in the place of the one that may be there."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file."""
    with path.open("ab") as file:
        file.write(content)


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an archive of arrays by name."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type, unused-ignore]


def load_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of an archive by name."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except Exception as error:  # a damaged archive fails in many ways, from zlib's own to a number of axes
        raise DamagedFile(f"{path} cannot be read: {error}") from error


def load_bytes(path: Path) -> bytes:
    """Return all that a file holds."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror or error}") from error


def load_small(path: Path) -> bytes:
    """Return all that a file holds which people give and which is small."""
    try:
        return read_small(path)
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror or error}") from error


def parse_json(path: Path, content: bytes) -> Any:
    """Return the value of a JSON text; `path` names it in errors."""
    try:
        return parse_text(content)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} is not valid JSON: {error}") from error


def load_json(path: Path) -> Any:
    """Return the value that a JSON file holds."""
    return parse_json(path, load_bytes(path))


def load_toml(path: Path) -> dict[str, Any]:
    """Return the table that a TOML file holds."""
    try:
        return parse_toml(load_small(path).decode())
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} is not valid TOML: {error}") from error
