"""The lock of a kit: one process at a time may run it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from amity.errors import InputError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]


def hold(kit: Path, patience: float = 0.0) -> int | None:
    """Hold a kit until the handle is closed or this process ends, in whatever way; None where nothing is locked.

    `patience`: seconds to wait for another process that holds it.
    """
    if fcntl is None:
        return None
    handle = os.open(kit, os.O_RDONLY)
    until = time.monotonic() + patience
    while not _locked(handle):
        if time.monotonic() >= until:
            os.close(handle)
            raise InputError(f"{kit} runs already in another process: stop that one first")
        time.sleep(0.1)
    return handle


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system that has no locks
    return True


def is_held(kit: Path) -> bool:
    """True while a process runs this kit."""
    try:
        handle = hold(kit)
    except InputError:
        return True
    if handle is not None:
        os.close(handle)
    return False
