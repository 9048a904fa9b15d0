"""The engine in one process: a loop over rounds, workers that are threads, memory that is shared.

Each worker computes with one intra-op thread, in its own workspace, from keyed random streams: what comes out does
not depend on how many workers there are. Models are never pickled; uploads are written into one matrix.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import torch
from torch import Generator, Tensor

from amity.config import Participation
from amity.contract import (
    Choosing,
    Data,
    Download,
    Federation,
    InputError,
    Method,
    Model,
    Pick,
    Progress,
    Relational,
    Round,
    Score,
    Silo,
    Solver,
    State,
    Turn,
    nbytes,
)
from amity.engines.participation import Lot, draw, epochs_of
from amity.streams import key_of, stream
from amity.task import Task

T = TypeVar("T")

Notify = Callable[[str, int, int], None]
"""(phase, clients done, clients in all): called from the engine's own thread."""


class Stopped(Exception):
    """Raised inside a worker after the run was interrupted."""


def federation_of(silos: Sequence[Silo], rounds: int, seed: int) -> Federation:
    """The public facts of these silos."""
    groups = [silo.group for silo in silos]
    known = None if None in groups else torch.tensor(groups)
    sizes = torch.tensor([len(silo.train.y) for silo in silos])
    return Federation(sizes, torch.tensor([key_of(silo.name) for silo in silos]), known, rounds, seed)


def simulate(
    method: Method,
    task: Task,
    silos: Sequence[Silo],
    fed: Federation,
    solver: Solver,
    rule: Participation,
    *,
    workers: int | None = None,
    start: Progress | None = None,
    notify: Notify | None = None,
) -> Iterator[Round]:
    """Run the rounds that are left, reporting after each. `start` continues from a saved state."""
    simulation = _Simulation(method, task, silos, fed, solver, rule, notify or _silent)
    progress = start or simulation.begin()
    with _workers(workers or os.cpu_count() or 1, simulation.stop) as pool:
        while progress.round < fed.rounds:
            report = simulation.round(pool, progress)
            progress = report.progress
            yield report
            del report  # or the states before this round would stay alive through the next


def personal_models(
    method: Method,
    task: Task,
    silos: Sequence[Silo],
    fed: Federation,
    solver: Solver,
    rule: Participation,
    progress: Progress,
    *,
    workers: int | None = None,
) -> list[Model]:
    """Every client's personal model after the last round, computed as it was for its evaluation."""
    simulation = _Simulation(method, task, silos, fed, solver, rule, _silent)
    personal, _ = simulation.personal(progress.server, progress.clients, progress.round)
    with _workers(workers or os.cpu_count() or 1, simulation.stop) as pool:
        return list(pool.map(personal, range(fed.clients)))


def _silent(phase: str, done: int, total: int) -> None:
    pass


@contextmanager
def _workers(count: int, stop: threading.Event) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(count, "amity", initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    except BaseException:
        stop.set()  # a turn ends at its next epoch
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Trained(NamedTuple):
    state: State
    refused: str | None  # why the upload cannot be used


class _Simulation:
    """What stays the same from round to round, and the last evaluation."""

    def __init__(
        self,
        method: Method,
        task: Task,
        silos: Sequence[Silo],
        fed: Federation,
        solver: Solver,
        rule: Participation,
        notify: Notify,
    ) -> None:
        self.method = method
        self.task = task
        self.names = [silo.name for silo in silos]
        self.data = [Data(task.prepare(s.train), None if s.val is None else task.prepare(s.val)) for s in silos]
        self.tests = [task.prepare(silo.test) for silo in silos]
        self.fed = fed
        self.solver = solver
        self.rule = rule
        self.notify = notify
        self.stop = threading.Event()
        self._scored: dict[int, tuple[State, Score]] = {}

    def begin(self) -> Progress:
        clients = [self.method.init_client(self.task, self.fed, i) for i in range(self.fed.clients)]
        return Progress(0, self.method.init_server(self.task, self.fed), clients)

    def turn(self, client: int, round: int) -> Turn:
        key = int(self.fed.keys[client])

        def rng(role: str, epoch: int) -> Generator:
            if self.stop.is_set():
                raise Stopped
            return stream(self.fed.seed, role, key, round, epoch)

        epochs = epochs_of(self.rule, self.fed, client, round)
        return Turn(round, epochs, self.solver, self.data[client], rng)

    def round(self, pool: ThreadPoolExecutor, before: Progress) -> Round:
        number = before.round + 1
        watch = _Watch()
        lot = draw(self.rule, self.fed, number)
        down = self._download(before.server, lot.asked, number)
        down_bytes = _sent_bytes(down, len(lot.asked))
        watch.lap("download")

        uploads = _Uploads(down, before.server, len(lot.asked))
        clients = list(before.clients)
        dropped = dict(lot.dropped)
        accepted = self._train(pool, before, lot, down, uploads, clients, dropped, number)
        watch.lap("train")

        server = before.server
        if accepted:
            who = lot.asked[torch.tensor(accepted)]
            server = self.method.aggregate(server, who, uploads.rows(accepted), number)
        watch.lap("aggregate")

        personal, eval_bytes = self.personal(server, clients, number)
        scores = self._evaluate(pool, clients, personal, number)
        watch.lap("evaluate")
        return Round(
            round=number,
            scores=scores,
            took_part=[int(lot.asked[position]) for position in accepted],
            dropped=dropped,
            epochs={i: epochs_of(self.rule, self.fed, i, number) for i in lot.asked.tolist()},
            bytes_up=uploads.bytes_of(accepted),
            bytes_down=down_bytes,
            bytes_eval=eval_bytes,
            seconds=watch.laps,
            weights=self._weights(down, lot.asked, clients),
            progress=Progress(number, server, clients),
            warnings=list(down.notes),
            holds=[self.method.holds(state) for state in clients] if isinstance(self.method, Choosing) else None,
        )

    def _download(self, server: State, who: Tensor, round: int) -> Download:
        def rng(role: str, key: int) -> Generator:
            return stream(self.fed.seed, role, key, round)

        return self.method.download(server, who, round, rng)

    def _train(
        self,
        pool: ThreadPoolExecutor,
        before: Progress,
        lot: Lot,
        down: Download,
        uploads: _Uploads,
        clients: list[State],
        dropped: dict[int, str],
        number: int,
    ) -> list[int]:
        """Let every asked client take its turn; change `clients` and `dropped`; return the accepted positions."""

        def take_turn(position: int) -> _Trained:
            client = int(lot.asked[position])
            with self._blame(client, number):
                state, upload = self.method.local(
                    self.task, before.clients[client], down.to(position), self.turn(client, number)
                )
                trained = _Trained(uploads.apart(state), _unusable(upload))
                if trained.refused is None:
                    uploads.put(position, upload)
                return trained

        accepted = []
        for position, trained in self._each(pool, "train", take_turn, range(len(lot.asked))):
            client = int(lot.asked[position])
            if trained.refused is not None:
                dropped[client] = trained.refused
            elif client in lot.lost:
                old = before.clients[client]
                clients[client] = {**trained.state, **{key: old[key] for key in self.method.paired}}
            else:
                clients[client] = trained.state
                accepted.append(position)
        return sorted(accepted)

    def personal(self, server: State, clients: list[State], number: int) -> tuple[Callable[[int], Model], int]:
        """How to get a client's personal model after this round, and the bytes of evaluation messages."""
        down = None
        sent = 0
        if self.method.evaluates == "server":
            down = self._download(server, torch.arange(self.fed.clients), number + 1)
            sent = _sent_bytes(down, self.fed.clients)

        def personal(client: int) -> Model:
            received = None if down is None else down.to(client)
            turn = self.turn(client, number + 1)
            return self.method.personal(self.task, clients[client], received, turn)

        return personal, sent

    def _evaluate(
        self, pool: ThreadPoolExecutor, clients: list[State], personal: Callable[[int], Model], number: int
    ) -> list[Score]:
        held = self.method.evaluates == "held"

        def score(client: int) -> Score:
            # A client whose state did not change holds the model that was evaluated before.
            last = self._scored.get(client)
            if held and last is not None and last[0] is clients[client]:
                return last[1]
            with self._blame(client, number):
                return self.task.evaluate(personal(client), self.tests[client])

        scores = dict(self._each(pool, "evaluate", score, range(len(clients))))
        if held:
            self._scored = {client: (clients[client], scores[client]) for client in scores}
        return [scores[client] for client in range(len(clients))]

    def _each(
        self, pool: ThreadPoolExecutor, phase: str, work: Callable[[int], T], items: range
    ) -> Iterator[tuple[int, T]]:
        futures = {pool.submit(work, item): item for item in items}
        self.notify(phase, 0, len(items))
        for done, future in enumerate(as_completed(futures), 1):
            yield futures.pop(future), future.result()
            self.notify(phase, done, len(items))

    def _weights(self, down: Download, asked: Tensor, clients: list[State]) -> Tensor | None:
        if isinstance(self.method, Relational):
            return torch.stack([self.method.relations(client) for client in clients]).double()
        if down.weights is None:
            return None
        out = torch.full((self.fed.clients, self.fed.clients), torch.nan, dtype=torch.float64)
        return out.index_copy(0, asked, down.weights.double())

    @contextmanager
    def _blame(self, client: int, round: int) -> Iterator[None]:
        """Add silo, round and method to what went wrong inside."""
        where = f"silo {self.names[client]}, round {round}, {type(self.method).__name__}"
        try:
            yield
        except Stopped:
            raise
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        except Exception as error:
            error.add_note(where)
            raise


class _Watch:
    """Wall time per phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase], self._last = now - self._last, now


class _Uploads:
    """Uploads of a round as rows of matrices.

    A row takes the place of the download that its client has just used, where that has the same shape and is not
    part of the server's state: so no third matrix of models is alive.
    """

    def __init__(self, down: Download, server: State, count: int) -> None:
        kept = {value.untyped_storage().data_ptr() for value in server.values()}
        self._free = {
            key: value
            for key, value in down.each.items()
            if not isinstance(value, Pick)
            and value.is_contiguous()  # not one row shown to all
            and value.untyped_storage().data_ptr() not in kept
        }
        self._rows: State = {}
        self._count = count
        self._lock = threading.Lock()

    def put(self, position: int, upload: State) -> None:
        for key, value in upload.items():
            self._matrix(key, value)[position] = value

    def apart(self, state: State) -> State:
        """The client's state without views into downloads that an upload will overwrite."""
        written = {value.untyped_storage().data_ptr() for value in self._free.values()}
        return {k: v.clone() if v.untyped_storage().data_ptr() in written else v for k, v in state.items()}

    def rows(self, positions: list[int]) -> State:
        if len(positions) == self._count:
            return self._rows
        return {key: value[torch.tensor(positions)] for key, value in self._rows.items()}

    def bytes_of(self, positions: list[int]) -> int:
        return nbytes({key: value[:1] for key, value in self._rows.items()}) * len(positions)

    def _matrix(self, key: str, value: Tensor) -> Tensor:
        with self._lock:
            if key not in self._rows:
                free = self._free.get(key)
                fits = free is not None and free.shape[1:] == value.shape and free.dtype == value.dtype
                self._rows[key] = free if free is not None and fits else value.new_empty(self._count, *value.shape)
            return self._rows[key]


def _unusable(upload: State) -> str | None:
    for key, value in upload.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            return f"upload refused: {key} not finite"
    return None


def _sent_bytes(down: Download, receivers: int) -> int:
    each = 0
    for value in down.each.values():
        if isinstance(value, Pick):
            each += value.chosen.numel() * value.rows[0].numel() * value.rows.element_size()
        else:
            each += value.numel() * value.element_size()
    return receivers * nbytes(down.shared) + each
