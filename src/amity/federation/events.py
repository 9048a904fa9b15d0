"""Events: the one stream that says what happens while a run goes on.

Progress bars, the record (`events.jsonl`), pages and audits read it; nothing else reports. An event is small and
holds no data of a silo: what happened, when, in which round, at which silo, how many bytes it moved, how long it took.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

What = Literal[
    "round",  # a round begins: `words` says how many silos are asked
    "trained",  # a silo has answered: bytes of its upload, seconds of its turn
    "dropped",  # a silo takes no part, or its upload is lost: `words` says why
    "refused",  # an upload is not taken: `words` says why
    "aggregated",  # the server has made its new state
    "measured",  # a silo has evaluated its model
    "recorded",  # a round is on record: `words` holds its mean and worst score
    "saved",  # a checkpoint is on disk
    "aside",  # a silo cannot go on with the run, until its people mend what `words` says; the others do
    "joined",  # a silo is new in the federation
    "left",  # a silo has left it
    "waiting",  # workers have not begun
    "lost",  # a worker is gone, rounds come again
    "note",  # a remark for people, in `words`
    "ended",  # a run is finished
    "stopped",  # a run was interrupted
]


class Event(NamedTuple):
    """One thing that happened."""

    what: What
    round: int = 0  # 0: before the first
    silo: str | None = None  # None: it is about the server, or about all
    bytes: int | None = None  # that moved
    seconds: float | None = None  # that it took
    words: str = ""
    done: int | None = None  # of how many (`total`) this is, where one counts
    total: int | None = None
    time: float = 0.0  # seconds since 1970; `Stream` fills it in


Listener = Callable[[Event], None]


class Stream:
    """Hands each event to all listeners, in the order in which it happens."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = list(listeners)

    def listen(self, listener: Listener) -> None:
        """Hand all further events to this listener too."""
        self._listeners.append(listener)

    def __call__(self, event: Event) -> None:
        dated = event if event.time else event._replace(time=time.time())
        for listener in self._listeners:
            listener(dated)


def silent(event: Event) -> None:
    """Ignore an event."""
