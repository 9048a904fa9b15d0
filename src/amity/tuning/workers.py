"""Trials one after the other in this process, or side by side in several.

A process is given the silos once, then one trial after the other, and answers with the score after each round and at
last with what came of it. It ends with the process that has started it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple, Protocol

from amity.data import Silos
from amity.errors import InputError
from amity.parent_process import end_with_parent
from amity.resolve import Builds
from amity.tuning.trial import Task, Trial, run_trial

Heard = Callable[[int, int, float], None]
"""Gets the number of a trial, its step, and the score after it."""


class Workers(Protocol):
    """Runs trials."""

    def run(self, tasks: Sequence[Task], heard: Heard, until: float) -> Iterator[Trial]:
        """Give what came of each trial as it ends. None begins after `until`, a time of `time.monotonic`."""


@contextmanager
def workers_of(count: int, silos: Mapping[int, Silos], model: Builds | None) -> Iterator[Workers]:
    """Give what runs trials, so many at a time; leaving it ends their processes."""
    if count == 1:
        yield _Here(silos, model)
        return
    try:
        given = pickle.dumps((dict(silos), model))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"several workers need a model that another process can import, got one that cannot be sent ({error}): "
            "define it in a module, or leave workers at 1"
        ) from None
    there = _Processes(count, given)
    try:
        yield there
    finally:
        there.end()


class _Here:
    """Runs trials one after the other."""

    def __init__(self, silos: Mapping[int, Silos], model: Builds | None) -> None:
        self._silos, self._model = silos, model

    def run(self, tasks: Sequence[Task], heard: Heard, until: float) -> Iterator[Trial]:
        """Give what came of each trial as it ends."""
        for task in tasks:
            if time.monotonic() >= until:
                return

            def tell(step: int, score: float, number: int = task.number) -> None:
                heard(number, step, score)

            yield run_trial(task, self._silos, self._model, tell)


class _Step(NamedTuple):
    number: int
    step: int
    score: float


class _Unable(NamedTuple):
    """A process cannot take what it was given."""

    words: str


class _Processes:
    """Runs trials side by side."""

    def __init__(self, count: int, given: bytes) -> None:
        self._given = given
        self._threads = max(1, (os.cpu_count() or 1) // count)
        self._free: list[tuple[Connection, BaseProcess]] = [self._start() for _ in range(count)]
        self._busy: dict[Connection, tuple[BaseProcess, Task]] = {}

    def run(self, tasks: Sequence[Task], heard: Heard, until: float) -> Iterator[Trial]:
        """Give what came of each trial as it ends."""
        ahead = list(tasks)
        while ahead or self._busy:
            while ahead and self._free and time.monotonic() < until:
                self._begin(ahead.pop(0))
            if not self._busy:
                return
            for connection in wait(list(self._busy)):
                assert isinstance(connection, Connection)
                try:
                    answer = connection.recv()
                except (EOFError, OSError):
                    yield self._lost(connection)
                    continue
                if isinstance(answer, _Step):
                    heard(*answer)
                elif isinstance(answer, _Unable):
                    raise InputError(
                        f"several workers need a model that another process can import, got one that cannot be found "
                        f"there ({answer.words}): define it in a module, or leave workers at 1"
                    )
                else:
                    process, _ = self._busy.pop(connection)
                    self._free.append((connection, process))
                    yield answer

    def end(self) -> None:
        """End all processes; what they were at goes on from its checkpoint another time."""
        for process in (*(one for _, one in self._free), *(one for one, _ in self._busy.values())):
            process.terminate()
            process.join()

    def _start(self) -> tuple[Connection, BaseProcess]:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, self._given), daemon=True)
        process.start()
        theirs.close()
        return ours, process

    def _begin(self, task: Task) -> None:
        connection, process = self._free.pop()
        runs = [replace(run, workers=self._threads) for run in task.runs]
        with suppress(OSError):  # it has ended: whether it has said why is seen where answers are awaited
            connection.send(task._replace(runs=runs))
        self._busy[connection] = process, task

    def _lost(self, connection: Connection) -> Trial:
        """Return the trial of a process that has ended, and start another process."""
        process, task = self._busy.pop(connection)
        process.join()
        self._free.append(self._start())
        words = f"its process has ended (exit code {process.exitcode}): memory may be short, try fewer workers"
        return Trial(task.number, task.values, "failed", float("nan"), {}, 0.0, words)


def _serve(connection: Connection, given: bytes) -> None:
    """Run trials for another process until it has no more."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes: the parent ends this one
    try:
        silos, model = pickle.loads(given)
    except Exception as error:  # the import of somebody's module may raise anything
        connection.send(_Unable(" ".join(f"{type(error).__name__}: {error}".split())[:200]))
        return
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return

        def tell(step: int, score: float, number: int = task.number) -> None:
            connection.send(_Step(number, step, score))

        try:
            connection.send(run_trial(task, silos, model, tell))
        except BrokenPipeError:
            return
