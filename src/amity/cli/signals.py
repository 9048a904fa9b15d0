"""Signals that end a command like Ctrl-C: the run leaves a readable directory, and its user is told how to go on.

SIGTERM is what schedulers and `kill` send, SIGHUP what a closed terminal sends. Only the command line listens to them:
a program that uses the package decides for itself.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP

ONE_EVENT = 0.5  # seconds: `timeout` and a shell that ends send the same signal twice


class Stop:
    """The handler of these signals; remembers the first that has come."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._when = 0.0

    @property
    def code(self) -> int:
        """The exit code of a command that was ended by this signal, as shells report it."""
        return 128 + (signal.SIGINT if self.number is None else self.number)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Interrupt at the first signal; end at once at a later one, even while the first is being dealt with."""
        now = time.monotonic()
        if self.number is None:
            self.number, self._when = number, now
            raise KeyboardInterrupt
        if now - self._when > ONE_EVENT:
            os._exit(128 + number)


@contextmanager
def stopping() -> Iterator[Stop]:
    """Handle these signals for a while, except those that are ignored (`nohup`) or that somebody else handles."""
    stop = Stop()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = signal.signal(number, stop)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
