"""Speed as ratios against baselines measured in the same run, because machines are shared and noisy.

    python benchmarks/run.py [--repeats 5] [--json FILE]

Every repeat times all candidates in turn; the table shows the median time, its spread, and the median over repeats
of baseline time / candidate time (above 1: faster than the baseline).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from amity import models
from amity.config import Participation
from amity.contract import Data, Silo, Solver, Split, Turn
from amity.engines.simulate import federation_of, simulate
from amity.methods import build
from amity.streams import stream
from amity.task import Task
from amity.train import proximal, train
from amity.vectors import cosines, mix

Work = Callable[[], object]


def local_training() -> dict[str, Work]:
    """One client's epoch over 500 images: McMahan CNN, batch 100, Adam with a proximal term, one thread."""
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(0)
    split = Split(torch.randn(500, 1, 28, 28, generator=rng), torch.randint(10, (500,), generator=rng))
    make = models.make("cnn", (1, 28, 28), 10)
    task = Task(make, (1, 28, 28), 10)
    start = task.init(rng)
    turn = Turn(
        1, 1, Solver("adam", 1e-3), Data(task.prepare(split), None), lambda role, epoch: stream(0, role, 0, 1, epoch)
    )

    def library_style() -> None:
        """A client loop as libraries write it: DataLoader, default layout, torch's Adam, the penalty in the loss."""
        module: nn.Module = task.module(start).train()
        centre = [p.detach().clone() for p in module.parameters()]
        adam = torch.optim.Adam(module.parameters(), lr=1e-3)
        for x, y in DataLoader(TensorDataset(*split), batch_size=100, shuffle=True):
            adam.zero_grad()
            loss = F.cross_entropy(module(x), y)
            for p, c in zip(module.parameters(), centre, strict=True):
                loss = loss + 5e-5 * (p - c).pow(2).sum()
            loss.backward()
            adam.step()

    return {
        "library-style loop": library_style,
        "amity": lambda: train(task, start, turn, terms=[proximal(1e-4, start["params"])]),
    }


def server_step() -> dict[str, Work]:
    """Attention over 50 models of 431,080 parameters: cosines and mixing."""
    torch.set_num_threads(os.cpu_count() or 1)
    rng = torch.Generator().manual_seed(0)
    models_ = torch.randn(50, 431_080, generator=rng)

    def pairwise() -> None:
        similar = torch.tensor([[F.cosine_similarity(a, b, dim=0).item() for b in models_] for a in models_])
        weights = torch.softmax(similar, 1)
        for row in weights:
            total = torch.zeros_like(models_[0])
            for weight, model in zip(row, models_, strict=True):
                total = total + weight * model

    def products() -> None:
        wide = models_.double()
        weights = torch.softmax(wide @ wide.T, 1)
        (weights @ wide).float()

    return {
        "pairwise loop": pairwise,
        "bare float64 products": products,
        "amity": lambda: mix(torch.softmax(cosines(models_), 1), models_),
    }


def workers() -> dict[str, Work]:
    """One FedAMP round of 8 clients, 300 images each, McMahan CNN: one worker against all cores."""
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(0)

    def silo(name: str) -> Silo:
        split = Split(torch.randn(300, 1, 28, 28, generator=rng), torch.randint(10, (300,), generator=rng))
        return Silo(name, split, Split(split.x[:50], split.y[:50]))

    silos = [silo(f"silo-{i}") for i in range(8)]
    task = Task(models.make("cnn", (1, 28, 28), 10), (1, 28, 28), 10)
    fed = federation_of(silos, rounds=1, seed=0)
    method = build("fedamp")

    def one_round(count: int) -> None:
        list(simulate(method, task, silos, fed, method.solver, Participation(epochs=1), workers=count))

    return {"1 worker": lambda: one_round(1), "all cores": lambda: one_round(os.cpu_count() or 1)}


BENCHMARKS = {"local training": local_training, "server step": server_step, "workers": workers}


def measure(candidates: dict[str, Work], repeats: int) -> dict[str, list[float]]:
    """Seconds of every candidate in every repeat, after one unmeasured pass."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for repeat in range(repeats + 1):
        for name, work in candidates.items():
            began = time.perf_counter()
            work()
            if repeat:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    console = Console()
    console.print(f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}", highlight=False)
    results = {}
    for title, make in BENCHMARKS.items():
        seconds = measure(make(), arguments.repeats)
        baseline = next(iter(seconds.values()))
        table = Table("", "median s", "min - max", "speed", title=f"{title}: {make.__doc__}", title_justify="left")
        results[title] = {}
        for name, times in seconds.items():
            ratio = statistics.median(b / t for b, t in zip(baseline, times, strict=True))
            median = statistics.median(times)
            table.add_row(name, f"{median:.3f}", f"{min(times):.3f} - {max(times):.3f}", f"{ratio:.2f}x")
            results[title][name] = {"seconds": times, "ratio": ratio}
        console.print(table)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
