"""The engine in one process: a loop over rounds, and a crew of threads that carries out the turns.

Models are never pickled; uploads are written into one matrix.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Generator, Tensor

from amity.config import Participation
from amity.contract import (
    Download,
    Federation,
    Method,
    Model,
    Pick,
    Progress,
    Round,
    Score,
    Silo,
    Solver,
    State,
    nbytes,
)
from amity.engines.crew import Clients, Crew, Plan, Sent
from amity.engines.participation import Lot, draw, epochs_of
from amity.engines.stacked import Engine, crew_of
from amity.engines.uploads import Uploads, housed, share
from amity.streams import key_of, stream
from amity.task import Task

Notify = Callable[[str, int, int], None]
"""(phase, done, in all): called from the engine's own thread.

Phases "train" and "evaluate" count clients; "wait" counts workers that have begun, where others are waited for.
"""


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
    engine: Engine = "loop",
    start: Progress | None = None,
    notify: Notify | None = None,
    matrix_dir: Path | None = None,
    evaluate_every: int = 1,
) -> Iterator[Round]:
    """Run the rounds that are left, reporting after each. `start` continues from a saved state.

    `matrix_dir`: a folder for memory-mapped files, in which matrices of models lie instead of in memory.
    `evaluate_every`: rounds between evaluations; the last round always has one.
    """
    plan = Plan(method, task, fed, solver, rule)
    with crew_of(engine, plan, dict(enumerate(silos)), workers) as crew:
        yield from rounds(plan, crew, start, notify or silent, matrix_dir, evaluate_every)


def rounds(
    plan: Plan,
    crew: Clients,
    start: Progress | None,
    notify: Notify,
    folder: Path | None = None,
    evaluate_every: int = 1,
) -> Iterator[Round]:
    """The server's side: ask, send, collect, aggregate, report."""
    crew.begin(None if start is None else dict(enumerate(start.clients)))
    server = plan.method.init_server(plan.task, plan.fed) if start is None else start.server
    done = 0 if start is None else start.round
    server = server if folder is None else housed(server, plan.fed.clients, folder)
    if isinstance(crew, Crew):
        share(server, crew.states(), range(plan.fed.clients))
    while done < plan.fed.rounds:
        due = (done + 1) % evaluate_every == 0 or done + 1 == plan.fed.rounds
        report = _round(plan, crew, server, done + 1, notify, folder, evaluated=due)
        server, done = report.progress.server, report.round
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
    engine: Engine = "loop",
) -> list[Model]:
    """Every client's personal model after the last round, computed as it was for its evaluation."""
    plan = Plan(method, task, fed, solver, rule)
    with crew_of(engine, plan, dict(enumerate(silos)), workers) as crew:
        crew.begin(dict(enumerate(progress.clients)))
        return crew.personals(progress.round, _after(plan, progress.server, progress.round)[0])


def silent(phase: str, done: int, total: int) -> None:
    pass


def _round(
    plan: Plan, crew: Clients, server: State, number: int, notify: Notify, folder: Path | None, *, evaluated: bool
) -> Round:
    method, _, fed, _, rule = plan
    watch = _Watch()
    lot = draw(rule, fed, number)
    down = _download(plan, server, lot.asked, number)
    down_bytes = _sent_bytes(down, len(lot.asked))
    watch.lap("download")

    uploads = Uploads(down, server, len(lot.asked), fed.clients, folder)
    refused = _train(crew, lot, down, uploads, number, notify)
    watch.lap("train")

    accepted = [at for at, client in enumerate(lot.asked.tolist()) if client not in refused and client not in lot.lost]
    if accepted:
        who = lot.asked[torch.tensor(accepted)]
        server = method.aggregate(server, who, uploads.rows(accepted), number)
        if isinstance(crew, Crew):  # states that lie elsewhere share no memory with the server's
            uploads.settle(server, accepted, who.tolist(), crew.states())
    watch.lap("aggregate")

    scores, eval_bytes = None, 0
    if evaluated:
        receive, eval_bytes = _after(plan, server, number)
        scores = _evaluate(crew, fed.clients, receive, number, notify)
    watch.lap("evaluate")
    return Round(
        round=number,
        scores=scores,
        took_part=[int(lot.asked[position]) for position in accepted],
        dropped={**lot.dropped, **refused},
        epochs={i: epochs_of(rule, fed, i, number) for i in lot.asked.tolist()},
        bytes_up=uploads.bytes_of(accepted),
        bytes_down=down_bytes,
        bytes_eval=eval_bytes,
        seconds=watch.laps,
        weights=_weights(down, lot.asked, crew, fed.clients),
        progress=Progress(number, server, crew.states()),
        warnings=[*down.notes, *crew.notes(), *_diverging(refused)],
        holds=crew.holds(),
        executed=crew.executed,
    )


def _download(plan: Plan, server: State, who: Tensor, round: int) -> Download:
    def rng(role: str, key: int) -> Generator:
        return stream(plan.fed.seed, role, key, round)

    return plan.method.download(server, who, round, rng)


def _train(crew: Clients, lot: Lot, down: Download, uploads: Uploads, number: int, notify: Notify) -> dict[int, str]:
    """Let every asked client take its turn; return whose upload was refused, and why."""
    asked = lot.asked.tolist()
    refused = {}
    notify("train", 0, len(asked))
    turns = crew.train(number, asked, lot.lost, _InProcess(lot, down, uploads))
    for done, (client, reason) in enumerate(turns, 1):
        if reason is not None:
            refused[client] = reason
        notify("train", done, len(asked))
    return refused


def _diverging(refused: Mapping[int, str]) -> list[str]:
    """Each reason once, however many uploads it cost: the same words in every round are said aloud once."""
    return [f"{reason}; training diverges, try a smaller rate" for reason in sorted(set(refused.values()))]


def _after(plan: Plan, server: State, number: int) -> tuple[Sent | None, int]:
    """What clients are sent to evaluate after this round, for methods that ask for it, and its bytes."""
    if plan.method.evaluates != "server":
        return None, 0
    down = _download(plan, server, torch.arange(plan.fed.clients), number + 1)
    return Sent(range(plan.fed.clients), down), _sent_bytes(down, plan.fed.clients)


def _evaluate(crew: Clients, clients: int, receive: Sent | None, number: int, notify: Notify) -> list[Score]:
    scores = {}
    notify("evaluate", 0, clients)
    for client, score in crew.evaluate(number, receive):
        scores[client] = score
        notify("evaluate", len(scores), clients)
    return [scores[client] for client in range(clients)]


def _weights(down: Download, asked: Tensor, crew: Clients, clients: int) -> Tensor | None:
    relations = crew.relations()
    if relations is not None:
        return relations.double()
    if down.weights is None:
        return None
    out = torch.full((clients, clients), torch.nan, dtype=torch.float64)
    return out.index_copy(0, asked, down.weights.double())


class _InProcess:
    """Download and upload as slices of shared memory."""

    def __init__(self, lot: Lot, down: Download, uploads: Uploads) -> None:
        self.sent = Sent(lot.asked.tolist(), down)
        self._lost = lot.lost
        self._uploads = uploads

    def receive(self, client: int) -> State:
        return self.sent(client)

    def deliver(self, client: int, state: State, upload: State) -> State:
        kept = self._uploads.apart(state)
        position = self.sent.at[client]
        self._uploads.put(position, upload)
        return kept if client in self._lost else self._uploads.shared(position, kept, upload)


class _Watch:
    """Wall time per phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase], self._last = now - self._last, now


def _sent_bytes(down: Download, receivers: int) -> int:
    each = 0
    for value in down.each.values():
        if isinstance(value, Pick):
            each += value.chosen.numel() * value.rows[0].numel() * value.rows.element_size()
        else:
            each += value.numel() * value.element_size()
    return receivers * nbytes(down.shared) + each
