"""Asking the server by another way while a silo's heartbeats get no answer: who else is there under this name?

Two services of one name throw each other's connections out, and most heartbeats of both are lost. The question is asked
in a process of its own, over a connection that nobody throws out; the server hears by it that this service is there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from amity.federation.presence import Greeting, greeting_of
from amity.site.session import Session

AFTER = 25.0
"""Seconds without an answer after which the question is asked. There is a heartbeat every four seconds, but not each of
them is written down (`amity.site.session`)."""

AGAIN = 30.0
"""Seconds between two questions, while the server answers them."""

LONGEST = 300.0
"""Seconds between two questions at most, while it does not."""


class Asking:
    """Asks while there is reason to."""

    def __init__(self, site: Path, environment: Mapping[str, str], now: Callable[[], float] = time.time) -> None:
        self._command = [sys.executable, "-m", "amity.engines.flare.hello", str(site)]
        self._environment = dict(environment)
        self._now = now
        self._process: subprocess.Popen[str] | None = None
        self._next, self._pause = 0.0, AGAIN
        self._greeting: Greeting | None = None

    def look(self, session: Session) -> Greeting | None:
        """Return what the server has said last, as long as heartbeats get no answer."""
        if self._process is not None and self._process.poll() is not None:
            self._take(self._process)
        now = self._now()
        if now - max(session.began, session.heard or 0.0) < AFTER:
            self._greeting, self._pause, self._next = None, AGAIN, 0.0
        elif self._process is None and now >= self._next:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._greeting

    def end(self) -> None:
        """End a question that is under way."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _take(self, process: subprocess.Popen[str]) -> None:
        said, _ = process.communicate()
        self._process = None
        try:
            self._greeting = greeting_of(json.loads(said))
        except (ValueError, RecursionError):
            self._greeting = None
        self._pause = AGAIN if self._greeting is not None else min(LONGEST, 2 * self._pause)
        self._next = self._now() + self._pause
