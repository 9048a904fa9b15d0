"""The most memory that FedAMP takes for large federations, each in a process of its own.

    python benchmarks/memory.py [--case resnet18|cnn] [--rounds 2] [--participation 1.0] [--matrix-dir PATH]

100 silos with a model of the size of ResNet18 (11.2 M parameters), 1000 silos with the McMahan CNN (1.66 M). Two
examples per silo: what counts is the models. From round 2 on the server's matrix and the downloads are both alive.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn

from amity import models
from amity.config import Participation
from amity.contract import Silo, Split
from amity.engines.simulate import federation_of, simulate
from amity.methods import build
from amity.task import Task

CLIENTS = {"resnet18": 100, "cnn": 1000}


def module(case: str) -> nn.Module:
    """The model, or one with as many parameters as ResNet18 that is quick to train."""
    if case == "cnn":
        return models.make("cnn", (1, 28, 28), 10)()
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 14_000, bias=False), nn.ReLU(), nn.Linear(14_000, 16), nn.Linear(16, 10)
    )


def one(case: str, clients: int, rounds: int, participation: float, folder: Path | None) -> None:
    rng = torch.Generator().manual_seed(0)

    def silo(name: str) -> Silo:
        split = Split(torch.randn(2, 1, 28, 28, generator=rng), torch.randint(10, (2,), generator=rng))
        return Silo(name, split, split)

    silos = [silo(f"silo-{i}") for i in range(clients)]
    task = Task(lambda: module(case), (1, 28, 28), 10)
    fed = federation_of(silos, rounds, seed=0)
    method = build("fedamp")
    matrix = clients * task.size * 4 / 2**30
    print(f"{case}: {clients} silos x {task.size:,} parameters, one matrix is {matrix:.2f} GiB", flush=True)
    rule = Participation(epochs=1, participation=participation)
    began = time.perf_counter()
    for report in simulate(method, task, silos, fed, method.solver, rule, matrix_dir=folder):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        took = {phase: round(seconds, 1) for phase, seconds in report.seconds.items()}
        print(f"  round {report.round}: peak {peak:.2f} GiB = {peak / matrix:.2f} matrices; seconds {took}", flush=True)
        del report
    print(f"  {time.perf_counter() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CLIENTS)
    parser.add_argument("--clients", type=int)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--participation", type=float, default=1.0)
    parser.add_argument("--matrix-dir", type=Path)
    asked = parser.parse_args()
    if asked.case:
        clients = asked.clients or CLIENTS[asked.case]
        one(asked.case, clients, asked.rounds, asked.participation, asked.matrix_dir)
        return
    for case in CLIENTS:
        subprocess.run([sys.executable, __file__, "--case", case, *sys.argv[1:]], check=True)


if __name__ == "__main__":
    main()
