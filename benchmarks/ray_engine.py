"""What it costs to have the clients in other processes: rounds of `--engine ray` against rounds in one process.

    python benchmarks/ray_engine.py [--repeats 5]

Not called ray.py, which a script beside it would import in Ray's place.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from amity import models
from amity.config import MANY, Participation
from amity.contract import Round, Silo, Split
from amity.engines.ray import Traffic, cluster, spread
from amity.engines.simulate import federation_of, simulate
from amity.methods import build
from amity.task import Task

NEEDS = ("ray",)
WORKERS = 2
SHAPE, CLASSES = (1, 28, 28), 10
Work = Callable[[], dict[str, float]]


def cases(quick: bool = False) -> dict[str, Work]:
    """A FedAMP round of 20 silos, 300 images each, one epoch, McMahan CNN, two workers: threads against Ray actors."""
    silos, train = (3, 20) if quick else (20, 300)
    prepare = functools.partial(one_round, silos, train)
    return {"simulate, 2 threads": lazily(prepare, simulate), "ray, 2 actors": lazily(prepare, on_ray)}


def lazily(prepare: Callable[..., Work], engine: Callable[..., Iterator[Round]]) -> Work:
    ready = functools.cache(lambda: prepare(engine))
    return lambda: ready()()


def one_round(silos: int, train: int, engine: Callable[..., Iterator[Round]]) -> Work:
    """The next round of a run that never ends."""
    torch.set_num_threads(os.cpu_count() or 1)
    rng = torch.Generator().manual_seed(0)

    def silo(name: str) -> Silo:
        x = torch.randn(train + train // 4, *SHAPE, generator=rng)
        y = torch.randint(CLASSES, (len(x),), generator=rng)
        return Silo(name, Split(x[:train], y[:train]), Split(x[train:], y[train:]))

    at = [silo(f"silo-{i}") for i in range(silos)]
    method, traffic = build("fedamp"), Traffic()
    task = Task(models.make("cnn", SHAPE, CLASSES), SHAPE, CLASSES)
    fed = federation_of(at, rounds=MANY, seed=0)
    solver = method.solver._replace(batch=min(100, train))
    how: dict[str, Any] = {"traffic": traffic} if engine is on_ray else {}
    steps = engine(method, task, at, fed, solver, Participation(epochs=1), workers=WORKERS, **how)
    atexit.register(steps.close)  # type: ignore[attr-defined]

    def work() -> dict[str, float]:
        moved, used = traffic.moved, processor_seconds()
        took = next(steps).seconds
        return {**took, "moved_mb": (traffic.moved - moved) / 1e6, "cpu": processor_seconds() - used}

    return work


def processor_seconds() -> float:
    """Of this process and all that it has begun, which wall time on a shared machine is not. Linux only."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(entry.parent.name)
        parents[pid], used[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(used.get(pid, 0) for pid in mine) / os.sysconf("SC_CLK_TCK")


def on_ray(*parts: Any, **how: Any) -> Iterator[Round]:
    with cluster("local", WORKERS):
        yield from spread(*parts, **how)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="sizes that only show that it runs")
    arguments = parser.parse_args()
    found = cases(arguments.quick)
    seconds: dict[str, list[float]] = {name: [] for name in found}
    used: dict[str, list[float]] = {name: [] for name in found}
    for repeat in range(arguments.repeats + 1):
        for name, work in found.items():
            began = time.perf_counter()
            told = work()
            took = time.perf_counter() - began
            phases = ", ".join(f"{key} {value:.2f}" for key, value in told.items())
            print(f"{repeat or 'with its start'}: {name} {took:.2f} s ({phases})", flush=True)
            if repeat:
                seconds[name].append(took)
                used[name].append(told["cpu"])
    for what, series in (("wall time", seconds), ("processor time", used)):
        baseline = next(iter(series.values()))
        for name, times in series.items():
            ratio = statistics.median(b / t for b, t in zip(baseline, times, strict=True))
            spread_of = f"{min(times):.2f} - {max(times):.2f}"
            print(f"{what:15} {name:20} median {statistics.median(times):6.2f} s, {spread_of}, {ratio:.2f}x")


if __name__ == "__main__":
    main()
