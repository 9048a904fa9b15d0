"""Events in plain words: "north: round 7 uploaded, 2.3 MB", "round 7: 4 of 5 returned"."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from amity.federation.events import Event, What
from amity.report.contents import EventView, Level

LAST = 300
"""Events that a view has of a run, the last ones."""

LEVELS: dict[What, Level] = {
    "dropped": "remark",
    "refused": "warning",
    "lost": "warning",
    "aside": "warning",
    "left": "remark",
    "waiting": "remark",
    "note": "remark",
    "stopped": "warning",
    "ended": "good",
    "joined": "good",
}
"""Events that are more than steps on the way; the level of all others is "good"."""

STEPS: tuple[What, ...] = ("measured", "saved")
"""Events that say nothing to people."""


def last_events(events: Sequence[Event], number: int = LAST) -> list[EventView]:
    """Return the last events that say something, in plain words and in their order."""
    asked = {event.round: event.total for event in events if event.what == "round"}
    told = [event for event in events if event.what not in STEPS]
    return [in_words(event, asked.get(event.round)) for event in told[-number:]]


def in_words(event: Event, asked: int | None = None) -> EventView:
    """Return one event in plain words. `asked`: how many silos were asked in its round, where that is known."""
    words = _returned(event, asked) if event.what == "aggregated" else _WORDS[event.what](event)
    level = LEVELS.get(event.what, "good")
    if event.what == "ended" and event.words:  # of a federation: less than was agreed
        level = "warning"
    return {
        "time": event.time,
        "round": event.round,
        "silo": event.silo,
        "level": level,
        "words": words,
    }


def size(bytes: int) -> str:
    """Return a number of bytes as people say it."""
    if bytes < 1000:
        return f"{bytes} bytes"
    unit = min(int(math.log10(bytes)) // 3, 4)
    return f"{bytes / 1000**unit:.1f} {('', 'kB', 'MB', 'GB', 'TB')[unit]}"


def duration(seconds: float) -> str:
    """Return a time span as people say it."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _who(event: Event) -> str:
    return f"{event.silo}: " if event.silo else ""


def _round(event: Event) -> str:
    return f"round {event.round}" if event.round else "before round 1"


def _with(parts: Iterable[str]) -> str:
    return ", ".join(part for part in parts if part)


def _trained(event: Event) -> str:
    took = "" if event.seconds is None else f"after {duration(event.seconds)}"
    if event.silo is None:
        counted = f"{event.done} of {event.total} silos have trained" if event.total else "silos have trained"
        return f"{_round(event)}: {counted}"
    if event.bytes is None:
        return _with([f"{_who(event)}{_round(event)} trained", took])
    return _with([f"{_who(event)}{_round(event)} uploaded, {size(event.bytes)}", took])


def _began(event: Event) -> str:
    return f"{_round(event)} begins" + (f": {event.total} silos are asked" if event.total else "")


def _returned(event: Event, asked: int | None) -> str:
    took = "" if event.seconds is None else f", combined in {duration(event.seconds)}"
    if event.total is None:
        return f"{_round(event)}: uploads are combined"
    of = "" if asked is None else f" of {asked}"
    return f"{_round(event)}: {event.total}{of} returned{took}"


def _waiting(event: Event) -> str:
    if event.done is not None and event.total is not None:
        return f"{event.total - event.done} of {event.total} workers have not begun"
    return f"{_who(event)}{_round(event)} is awaited" + (f": {event.words}" if event.words else "")


def _said(verb: str) -> Callable[[Event], str]:
    return lambda event: f"{_who(event)}{_round(event)} {verb}" + (f": {event.words}" if event.words else "")


_WORDS: dict[What, Callable[[Event], str]] = {
    "round": _began,
    "trained": _trained,
    "dropped": _said("missing"),
    "refused": _said("refused"),
    "aggregated": lambda event: _returned(event, None),
    "measured": lambda event: f"{_round(event)}: {event.done} of {event.total} silos have measured their model",
    "recorded": _said("is on record"),
    "saved": _said("is saved"),
    "aside": lambda event: f"{_who(event)}cannot go on with the run" + (f": {event.words}" if event.words else ""),
    "joined": lambda event: f"{_who(event)}has joined",
    "left": lambda event: f"{_who(event)}has left",
    "waiting": _waiting,
    "lost": lambda event: event.words or "a worker is gone: rounds come again",
    "note": lambda event: f"{_who(event)}{event.words}",
    "ended": lambda event: (
        "the run is finished" + (f", with less than was agreed: {event.words}" if event.words else "")
    ),
    "stopped": lambda event: "the run was interrupted" + (f": {event.words}" if event.words else ""),
}
