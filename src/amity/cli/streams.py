"""Standard output and error that survive a full disk, a closed stream or a terminal that is gone."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class OutputLost(OSError):
    """What was to be printed could not be written to standard output."""


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputLost(error.errno, error.strerror) from None


class _Messages(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)  # the terminal is gone, or the disk of a log is full: the run goes on without


def keep_streams() -> None:
    """Ignore failures of standard error, and raise those of standard output as `OutputLost`.

    A closed stream is opened on the null device: otherwise the next file to be opened would take its number, and
    libraries would print into it.
    """
    for number, how in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):  # to write to this output is an error
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, how)  # takes the lowest number that is free: this one
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _stream(_Output(1, "w", closefd=False), sys.stdout, "replace")  # a terminal may have no R²
    if sys.stderr is sys.__stderr__:
        sys.stderr = _stream(_Messages(2, "w", closefd=False), sys.stderr, "backslashreplace")


def _stream(raw: io.FileIO, like: Any, errors: str) -> io.TextIOWrapper:
    encoding = "utf-8" if like is None else like.encoding
    lines = raw.isatty() or raw.fileno() == 2
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=lines)


def drop_output() -> None:
    """Send the rest of the output to the null device, so that the interpreter does not fail on it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
