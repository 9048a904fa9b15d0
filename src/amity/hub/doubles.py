"""Telling of silos whose kit runs twice: at the server, and in the audit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from amity.federation.audit import Audit
from amity.hub.accounts import AUDIT
from amity.hub.presence import TWICE, twice


class Doubles:
    """Tells of silos that run twice: whoever listens, and the audit, once each time."""

    def __init__(self, hub: Path, say: Callable[[str], None]) -> None:
        self._hub = hub
        self._say = say
        self._audit = Audit(hub / AUDIT, "server")
        self._told: set[str] = set()

    def look(self) -> None:
        """Tell what is new since the last look."""
        found = set(twice(self._hub))
        for name in sorted(found - self._told):
            self._tell(name, "runs twice", TWICE)
        for name in sorted(self._told - found):
            self._tell(name, "runs once again", "one of its two services is heard of no more")
        self._told = found

    def _tell(self, name: str, what: str, words: str) -> None:
        self._say(f"silo {name}: {words}")
        self._audit.add(what, silo=name, words=words)
