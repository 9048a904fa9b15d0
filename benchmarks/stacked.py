"""Stacked execution: small dense models that advance together, against one client after the other."""

from __future__ import annotations

from functools import partial

from amity.config.participation import MANY
from amity.config.run import Run
from amity.engines.local.simulate import simulate
from amity.engines.local.stacked import Engine
from amity.prepare import prepare, silos_of
from benchmarks.measure import Work, lazily, speed

ENGINES: tuple[Engine, ...] = ("loop", "stacked")


def cases(quick: bool = False) -> dict[str, Work]:
    """A FedAMP round of 100 silos, the perceptron on digits, Adam, 5 epochs: its training, and the whole round."""
    return {
        _name(engine, part): lazily(partial(rounds, engine, part, quick))
        for part in ("train", "whole")
        for engine in ENGINES
    }


def _name(engine: str, part: str) -> str:
    return f"{engine}, {'training' if part == 'train' else 'whole round'}"


def baseline(case: str) -> str:
    return case.replace("stacked", "loop")


def rounds(engine: Engine, part: str, quick: bool) -> Work:
    """The next round of a long run; the time that counts is that of its training, or all of it."""
    run = Run("fedamp", data="digits", setting="practical", clients=5 if quick else 100, model="mlp", rounds=MANY)
    made = prepare(run, silos_of(run))
    method, task, fed, solver, rule, *_ = made.plan
    reports = simulate(method, task, made.silos.silos, fed, solver, rule, engine=engine)

    def work() -> dict[str, float]:
        seconds = next(reports).seconds
        return {**seconds, "seconds": seconds["train"] if part == "train" else sum(seconds.values())}

    return work


GOALS = [
    speed(_name("loop", part), _name("stacked", part), at_least) for part, at_least in (("train", 15), ("whole", 8))
]
