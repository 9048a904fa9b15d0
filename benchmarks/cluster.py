"""The ray engine: what it costs to have the clients in other processes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from amity import models
from amity.config.participation import MANY, Participation
from amity.engines.local.simulate import simulate
from amity.engines.ray.engine import simulate_on_ray
from amity.engines.ray.hosts import Traffic
from amity.federation.plan import federation_of
from amity.federation.reports import Round
from amity.learn.task import Task
from amity.methods import build
from benchmarks.measure import Work, lazily, speed
from benchmarks.rounds import CLASSES, random_silos

NEEDS = ("ray",)
WORKERS = 2
SHAPE = (1, 28, 28)
THREADS, ACTORS = "simulate, 2 threads", "ray, 2 actors"


def cases(quick: bool = False) -> dict[str, Work]:
    """A FedAMP round of 20 silos, 300 images each, one epoch, McMahan CNN, two workers: threads against Ray actors."""
    count, train = (3, 20) if quick else (20, 300)
    return {
        THREADS: lazily(partial(next_round, count, train, simulate)),
        ACTORS: lazily(partial(next_round, count, train, simulate_on_ray)),
    }


def next_round(count: int, train: int, engine: Callable[..., Iterator[Round]]) -> Work:
    """The next round of a long run; it also tells the megabytes that moved between processes."""
    silos = random_silos(count, train, train // 4, SHAPE)
    method, traffic = build("fedamp"), Traffic()
    task = Task(models.make("cnn", SHAPE, CLASSES), SHAPE, CLASSES)
    fed = federation_of(silos, rounds=MANY, seed=0)
    solver = method.solver._replace(batch=min(100, train))
    how: dict[str, Any] = {"traffic": traffic} if engine is simulate_on_ray else {}
    steps = engine(method, task, silos, fed, solver, Participation(epochs=1), workers=WORKERS, **how)

    def work() -> dict[str, float]:
        moved = traffic.moved
        seconds = next(steps).seconds
        return {**seconds, "seconds": sum(seconds.values()), "moved_mb": (traffic.moved - moved) / 1e6}

    weakref.finalize(work, steps.close)  # type: ignore[attr-defined]  # nobody will ask for a round: end the workers
    return work


GOALS = [speed(THREADS, ACTORS, 0.8)]
