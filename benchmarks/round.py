"""A whole round: what attention and evaluation add to local training."""

from __future__ import annotations

from functools import partial

from amity.methods import build
from amity.models.cnn import CNN
from benchmarks.measure import Goal, Repeat, Work, lazily
from benchmarks.rounds import CLASSES, random_silos, rounds

ALONE, FEDAMP = "separate", "fedamp"


def cases(quick: bool = False) -> dict[str, Work]:
    """A FedAMP round of 100 silos, 300 images each, McMahan CNN, batch 100, 2 epochs, against a round without
    collaboration."""
    count, train, test = (3, 20, 5) if quick else (100, 300, 75)

    def prepare(name: str) -> Work:
        method = build(name)
        silos = random_silos(count, train, test)
        solver = method.solver._replace(batch=min(100, train))
        return rounds(method, lambda: CNN((1, 28, 28), CLASSES), silos, solver=solver, epochs=2)

    return {name: lazily(partial(prepare, name)) for name in (ALONE, FEDAMP)}


def outside(repeat: Repeat) -> float:
    """The share of a FedAMP round that is not local training."""
    seconds, figures = repeat[FEDAMP]
    return 1 - figures["train"] / seconds


GOALS = [Goal("share of a FedAMP round outside local training", outside, at_most=0.15)]
