"""The most memory that FedAMP takes in large federations, each in a fresh process.

    amity bench benchmarks/memory.py --repeats 1

Two examples per silo: what counts is the models. From round 2 on the server's matrix and the downloads are both alive.
Needs 16 GiB of free memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from functools import partial

from amity import models
from amity.config.participation import Participation
from amity.engines.local.simulate import simulate
from amity.federation.plan import federation_of
from amity.learn.task import Task
from amity.methods import build
from benchmarks.measure import Figures, Goal, Repeat, Work, environment
from benchmarks.rounds import CLASSES, random_silos

CASES = {
    "100 silos, ResNet18": ("resnet18", (3, 32, 32), 100, 100, 1.0),
    "1000 silos, McMahan CNN": ("cnn", (1, 28, 28), 10, 1000, 1.0),
    "1000 silos, McMahan CNN, 30 % take part": ("cnn", (1, 28, 28), 10, 1000, 0.3),
}
"""Model, shape of an example, classes, silos, participation."""


def cases(quick: bool = False) -> dict[str, Work]:
    """Two FedAMP rounds with many large models: peak memory of the whole process, in GiB and in matrices of all
    models."""
    return {case: partial(fresh, case, quick) for case in CASES}


def baseline(case: str) -> None:
    return None


def fresh(case: str, quick: bool) -> Figures:
    """In a process of its own, whose peak is nobody else's."""
    command = [sys.executable, "-P", "-m", "benchmarks.memory", case, "quick" if quick else "full"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment()).stdout
    figures: dict[str, float] = json.loads(told)
    return figures


def measured(case: str, quick: bool) -> Figures:
    name, shape, classes, clients, participation = CASES[case]
    clients = 3 if quick else clients
    silos = random_silos(clients, 2, 2, shape)
    task = Task(models.make(name, shape, max(classes, CLASSES)), shape, max(classes, CLASSES))
    fed = federation_of(silos, 2, seed=0)
    method = build("fedamp")
    rule = Participation(epochs=1, participation=participation)
    seconds = 0.0
    for report in simulate(method, task, silos, fed, method.solver, rule):
        seconds = sum(report.seconds.values())
        del report
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    matrix = clients * task.size * 4 / 2**30
    return {"seconds": seconds, "peak_gib": peak, "matrix_gib": matrix, "matrices": peak / matrix}


def _peak(case: str) -> Goal:
    def value(repeat: Repeat) -> float:
        return repeat[case].figures["peak_gib"]

    return Goal(f"peak GiB, {case}", value, at_most=20)


def _matrices(case: str) -> Goal:
    return Goal(f"the same in matrices of all models, {case}", lambda repeat: repeat[case].figures["matrices"])


GOALS = [goal(case) for case in CASES for goal in (_peak, _matrices)]


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], sys.argv[2] == "quick")))
