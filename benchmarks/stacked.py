"""Stacked execution against the loop: 100 silos, the perceptron on digits, FedAvg with Adam, 5 epochs.

    python benchmarks/stacked.py [--repeats 7] [--workers N]

Every repeat takes all candidates in turn. Beside wall time it shows the processor time of all threads, which other
work on the machine disturbs less. The speed is the median over repeats of baseline / candidate.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import torch
from rich.console import Console
from rich.table import Table

from amity.config import Run
from amity.contract import Round, State, nbytes
from amity.engines.crew import Crew, Plan
from amity.engines.simulate import simulate
from amity.engines.stacked import Engine, crew_of
from amity.run import Prepared, prepare, silos_of

Work = Callable[[], object]

ENGINES: tuple[Engine, ...] = ("loop", "stacked")


def prepared(method: str = "fedavg") -> Prepared:
    run = Run(method, data="digits", setting="practical", clients=100, model="mlp", rounds=10**6)
    return prepare(run, silos_of(run))


class Desk:
    """The server's side of a round, as small as it can be: everybody gets one model, uploads are looked at once."""

    def __init__(self, down: State) -> None:
        self.down = down
        self.bytes = 0

    def receive(self, client: int) -> State:
        return self.down

    def deliver(self, client: int, state: State, upload: State) -> State:
        self.bytes += nbytes(upload)
        return state


def cases(workers: int | None = None) -> dict[str, Work]:
    """The training of a round, without the server's side."""
    made = prepared()
    plan = Plan(made.method, made.task, made.fed, made.solver, made.run.who)
    desk = Desk(made.task.initial(made.fed))
    everybody = range(made.fed.clients)

    def crew_for(engine: Engine) -> Crew:
        crew = crew_of(engine, plan, dict(enumerate(made.silos.silos)), workers)
        crew.begin()
        return crew

    def training(crew: Crew) -> Work:
        return lambda: list(crew.train(1, everybody, frozenset(), desk))

    return {engine: training(crew_for(engine)) for engine in ENGINES}


def round_cases(workers: int | None = None, method: str = "fedavg") -> dict[str, Work]:
    """A whole round: download, training, aggregation, evaluation."""
    made = prepared(method)

    def rounds(engine: Engine) -> Iterator[Round]:
        return simulate(
            made.method,
            made.task,
            made.silos.silos,
            made.fed,
            made.solver,
            made.run.who,
            workers=workers,
            engine=engine,
        )

    def next_round(reports: Iterator[Round]) -> Work:
        return lambda: next(reports)

    return {engine: next_round(rounds(engine)) for engine in ENGINES}


def measure(candidates: dict[str, Work], repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Wall and processor seconds of every candidate in every repeat, after one unmeasured pass."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in candidates}
    for repeat in range(repeats + 1):
        for name, work in candidates.items():
            wall, processor = time.perf_counter(), time.process_time()
            work()
            if repeat:
                seconds[name].append((time.perf_counter() - wall, time.process_time() - processor))
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--workers", type=int, default=None)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console = Console()
    for title, make in {"training of a round": cases, "whole round": round_cases}.items():
        seconds = measure(make(arguments.workers), arguments.repeats)
        table = Table("", "wall ms", "min - max", "speed", "processor ms", "speed", title=title, title_justify="left")
        baseline = next(iter(seconds.values()))
        for name, times in seconds.items():
            wall, processor = ([1000 * t[kind] for t in times] for kind in (0, 1))
            ratios = [
                statistics.median(b[kind] / t[kind] for b, t in zip(baseline, times, strict=True)) for kind in (0, 1)
            ]
            table.add_row(
                name,
                f"{statistics.median(wall):.1f}",
                f"{min(wall):.1f} - {max(wall):.1f}",
                f"{ratios[0]:.1f}x",
                f"{statistics.median(processor):.1f}",
                f"{ratios[1]:.1f}x",
            )
        console.print(table)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
