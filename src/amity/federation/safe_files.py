"""Files that survive a crash, for their owner alone: written aside, on disk, then put in place."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))


def is_device(path: Path) -> bool:
    """Return whether a path is a device, a pipe or the like: one can write to it, and must not put a file in its place.

    >>> is_device(Path("/dev/null"))
    True
    """
    return path.parent in _DEVICES or (path.exists() and not path.is_file() and not path.is_dir())


def replace(path: Path, content: bytes) -> None:
    """Put a file in the place of the one that may be there: a reader sees the old one or the new one."""
    if is_device(path):
        raise OSError(errno.EINVAL, "a device is no place for a file", str(path))
    folder(path.parent)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            _write(file.fileno(), content)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def checked_json(content: Mapping[str, Any]) -> bytes:
    """JSON with a hash of itself: a digit that a disk has changed shows when it is read."""
    return json.dumps({**content, "check": _hash_of(content)}).encode()


def read_checked_json(path: Path) -> Any:
    """The content of a file that `checked_json` made. Raises ValueError where it is not as it was written."""
    try:
        content = json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deeply") from None
    if not isinstance(content, dict) or content.pop("check", None) != _hash_of(content):
        raise ValueError(f"{path.name} is not as it was written")
    return content


def _hash_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file, and wait until it is on disk."""
    new = not path.exists()
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        _write(handle, content)
    finally:
        os.close(handle)
    if new:
        sync(path.parent)


def folder(path: Path) -> None:
    """Make a folder and those above it that only their owner can look into, as far as there are none."""
    if not path.is_dir():
        folder(path.parent)
        path.mkdir(0o700, exist_ok=True)


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Wait until no other process holds this file, and hold it. The lock goes with the process, however it ends."""
    folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with suppress(ImportError):  # Windows
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def swap(new: Path, current: Path, old: Path) -> None:
    """Put a folder that is on disk in the place of the current one, which is kept as the old one."""
    sync(new)
    if current.exists():
        shutil.rmtree(old, ignore_errors=True)
        current.rename(old)
    new.rename(current)
    sync(current.parent)


def sync(path: Path) -> None:
    """Wait until a file or folder has reached the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a folder
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(handle: int, content: bytes) -> None:
    while content:
        content = content[os.write(handle, content) :]
    os.fsync(handle)
