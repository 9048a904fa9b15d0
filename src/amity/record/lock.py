"""One process at a time may write to a run directory."""

from __future__ import annotations

import os
from pathlib import Path

from amity.contract import InputError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]


class Lock:
    """Held until `release`, or until its process ends in whatever way: it lies on the open directory, in no file."""

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
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.release()
