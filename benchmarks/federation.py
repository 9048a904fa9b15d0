"""What a federation over mutual TLS costs beyond local training: `python -m benchmarks.federation`, on a quiet machine.

    overhead    seconds of a round that no silo spends training: from one round on record to the next, without the
                slowest silo's turn. Evaluating is in it, with very few test examples
    start       from the submission of a run to the beginning of its first round; the server and the silos run already
    memory      the most that each process had while the run went on, in MB of resident memory; silos: the largest
    idle        CPU seconds per minute of the server's and of a silo's processes, when no run is under way

Everything runs on this machine, with the loopback interface between: a real network adds its own time, and silos on
machines of their own do not share these cores. `--quick` only shows that it runs.

A file of its own, not one for `amity bench`, which compares cases in processes of their own: here a case is a dozen
processes, and what is told is seconds and memory, not ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch

from amity.config.run import Run
from amity.data import Silos
from amity.data.own.arrays import own_silos
from amity.engines.flare.trial import Trial, names_of
from amity.hub.runs import HubRun


class Case(NamedTuple):
    """One federation to measure."""

    silos: int
    model: str
    shape: tuple[int, ...]
    rounds: int


CASES = (
    Case(3, "cnn", (1, 28, 28), 12),  # 6.6 MB
    Case(3, "resnet18", (3, 32, 32), 12),  # 45 MB
    Case(10, "cnn", (1, 28, 28), 12),
)
QUICK = (Case(2, "mlr", (1, 8, 8), 3),)

ROLES = {
    "runner_process": "server's job",
    "worker_process": "silo's job",
    "amity.site.worker": "silo's worker",
    "kits.process server": "server's network",
    "kits.process silo": "silo's network",
    "federation server": "server's service",
    "federation silo": "silo's service",
}


class Found(NamedTuple):
    """What was measured of one case."""

    megabytes: float
    start: float
    overhead: list[float]
    turn: float
    memory: dict[str, float]
    idle: dict[str, float]


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small case, which says nothing about speed")
    parser.add_argument("--idle", type=float, default=20.0, metavar="SECONDS", help="how long idle CPU is measured")
    options = parser.parse_args()
    for case in QUICK if options.quick else CASES:
        show(case, measure(case, 2.0 if options.quick else options.idle))


def show(case: Case, found: Found) -> None:
    """Print what was measured of a case."""
    low, high = min(found.overhead), max(found.overhead)
    print(f"\n{case.silos} silos, {case.model}, {found.megabytes:.1f} MB, fedavg, {case.rounds} rounds")
    median = statistics.median(found.overhead)
    print(f"  overhead of a round     {median:6.2f} s   ({low:.2f} to {high:.2f}; slowest turn {found.turn:.2f} s)")
    print(f"  start to first round    {found.start:6.1f} s")
    for role, most in sorted(found.memory.items()):
        print(f"  memory, {role:<17}{most:6.0f} MB")
    for name, seconds in found.idle.items():
        print(f"  idle CPU, {name:<13}{seconds:8.2f} s per minute", flush=True)


def measure(case: Case, idle: float) -> Found:
    """Measure one case in a folder that is then removed."""
    with tempfile.TemporaryDirectory(prefix="amity-bench-") as folder:
        with Trial(Path(folder) / "trial", random_silos(case)) as trial:
            trial.start("server", *trial.names)
            _until_connected(trial)
            with peaks(trial) as memory:
                began = time.time()
                run = trial.submit(run_of(case), "measured")
                status = trial.wait(run, 3600.0)
            if status["phase"] != "ended":
                raise SystemExit(f"the run came out {status['phase']}: {status['words']}")
            events = list(_events(run))
            for name in trial.names:
                trial.wait_for(trial.results(name, "measured") / "verdict.json", 3600.0)
            time.sleep(5)  # the job's processes end
            return Found(
                megabytes=next(event["bytes"] for event in events if event["what"] == "trained") / 1e6,
                start=next(event["time"] for event in events if event["what"] == "round") - began,
                overhead=overheads(events),
                turn=max(event["seconds"] for event in events if event["what"] == "trained"),
                memory=dict(memory),
                idle=idle_cpu(trial, idle),
            )


def run_of(case: Case) -> Run:
    return Run("fedavg", model=case.model, rounds=case.rounds, epochs=1, clients=case.silos, val_fraction=0.0)


def random_silos(case: Case) -> Silos:
    """Silos with very few examples: it is not their training that is measured."""
    rng = torch.Generator().manual_seed(0)

    def examples(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(count, *case.shape, generator=rng), torch.arange(count) % 10

    return own_silos({name: (*examples(40), *examples(10)) for name in names_of(case.silos)}, classes=10)


def overheads(events: Iterable[dict[str, Any]]) -> list[float]:
    """Seconds of each round but the first that no silo spent training; in the first, silos are still warming up."""
    slowest: dict[int, float] = defaultdict(float)
    recorded: dict[int, float] = {}
    for event in events:
        if event["what"] == "trained":
            slowest[event["round"]] = max(slowest[event["round"]], event["seconds"])
        elif event["what"] == "recorded":
            recorded[event["round"]] = event["time"]
    return [recorded[number] - recorded[number - 1] - slowest[number] for number in sorted(recorded)[1:]]


@contextmanager
def peaks(trial: Trial) -> Iterator[dict[str, float]]:
    """The most memory that a process of each role has, in MB, while this goes on."""
    found: dict[str, float] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            for process in processes(trial, "server", *trial.names):
                with suppress(psutil.Error):
                    role, used = role_of(process), process.memory_info().rss / 1e6
                    found[role] = max(found.get(role, 0.0), used)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def idle_cpu(trial: Trial, seconds: float) -> dict[str, float]:
    """CPU seconds per minute of the server and of the first silo, all their processes together."""
    names = {"server": "server", "silo": trial.names[0]}
    before = {role: _cpu(trial, name) for role, name in names.items()}
    time.sleep(seconds)
    return {role: (_cpu(trial, name) - before[role]) * 60 / seconds for role, name in names.items()}


def _cpu(trial: Trial, name: str) -> float:
    times = [process.cpu_times() for process in processes(trial, name)]
    return sum(float(one.user + one.system) for one in times)


def processes(trial: Trial, *names: str) -> list[Any]:
    """The processes of these services, with all that they have started."""
    found: list[Any] = []
    for name in names:
        first = psutil.Process(trial.pid(name))
        found += [first, *first.children(recursive=True)]
    return found


def role_of(process: Any) -> str:
    """What a process is for."""
    line = " ".join(process.cmdline())
    return next((role for word, role in ROLES.items() if word in line), "something else")


def _until_connected(trial: Trial) -> None:
    from amity.engines.flare.jobs import Jobs
    from amity.errors import LostWorker

    with Jobs(trial.hub) as jobs:
        while True:
            with suppress(LostWorker):
                if jobs.connected() >= set(trial.names):
                    return
            time.sleep(0.5)


def _events(run: HubRun) -> Iterator[dict[str, Any]]:
    for line in (run.folder / "record" / "events.jsonl").read_text().splitlines():
        yield json.loads(line)


if __name__ == "__main__":
    main()
