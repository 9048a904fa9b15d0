"""The session of a silo's service with the server, as its network process last knew it: SITE/session.json.

The service reads it to say what is wrong, and `check` to tell the service that runs here from one that runs elsewhere.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from amity.federation.presence import Beat, Greeting, twice_since
from amity.federation.safe_files import replace

FILE = "session.json"

EVERY = 15.0
"""Seconds after which the file is written anew, though there is no news."""

SILENCE = 60.0
"""Seconds without an answer of the server after which that is said."""

REMOVED = "the server refuses it, since it is no member any more: ask the coordinator"
NAMELESS = "the server keeps its name for a service that is gone: it registers anew"
TWICE = "its kit runs in another place too, and each takes the name from the other: find that one and stop it"


class Session(NamedTuple):
    """What `session.json` holds; times are in seconds since 1970, by this machine's clock."""

    mark: str  # which start of the service this is
    pid: int
    began: float
    heard: float | None  # the server's last answer
    skew: float | None  # the server's clock minus this one's, in seconds
    server: str | None  # its version of Amity
    words: str  # what is wrong, in one line; nothing where all is well

    def trouble(self, now: float) -> str:
        """What there is to say about it now."""
        if self.words or self.heard is None or now - self.heard < SILENCE:
            return self.words
        return f"the server has not answered since {time.strftime('%H:%M:%S', time.localtime(self.heard))}"


class Kept:
    """The session of this process, kept on disk."""

    def __init__(self, site: Path, amity: str) -> None:
        self._file = site / FILE
        self._amity = amity
        self._written = 0.0
        self.session = Session(uuid.uuid4().hex, os.getpid(), time.time(), None, None, None, "")
        self._write()

    def beat(self) -> Beat:
        """Return what is said with a heartbeat."""
        return Beat(self.session.mark, time.time(), self._amity)

    def greeted(self, greeting: Greeting | None, error: str) -> None:
        """Note an answer of the server to a heartbeat: its greeting, where it gives one, and why it refuses us."""
        now, before = time.time(), self.session
        words = trouble_in(greeting, error)
        known = before if greeting is None else before._replace(skew=greeting.time - now, server=greeting.amity)
        self.session = known._replace(heard=now, words=words)
        if words != before.words or before.heard is None or now - self._written >= EVERY:
            self._write()

    def _write(self) -> None:
        self._written = time.time()
        with suppress(OSError):  # a full disk keeps no heartbeat back
            replace(self._file, json.dumps(self.session._asdict()).encode())


def trouble_in(greeting: Greeting | None, error: str = "") -> str:
    """Return what is wrong by the server's own words, in one line; nothing where all is well."""
    if "disabled" in error or (greeting is not None and greeting.removed):
        return REMOVED
    if greeting is not None and twice_since(greeting.services) is not None:
        return TWICE
    if "already registered" in error:
        return NAMELESS
    return f"the server refuses it ({error[:200]})" if error else ""


def read_session(site: Path) -> Session | None:
    """Return the last session of a silo's service; None where there was none, or it cannot be read."""
    try:
        return Session(**json.loads((site / FILE).read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
