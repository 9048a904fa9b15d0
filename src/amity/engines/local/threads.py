"""The carrier in one process: silos are hosted here, and threads carry out what messages ask for.

Each thread computes with one intra-op thread, in its own workspace, from keyed random streams: what comes out does
not depend on how many there are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

import torch

from amity.contract import Model, Silo
from amity.engines.local.allocator import Crumbs
from amity.engines.local.storage import LocalStorage
from amity.federation.carrier import Outbox
from amity.federation.hosting import Hosting
from amity.federation.messages import Answer, Measure, Message, Train, Upload
from amity.federation.plan import Plan
from amity.federation.silo import SiloSide

S = TypeVar("S")
T = TypeVar("T")


class Threads:
    """Silos, and the threads that work for them. Used as a context: leaving it ends the threads."""

    executed: Literal["loop", "stacked"] = "loop"

    def __init__(
        self, plan: Plan, silos: Mapping[int, Silo], workers: int | None = None, folder: Path | None = None
    ) -> None:
        self.plan = plan
        self._stop = threading.Event()
        stopped = self._stop.is_set
        self.silos = {client: SiloSide(plan, client, silo, stopped=stopped) for client, silo in silos.items()}
        self.storage = LocalStorage(self.silos, plan.fed.clients, folder)
        self._notes: list[str] = []
        self._crumbs = Crumbs()
        count = workers or os.cpu_count() or 1
        self._ahead = 2 * count
        self._pool = ThreadPoolExecutor(count, "amity", initializer=torch.set_num_threads, initargs=(1,))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stop.set()  # a turn ends at its next epoch
        self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def door(self) -> Hosting:
        return Hosting(self.plan.method, self.silos, self.delivered)

    def host(self, plan: Plan, client: int, silo: Silo) -> None:
        """Host a silo that has joined, whom everybody now plans with."""
        self.plan = plan
        self.silos[client] = SiloSide(plan, client, silo, stopped=self._stop.is_set)

    def ask(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        if messages.kind in (Train, Measure):
            return self._work(messages)
        # Nothing to compute: no thread is needed.
        return (((client,), self.silos[client].answer(message)) for client, message in messages.items())

    def _work(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        """Answers of silos that take their turns or evaluate, one after the other on each thread."""
        for client, answer in self._each(lambda client: self.alone(messages[client]), list(messages)):
            size = _size(answer)
            yield (client,), answer
            del answer
            self._crumbs.taken(size)

    def alone(self, message: Message) -> Answer:
        """One silo's answer."""
        silo = self.silos[message.silo]
        answer = silo.answer(message)
        if isinstance(message, Train) and silo.pending is not None:
            silo.pending = silo.pending._replace(after=self.storage.apart(silo.pending.after))
        return answer

    def delivered(self) -> list[Model]:
        """Every silo's personal model of the round that it was told to keep."""
        return list(self._pool.map(lambda client: self.silos[client].delivered(), sorted(self.silos)))

    def say(self, note: str) -> None:
        """Add a note to this round's record."""
        self._notes.append(note)

    def notes(self) -> list[str]:
        notes, self._notes = self._notes, []
        return notes

    def _each(self, work: Callable[[S], T], items: Sequence[S]) -> Iterator[tuple[S, T]]:
        """Results as they come. Threads are never far ahead of what is taken: results that wait would fill memory."""
        left, begun = iter(items), dict[Future[T], S]()
        while True:
            begun |= {self._pool.submit(work, item): item for item in islice(left, self._ahead - len(begun))}
            if not begun:
                return
            done = wait(begun, return_when=FIRST_COMPLETED).done
            for future in [future for future in begun if future in done]:
                yield begun.pop(future), future.result()


def _size(answer: Answer) -> int:
    """Bytes of an upload, which nobody has looked at yet: what is none has no size."""
    values = answer.values if isinstance(answer, Upload) else None
    tensors = values.values() if isinstance(values, Mapping) else ()
    return sum(value.nbytes for value in tensors if isinstance(value, torch.Tensor) and not value.is_sparse)
