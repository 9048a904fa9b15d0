"""Files that grow while they are read: what was added since the last look, and the last lines of a log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, NamedTuple

KNOWN = 128  # bytes before the place where reading goes on, by which a file that was rewritten shows

Mark = tuple[int, int, int]
"""Inode, size and time of change: equal marks, equal files."""


class Added(NamedTuple):
    """What has come since the last look."""

    anew: bool  # the file was rewritten, cut or removed: what was read before no longer counts
    content: bytes


def mark_of(path: Path) -> Mark | None:
    """Return the mark of a file; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Tail:
    """A file to which others append, read piece by piece."""

    def __init__(self, path: Path, most: int | None = None) -> None:
        """`most`: bytes of an old file that matter; reading begins so far from its end."""
        self.path = path
        self._most = most
        self._mark: Mark | None = None
        self._place = 0
        self._before = b""  # the bytes before the place

    def look(self) -> Added:
        """Return what was added since the last look: anything, whole lines or not."""
        mark = mark_of(self.path)
        if mark == self._mark:
            return Added(False, b"")
        had = self._place > 0
        try:
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                anew = had and not (size >= self._place and self._same_before(file))
                if anew or not had:
                    self._place = max(0, size - self._most) if self._most is not None else 0
                    self._before = b""
                file.seek(self._place)
                content = file.read()
        except OSError:
            self.forget()
            return Added(had, b"")
        self._mark = mark
        self._go_on(content)
        return Added(anew, content)

    def take_back(self, count: int) -> None:
        """Leave the last bytes of what was returned for the next look: a line, or an entry, that is not complete."""
        if count:
            self._place -= count
            self._before = self._before[:-count]
            self._mark = None

    def forget(self) -> None:
        """Begin anew at the next look."""
        self._mark, self._place, self._before = None, 0, b""

    def _go_on(self, content: bytes) -> None:
        self._place += len(content)
        self._before += content

    def _same_before(self, file: BinaryIO) -> bool:
        self._before = self._before[-KNOWN:]
        file.seek(self._place - len(self._before))
        return file.read(len(self._before)) == self._before


class Lines(NamedTuple):
    """Whole lines that were added."""

    anew: bool
    lines: list[bytes]


class LineTail:
    """A file of lines, read as they come. A last line without an end waits for it."""

    def __init__(self, path: Path, most: int | None = None) -> None:
        self._tail = Tail(path, most)
        self._cut = most is not None  # whether the first line may be the end of one
        self._anew = False

    def look(self) -> Lines:
        """Return the whole lines that were added since the last look."""
        added = self._tail.look()
        whole, newline, rest = added.content.rpartition(b"\n")
        self._tail.take_back(len(rest))
        lines = whole.split(b"\n") if newline else []
        if self._cut and lines:
            self._cut = False
            if not lines[0].startswith(b"{"):
                lines = lines[1:]
        anew, self._anew = added.anew or self._anew, False
        return Lines(anew, lines)

    def begin_anew(self) -> None:
        """Give all lines again at the next look."""
        self._tail.forget()
        self._anew = True


LOOK_BACK = 16_384  # bytes of a log that hold its last lines


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log, as text; none where it cannot be read."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - LOOK_BACK))
            content = file.read()
    except OSError:
        return []
    lines = content.decode(errors="replace").splitlines()
    return [line[:400] for line in (lines[1:] if size > LOOK_BACK else lines)[-count:]]
