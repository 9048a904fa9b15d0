"""The lock of a run directory: one process at a time may write to it."""

from __future__ import annotations

import os
from pathlib import Path

from amity.errors import InputError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]


class Lock:
    """A lock on an open directory, in no file: held until `release`, or until its process ends in whatever way."""

    def __init__(self, path: Path) -> None:
        self._handle: int | None = None
        if fcntl is None:
            return
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                raise InputError(f"another process is writing {path}: wait for it or choose another --out") from None
            return  # a file system that has no locks
        self._handle = handle

    def release(self) -> None:
        """Let others write to the directory."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.release()
