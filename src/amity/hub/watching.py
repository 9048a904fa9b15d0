"""Watching silos while a run goes on: signs of life and answers become steps on the board, and lines of the audit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from amity.federation.distant import ABSENT
from amity.federation.messages import (
    Answer,
    Declined,
    Failed,
    Left,
    Measure,
    Measured,
    Message,
    Propose,
    Standing,
    Train,
    Upload,
)
from amity.federation.transport import SILENT, Transport
from amity.hub.board import Board

LOOKS = 1.0
"""Seconds between two looks at signs of life."""


class Network(Transport, Protocol):
    """A transport that also hears signs of life."""

    def sign(self, name: str) -> tuple[float, Mapping[str, Any]] | None:
        """The time of a silo's last sign of life, and what it said."""


class Watcher:
    """Keeps the board's rows of silos. Used as a context: a thread looks for signs of life."""

    def __init__(
        self, board: Board, network: Network, names: Sequence[str], twice: Callable[[], Mapping[str, float]] = dict
    ) -> None:
        """`twice` says which silos run twice, and since when."""
        self._board = board
        self._network = network
        self._names = names
        self._twice = twice
        self._over = threading.Event()

    def __enter__(self) -> Watcher:
        self._thread = threading.Thread(target=self._look, name="amity-watcher", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def notice(self, name: str, kind: type[Message], answer: Answer | None) -> None:
        """Note what a silo was sent, or has answered."""
        if answer is None:
            if kind is Train:
                self._board.silo(name, "training")
            return
        match answer:
            case Failed(blame="upload", words=words) if kind in (Train, Measure):
                self._board.silo(name, "uploaded" if kind is Train else "evaluated", words)
            case Failed(words=words):
                self._board.silo(name, "absent", words.removeprefix(ABSENT))
            case Declined(words=words):
                self._board.silo(name, "declined", words)
            case Left():
                self._board.silo(name, "left")
            case Upload():
                self._board.silo(name, "uploaded")
            case Measured():
                self._board.silo(name, "evaluated")
            case Standing() if kind is Propose:
                self._board.silo(name, "configured")

    def _look(self) -> None:
        while not self._over.wait(LOOKS):
            for name in self._names:
                self._look_at(name)
            self._board.twice(self._twice())

    def _look_at(self, name: str) -> None:
        sign = self._network.sign(name)
        if sign is None:
            return
        when, content = sign
        step = self._board.status["silos"][name]["step"]
        if time.time() - when <= SILENT:
            self._board.seen(name, when, content)
        elif step not in ("absent", "left", "declined", "finished"):
            self._board.silo(name, "absent", f"no sign of life since {datetime.fromtimestamp(when):%H:%M:%S}")
