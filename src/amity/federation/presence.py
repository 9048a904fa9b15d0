"""What the service of a silo and the server tell each other with every heartbeat: who they are, and what time it is.

    service -> server    Beat        which start of the service this is, its clock and its version
    server -> service    Greeting    the server's clock and version, and what it knows of this silo, and of no other

A service draws a mark whenever it is started. One that was started again has another mark, and the one before is heard
no more; two that run at once under one name, from copies of one kit, are both heard of. The mark says nothing about the
machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

LATELY = 120.0
"""Seconds after which a service is heard of no more. Two under one name throw each other out, so that most heartbeats
of both are lost; each then asks by another way, every half minute."""

OVERLAP = 10.0
"""Seconds that an older service is heard of after a newer one has begun, before the two are said to run at once: what
the older has said last may come late."""

LONGEST = 40  # letters of a version
LATEST = 1e12  # seconds since 1970: what is larger is no time
MARK = re.compile(r"[0-9a-f]{32}")


class Beat(NamedTuple):
    """A heartbeat, as the service says it."""

    mark: str
    time: float
    amity: str


class Service(NamedTuple):
    """A service of a silo, as the server hears of it; times are the server's."""

    mark: str
    since: float
    heard: float
    skew: float  # its clock minus the server's, in seconds; a message's way is in it
    amity: str


class Greeting(NamedTuple):
    """What the server says to a silo."""

    time: float
    amity: str
    removed: bool  # whether the silo is no member any more
    services: tuple[Service, ...]  # of this silo, that were heard of lately; the oldest first

    def table(self) -> dict[str, Any]:
        """Return it as a message's header holds it."""
        return {**self._asdict(), "services": [service._asdict() for service in self.services]}


def twice_since(services: Sequence[Service]) -> float | None:
    """Return since when two services of one silo run at once; None where they do not. The oldest comes first."""
    if len(services) < 2:
        return None
    newest = services[-1]
    return newest.since if any(one.heard - newest.since > OVERLAP for one in services[:-1]) else None


def beat_of(value: object) -> Beat | None:
    """Return the heartbeat in a header; None where there is none, or something else."""
    fields = _fields(value, Beat._fields)
    if fields is None or not _is_mark(fields["mark"]) or not _is_time(fields["time"]):
        return None
    return Beat(fields["mark"], float(fields["time"]), _version(fields["amity"]))


def service_of(value: object) -> Service | None:
    """Return a service that was written as a table; None where that is none."""
    fields = _fields(value, Service._fields)
    if fields is None or not _is_mark(fields["mark"]):
        return None
    since, heard, skew = (fields[key] for key in ("since", "heard", "skew"))
    if not all(map(_is_time, (since, heard, skew))):
        return None
    return Service(fields["mark"], float(since), float(heard), float(skew), _version(fields["amity"]))


def greeting_of(value: object) -> Greeting | None:
    """Return the greeting in a header; None where there is none, or something else."""
    fields = _fields(value, Greeting._fields)
    if fields is None or not _is_time(fields["time"]) or not isinstance(fields["services"], list | tuple):
        return None
    services = [service_of(one) for one in fields["services"]]
    known = tuple(one for one in services if one is not None)
    return Greeting(float(fields["time"]), _version(fields["amity"]), fields["removed"] is True, known)


def _fields(value: object, names: Sequence[str]) -> dict[str, Any] | None:
    return value if isinstance(value, dict) and set(names) <= value.keys() else None


def _is_mark(value: object) -> bool:
    return isinstance(value, str) and MARK.fullmatch(value) is not None


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LATEST


def _version(value: object) -> str:
    """Return a version, which is of another's making, as it may be shown."""
    return "".join(letter for letter in str(value)[:LONGEST] if letter.isprintable())
