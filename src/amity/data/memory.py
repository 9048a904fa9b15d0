"""A limit on the memory that data may take, checked before anything is unpacked: a small file can hold any number of
zeros.

Data are counted at the size they have when decoded; a user's own data count at least 4 bytes per number, the float32
that a model sees. They may take half of the free memory, because dealing them to silos copies them once. A file that
unpacks to hundreds of times its own size is refused even where there is room. AMITY_MAX_DATA_GIB sets another limit.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from amity.errors import InputError
from amity.free_memory import available

VARIABLE = "AMITY_MAX_DATA_GIB"
GIB = 2**30
NUMBER = 4  # bytes of a feature that a model sees
LARGE = GIB // 2  # bytes: below this, it does not matter how well a file is compressed
MOST = 500  # largest factor between a file and its content: real data never came near it, zeros do


class TooLarge(InputError):
    """The data do not fit into memory, so there is no sense in looking at the next file."""


class MemoryBudget:
    """The bytes that data may take, and how many of them are taken already."""

    def __init__(self) -> None:
        self.limit, self._reason = _limit()
        self.taken = 0
        self._unpacked: dict[str, int] = {}  # per file: its parts may be announced one after the other

    def take(self, size: int, where: str | Path) -> None:
        """Count bytes that a file is about to take.

        Raises TooLarge where the limit does not allow them, or where so small a file should not hold so many.
        """
        self._check_ratio(size, where)
        if self.taken + size > self.limit:
            beside = f", beside {_gib(self.taken)} so far" if self.taken else ""
            allow = math.ceil(10 * (self.taken + size) / GIB) / 10
            raise TooLarge(
                f"{where} must fit into {_gib(self.limit)} of memory ({self._reason}), found {_gib(size)} when unpacked"
                f"{beside}: leave examples or silos out, or set {VARIABLE}={allow:g} if they are worth it"
            )
        self.taken += size

    def _check_ratio(self, size: int, where: str | Path) -> None:
        """Refuse a small file that unpacks to gigabytes of next to nothing, unless the user has set a limit."""
        total = self._unpacked[str(where)] = self._unpacked.get(str(where), 0) + size
        if self._reason == VARIABLE or total <= LARGE or not os.path.isfile(where):
            return
        packed = os.path.getsize(where)
        if total > MOST * packed:
            raise TooLarge(
                f"{where} must hold at most {MOST} times its size when unpacked, found {_gib(total)} and more in "
                f"{_gib(packed)}: look at what is in it, or set {VARIABLE} to the GiB that are right"
            )


def _limit() -> tuple[float, str]:
    """Return the bytes that data may take, and the reason for this number."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        free = available()
        return (math.inf if free is None else free / 2), f"half of what is free here; {VARIABLE} changes it"
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not limit > 0:
        raise InputError(f"{VARIABLE} must be a number of GiB > 0, got {text!r}: set it to 4, say, or leave it out")
    return limit * GIB, VARIABLE


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / 2**20:.1f} MiB"
