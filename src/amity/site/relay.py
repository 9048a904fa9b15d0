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
from contextlib import suppress
from typing import IO, NamedTuple

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
        self._hand = threading.Lock()  # on the child: whoever ends it must not have it started again
        self._over = False
        self.life = Life(False, time.time(), 0)

    def start(self) -> None:
        """Start the worker, which takes seconds to load: the first letter then finds it ready."""
        self._over = False
        self._running()

    def _running(self) -> subprocess.Popen[bytes]:
        """The worker, started where there is none."""
        with self._hand:
            if self._over:
                raise LostWorker("its worker was ended")
            if self._child is None or self._child.poll() is not None:
                if self._child is not None:
                    _ended(self._child, 0.0)
                pipe = subprocess.PIPE
                try:
                    self._child = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, env=self._environment)
                except OSError as error:
                    raise LostWorker(f"its worker cannot be started ({error.strerror}): look at its machine") from None
                self.life = Life(self.life.busy, time.time(), self.life.starts + 1)
            return self._child

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
        code = None
        for _ in range(STARTS):
            child = self._running()
            answer = _exchange(child, letter)
            if answer is not None:
                return answer
            code = _ended(child, 1.0)  # now: it may be seen to have died before it has
        raise LostWorker(f"its worker ended {STARTS} times (exit code {code}): see worker.log in its state folder")

    def end(self, seconds: float = 5.0) -> None:
        """End the worker. What it has saved stays."""
        with self._hand:
            self._over = True
            child, self._child = self._child, None
        if child is not None:
            _ended(child, seconds)


def _exchange(child: subprocess.Popen[bytes], letter: bytes) -> bytes | None:
    assert child.stdin is not None and child.stdout is not None
    try:
        frames.write(child.stdin, letter)
        return frames.read(child.stdout)
    except (OSError, ValueError):  # it has ended, or is being ended
        return None


def _ended(child: subprocess.Popen[bytes], seconds: float) -> int:
    """The exit code of a worker that is sent no more letters, and is killed if it does not end by itself.

    Its answers are closed last: somebody may be reading them, and stops when the worker has ended.
    """
    assert child.stdin is not None and child.stdout is not None
    closing = threading.Thread(target=_close, args=[child.stdin], daemon=True)  # it waits for a letter on its way in
    closing.start()
    closing.join(seconds)
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    closing.join()
    child.stdout.close()
    return child.returncode


def _close(pipe: IO[bytes]) -> None:
    with suppress(OSError):
        pipe.close()
