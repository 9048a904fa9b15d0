"""Simulations: a server and all its silos in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from amity.config.participation import Participation
from amity.contract import Federation, Method, Silo, Solver
from amity.engines.local.stacked import Engine, carrier_of
from amity.federation.events import Listener, silent
from amity.federation.plan import Plan
from amity.federation.reports import Round
from amity.federation.resume import Saved, begin
from amity.federation.server import Clouds
from amity.learn.task import Task


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
    start: Saved | None = None,
    events: Listener = silent,
    matrix_dir: Path | None = None,
    evaluate_every: int = 1,
    clouds: Clouds = "none",
) -> Iterator[Round]:
    """Run the rounds that are left, reporting after each. `start` continues from a saved state.

    `matrix_dir`: a folder for memory-mapped files, in which matrices of models lie instead of in memory.
    """
    plan = Plan(method, task, fed, solver, rule)
    with carrier_of(engine, plan, dict(enumerate(silos)), workers, matrix_dir) as carrier:
        server = begin(plan, carrier, start, events=events, evaluate_every=evaluate_every, clouds=clouds)
        yield from server.rounds()
