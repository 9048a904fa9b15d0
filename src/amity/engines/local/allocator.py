"""Memory that a training step frees is kept for the next step, and given back now and then.

The C library gives large freed blocks back to the system and gets them anew, page by page and zeroed: for a small
convolutional network that is a tenth of the time of a step. Blocks above 32 MiB, as whole matrices of models, still
go back at once. Only GNU's C library has these settings, for a whole process: elsewhere nothing happens, nor where
MALLOC_* variables of the environment already say how it is to be.

An upload is made by one thread and freed by another, while the first has long begun its next turn. So what is kept
crumbles: over a round of 1000 silos by a quarter of all their models. It is given back after every GiB of uploads.
"""

from __future__ import annotations

import ctypes
import functools
import os

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # malloc.h
_CRUMBLED = 1 << 30  # bytes of uploads
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_")


@functools.cache
def keep_freed_memory() -> bool:
    """Set it once per process; tell whether it was."""
    if any(name in os.environ for name in _VARIABLES):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    wanted = ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, (1 << 31) - 1), (_TOP_PAD, 64 << 20))
    return all(mallopt(name, value) == 1 for name, value in wanted)


class Crumbs:
    """Counts the uploads that were taken, and gives freed memory back to the system when there were many."""

    def __init__(self) -> None:
        self._kept = keep_freed_memory()
        self._taken = 0

    def taken(self, count: int) -> None:
        """Count an upload of so many bytes that has been freed."""
        self._taken += count
        if self._kept and self._taken >= _CRUMBLED:
            ctypes.CDLL(None).malloc_trim(0)
            self._taken = 0
