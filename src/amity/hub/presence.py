"""Which services of silos the server hears of, in HUB/presence.json: the server's network process writes it, and the
supervisor, boards and `check` read it. No torch is loaded for it.

Two services of one silo at once come from two copies of its kit. FLARE gives the name to the one that came last, and
the other one is left without, so that runs fail in ways that nobody understands: it is said, with the silo's name.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from amity.federation.presence import LATELY, Beat, Service, service_of, twice_since
from amity.federation.safe_files import replace

FILE = "presence.json"

EVERY = 5.0
"""Seconds after which the file is written anew, though nobody has come or gone."""

MOST = 4
"""Services of one silo that are remembered: what a silo says of itself fills no memory."""

TWICE = "two services run under its name, from copies of its kit, and each takes the name from the other: stop one"

Known = Mapping[str, tuple[Service, ...]]
"""The services of each silo that were heard of lately, the oldest first."""


class Presence:
    """Remembers who is heard of, and writes it down."""

    def __init__(self, hub: Path, now: Callable[[], float] = time.time) -> None:
        self._file = hub / FILE
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Service]] = {}
        self._written = 0.0

    def heard(self, name: str, beat: Beat) -> None:
        """Note a heartbeat of a silo."""
        with self._lock:
            now = self._now()
            services = self._known.setdefault(name, {})
            before = services.pop(beat.mark, None)
            since = now if before is None else before.since
            services[beat.mark] = Service(beat.mark, since, now, round(beat.time - now, 1), beat.amity)
            for mark in list(services)[:-MOST]:
                del services[mark]
            if before is None or now - self._written >= EVERY:
                self._write(now)

    def services(self, name: str) -> tuple[Service, ...]:
        """The services of a silo that were heard of lately, the oldest first."""
        with self._lock:
            return _lately(self._known.get(name, {}).values(), self._now())

    def _write(self, now: float) -> None:
        self._written = now
        table = {name: [one._asdict() for one in services.values()] for name, services in self._known.items()}
        with suppress(OSError):  # a full disk keeps no silo from being heard
            replace(self._file, json.dumps(table).encode())


def read_presence(hub: Path, now: float | None = None) -> Known:
    """Who was heard of lately; nobody, where no server has written it or it cannot be read."""
    now = time.time() if now is None else now
    try:
        content = json.loads((hub / FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    found = {}
    for name, services in content.items() if isinstance(content, dict) else ():
        known = [service_of(one) for one in services] if isinstance(services, list) else []
        if lately := _lately((one for one in known if one is not None), now):
            found[str(name)] = lately
    return found


def _lately(services: Iterable[Service], now: float) -> tuple[Service, ...]:
    return tuple(sorted((one for one in services if now - one.heard <= LATELY), key=lambda one: one.since))


def twice(hub: Path, now: float | None = None) -> dict[str, float]:
    """Silos of which two services run at once, and since when."""
    since = {name: twice_since(services) for name, services in read_presence(hub, now).items()}
    return {name: when for name, when in since.items() if when is not None}
