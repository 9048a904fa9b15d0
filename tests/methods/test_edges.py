"""Arithmetic at the edges with an ending and with every robust mean: no round ends in an error, and no NaN spreads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from small import build, opened, plan_of, silos, task

from amity.config.robust import MEANS, Robust
from amity.contract import Method, Silo, Split, averaged_keys
from amity.federation.resume import begin
from amity.learn.task import Task
from amity.methods import METHODS
from amity.methods.ended import with_ending
from amity.testing.cases import made_of_numbers

BROKEN = 1
"""The silo whose data are broken, where one's are."""

AVERAGING = [name for name in METHODS if averaged_keys(build(name))]
SLOW = pytest.mark.slow


def scaled(part: Split, size: float) -> Split:
    return Split(part.x * size, part.y)


def edges() -> Iterator[Any]:
    """Silos and a task at an edge, and the silos whose own models may break."""
    at = [one._replace(val=one.test) for one in silos()]
    yield pytest.param(at[:1], task(), set(), id="one silo")
    yield pytest.param([at[0]._replace(name=str(place)) for place in range(5)], task(), set(), id="equal silos")
    for size in (0.0, 1e160, 1e-200):
        start = {"weight": size * torch.arange(1.0, 10.0).double().view(3, 3), "bias": torch.zeros(3)}
        yield pytest.param(at, task(start=start), set(), id=f"models of {size:g}")
    yield pytest.param(
        [one._replace(train=scaled(one.train, 0.0)) for one in at], task(), set(), id="examples of zeros"
    )
    for size in (torch.nan, torch.inf, 1e300):
        one = at[BROKEN]
        both = {
            "train": one._replace(train=scaled(one.train, size)),
            "val": one._replace(val=scaled(one.test, size)),
        }
        for part, broken in both.items():
            yield pytest.param([at[0], broken, *at[2:]], task(), {BROKEN}, id=f"examples to {part} of {size:g}")


def check(method: Method, at: list[Silo], on: Task, broken: set[int], robust: Robust, ending: bool) -> None:
    """Run three rounds, and an ending where one is asked for: what the others have is made of numbers."""
    made = with_ending(method, 3, 1, 2, True) if ending else method
    plan, hosted = plan_of(made, at=at, on=on, rounds=3 + ending, epochs=1)
    plan = plan._replace(robust=robust, rule=replace(plan.rule, ending=4 if ending else 0))
    with opened("loop")(plan, hosted) as carrier:
        server = begin(plan, carrier, None)
        rounds = list(server.rounds())
        server.keep()
        assert carrier.door is not None
        states, models = list(carrier.door.states()), list(carrier.door.delivered())
    assert all(made_of_numbers(one.progress.server) for one in rounds)
    said = rounds[-1].scores
    assert said is not None
    for client in set(range(len(at))) - broken:
        assert made_of_numbers(states[client])
        assert made_of_numbers(models[client]) or said[client].failed


@pytest.mark.parametrize(("at", "on", "broken"), list(edges()))
@pytest.mark.parametrize("method", [name if name == "accord" else pytest.param(name, marks=SLOW) for name in METHODS])
def test_with_an_ending(method: str, at: list[Silo], on: Task, broken: set[int]) -> None:
    check(build(method), at, on, broken, "off", ending=True)


@pytest.mark.parametrize(("at", "on", "broken"), list(edges()))
@pytest.mark.parametrize(
    "robust", [rule if rule == "krum" else pytest.param(rule, marks=SLOW) for rule in ("norm", *MEANS)]
)
@pytest.mark.parametrize("method", [name if name == "fedavg" else pytest.param(name, marks=SLOW) for name in AVERAGING])
def test_with_robust_means(method: str, robust: Robust, at: list[Silo], on: Task, broken: set[int]) -> None:
    check(build(method), at, on, broken, robust, ending=False)
