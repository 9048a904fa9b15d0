"""The lock of a run directory: one process at a time may write to it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amity.errors import InputError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]


PATIENCE = 0.3
"""Seconds that a writer waits: whoever asks whether a directory is `held` holds it for a moment."""


class Lock:
    """A lock on an open directory, in no file: held until `release`, or until its process ends in whatever way."""

    def __init__(self, path: Path) -> None:
        self._handle: int | None = None
        if fcntl is None:
            return
        handle = os.open(path, os.O_RDONLY)
        until = time.monotonic() + PATIENCE
        while (locked := _lock(handle)) is False and time.monotonic() < until:
            time.sleep(0.02)
        if locked:
            self._handle = handle
            return
        os.close(handle)
        if locked is False:
            raise InputError(f"another process is writing {path}: wait for it or choose another --out")

    def release(self) -> None:
        """Let others write to the directory."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.release()


@contextmanager
def locked(path: Path) -> Iterator[Lock | None]:
    """Lock a directory, if there is one, for longer than this block; where the block fails, let go of it at once.

    An error that somebody keeps would otherwise keep the lock as well.
    """
    lock = Lock(path) if path.is_dir() else None
    try:
        yield lock
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def held(path: Path) -> bool | None:
    """Return whether a process is writing to a run directory; None where that cannot be known."""
    if fcntl is None:
        return None
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        for _ in range(3):  # somebody else may be asking
            if (locked := _lock(handle)) is not False:
                break
            time.sleep(0.002)
    finally:
        os.close(handle)
    return None if locked is None else not locked


def _lock(handle: int) -> bool | None:
    """Lock an open directory, if nobody else does; None on a file system that has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
