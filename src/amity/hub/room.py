"""A server whose disk is full: its run waits until there is room, as it waits for silos that are away."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError

from amity.errors import DiskFull
from amity.federation.safe_files import sync

EVERY = 10.0
"""Seconds between two looks whether there is room."""

NEEDED = 1 << 20
"""Bytes that must fit before a run goes on."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def no_room(error: BaseException) -> bool:
    """Return whether an error says that something did not fit on the disk."""
    if isinstance(error, SafetensorError):  # which tells the system's number in its text alone
        return any(f"(os error {number})" in str(error) for number in _NO_ROOM)
    return isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in _NO_ROOM)


def wait_for_room(folder: Path, most: float, pause: Callable[[float], None]) -> float:
    """Wait until the folder takes a file again, at most so many seconds; those that it took come back."""
    waited = 0.0
    while not _takes(folder) and waited < most:
        pause(EVERY)
        waited += EVERY
    return waited


def _takes(folder: Path) -> bool:
    trial = folder / ".room"
    try:
        trial.write_bytes(os.urandom(NEEDED))
        sync(trial)
    except OSError:
        return False
    finally:
        with suppress(OSError):
            trial.unlink(missing_ok=True)
    return True
