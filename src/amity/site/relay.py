"""The relay at a silo: it keeps a worker process running and hands letters to it. No torch here.

A worker that dies is started again and asked once more: it answers from what it has saved, or begins the turn anew. One
that is asked while it is still busy with an earlier letter, which nobody waits for any more, ends that first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from amity.errors import LostWorker
from amity.site import frames

STARTS = 2
"""How often a letter is tried: a worker may die once."""

Stopped = Callable[[], bool]


class Life(NamedTuple):
    """What a silo's worker is doing, for its sign of life."""

    busy: bool
    since: float  # seconds since 1970
    starts: int  # of worker processes so far


class Relay:
    """A worker and the one letter that it is at work with."""

    def __init__(self, command: list[str] | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._command = command or [sys.executable, "-m", "amity.site.worker"]
        self._environment = dict(os.environ if environment is None else environment)
        self._child: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()  # one letter at a time
        self.life = Life(False, time.time(), 0)

    def start(self) -> None:
        """Start the worker, which takes seconds to load: the first letter then finds it ready."""
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment
        )
        self.life = Life(self.life.busy, time.time(), self.life.starts + 1)

    def ask(self, letter: bytes, stopped: Stopped = lambda: False) -> bytes | None:
        """The worker's answer; None where nobody waits for it any more. Raises LostWorker where there is none."""
        while not self._turn.acquire(timeout=0.2):
            if stopped():
                return None
        box: list[bytes | LostWorker] = []
        done = threading.Event()

        def work() -> None:
            try:
                box.append(self._answer(letter))
            except LostWorker as error:
                box.append(error)
            finally:
                self.life = self.life._replace(busy=False, since=time.time())
                self._turn.release()
                done.set()

        self.life = self.life._replace(busy=True, since=time.time())
        threading.Thread(target=work, name="amity-relay", daemon=True).start()
        while not done.wait(0.1):
            if stopped():
                return None
        (answer,) = box
        if isinstance(answer, LostWorker):
            raise answer
        return answer

    def _answer(self, letter: bytes) -> bytes:
        for _ in range(STARTS):
            if self._child is None or self._child.poll() is not None:
                self.end()
                self.start()
            answer = self._exchange(letter)
            if answer is not None:
                return answer
        code = None if self._child is None else self._child.wait()
        raise LostWorker(f"its worker ended {STARTS} times (exit code {code}): see worker.log in its state folder")

    def _exchange(self, letter: bytes) -> bytes | None:
        child = self._child
        assert child is not None and child.stdin is not None and child.stdout is not None
        try:
            frames.write(child.stdin, letter)
            return frames.read(child.stdout)
        except OSError:
            return None

    def end(self, seconds: float = 5.0) -> None:
        """End the worker. What it has saved stays."""
        child, self._child = self._child, None
        if child is None:
            return
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
