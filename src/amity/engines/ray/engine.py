"""The engine beyond one machine: the server's side here, the silos in Ray actors, the workers.

Turns are those of `federation/silo.py`, from the same keyed streams: the results are those of one process, bit by bit.

`cluster.py`: the cluster. `hosts.py`: the workers as seen from here. `worker.py`: what runs in them. `door.py`: what is
read of their silos. `arrays.py`: what travels. `watch.py`: what outlives a driver that is killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from amity.config.participation import Participation
from amity.contract import Federation, Method, Silo, Solver
from amity.engines.ray.cluster import check as check
from amity.engines.ray.cluster import cluster as cluster
from amity.engines.ray.hosts import Traffic, Workers
from amity.federation.carrier import Carrier
from amity.federation.events import Listener, silent
from amity.federation.plan import Plan
from amity.federation.reports import Round
from amity.federation.resume import Saved, begin
from amity.learn.task import Task


def on_ray(
    plan: Plan,
    silos: Sequence[Silo],
    *,
    workers: int | None = None,
    events: Listener = silent,
    matrix_dir: Path | None = None,
    traffic: Traffic | None = None,
) -> Callable[[], AbstractContextManager[Carrier]]:
    """How a carrier is started whose silos are on the workers of the Ray cluster that this process is part of."""
    counted = traffic or Traffic()
    return lambda: Workers(plan, silos, workers, counted, events, matrix_dir)


def simulate_on_ray(
    method: Method,
    task: Task,
    silos: Sequence[Silo],
    fed: Federation,
    solver: Solver,
    rule: Participation,
    *,
    address: str = "local",
    workers: int | None = None,
    start: Saved | None = None,
    events: Listener = silent,
    matrix_dir: Path | None = None,
    evaluate_every: int = 1,
    traffic: Traffic | None = None,
) -> Iterator[Round]:
    """Run the rounds that are left with silos on the workers of a Ray cluster: one that is started here, or `address`.

    A worker that is lost ends it; `federation/course.py` would go back to what was saved.
    """
    plan = Plan(method, task, fed, solver, rule)
    with cluster(address, min(workers or os.cpu_count() or 1, fed.clients)):
        opened = on_ray(plan, silos, workers=workers, events=events, matrix_dir=matrix_dir, traffic=traffic)
        with opened() as carrier:
            yield from begin(plan, carrier, start, events=events, evaluate_every=evaluate_every).rounds()
