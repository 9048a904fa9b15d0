"""Rounds of a simulation as work to be timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from amity.config.participation import Participation
from amity.contract import Method, Silo, Solver, Split
from amity.engines.local.simulate import simulate
from amity.federation.plan import federation_of
from amity.learn.task import Task
from benchmarks.measure import Figures

_FOR_EVER = 1_000_000  # rounds planned; a benchmark takes as many as it has repeats

CLASSES = 10


def examples(count: int, shape: tuple[int, ...], seed: int) -> Split:
    """Random images and labels: how long a step takes does not depend on what they show."""
    rng = torch.Generator().manual_seed(seed)
    return Split(torch.randn(count, *shape, generator=rng), torch.randint(CLASSES, (count,), generator=rng))


def random_silos(count: int, train: int, test: int, shape: tuple[int, ...] = (1, 28, 28)) -> list[Silo]:
    """Silos of random images."""
    return [Silo(f"silo-{i}", examples(train, shape, 2 * i), examples(test, shape, 2 * i + 1)) for i in range(count)]


def rounds(
    method: Method,
    make: Callable[[], nn.Module],
    silos: Sequence[Silo],
    *,
    solver: Solver,
    epochs: int = 1,
    workers: int | None = None,
    timed: str | None = None,
) -> Callable[[], Figures]:
    """Work that is the next round of one long run, as in the middle of a user's run: nothing is set up anew.

    It tells the seconds of every phase; the time that counts is the whole round's, or that of one phase.
    """
    task = Task(make, silos[0].train.x.shape[1:], CLASSES)
    fed = federation_of(silos, rounds=_FOR_EVER, seed=0)
    reports = simulate(method, task, silos, fed, solver, Participation(epochs=epochs), workers=workers)

    def next_round() -> Figures:
        seconds = next(reports).seconds
        return {**seconds, "seconds": sum(seconds.values()) if timed is None else seconds[timed]}

    return next_round
