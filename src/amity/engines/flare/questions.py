"""A silo's process of a job notices that the server's is a new one, and asks it again what it has asked the one before.

FLARE waits for minutes for an answer of a process that was killed (`ANSWERED` in `kits/resources.py`), and the whole
run waits with it. The server's process draws a mark when it begins, and says it in its answer to each sign of life.
What was asked before that sign, of a process that is another one now, is given up: FLARE then asks it once more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Questions:
    """What was asked of the server's process, and has no answer yet."""

    def __init__(self, cell: Callable[[], Any], server: str) -> None:
        """`cell`: this process's end of FLARE's network, once it is there. `server`: the server's process in it."""
        self._cell = cell
        self._server = server
        self._mark: str | None = None
        self._open: dict[str, Any] = {}

    def note(self) -> None:
        """Note what is open, before the server is asked for its mark."""
        with suppress(AttributeError):  # another version of FLARE may keep them elsewhere: it waits then
            waiting = dict(self._cell().requests_dict)
            self._open = {name: one for name, one in waiting.items() if one.target == self._server}

    def heard(self, mark: object) -> int:
        """Take the server's mark. Where it is a new one, give up what was noted and is still open: so many."""
        if not isinstance(mark, str) or mark == self._mark:
            return 0
        before, self._mark = self._mark, mark
        if before is None:
            return 0
        given_up = 0
        with suppress(AttributeError):
            waiting = self._cell().requests_dict
            for name, one in self._open.items():
                if waiting.get(name) is one:
                    _give_up(one)
                    given_up += 1
        return given_up


def _give_up(waiter: Any) -> None:
    """Have FLARE take a question for one that nobody answers: it waits for the answer's first byte, or for the rest."""
    if waiter.receiving_future is not None:
        waiter.receiving_future.cancel()
    else:
        waiter.stream_error = "the server's process is a new one"
        waiter.in_receiving.set()
