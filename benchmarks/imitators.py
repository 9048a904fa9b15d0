"""What silos that imitate another one do to it: the last table of docs/robust.md.

    python -m benchmarks.imitators [--methods fedamp ...] [--out docs/imitators.json] [--print]

The federation of `benchmarks/attacks.py`, under `--robust norm`. All attackers have one victim, and send what
`benchmarks/attackers.py` says; each case is run for three victims. What is told are means over these: how many points
the victim loses after the last round against a run in which the attackers are absent, how many the other honest silos
lose, and the share of the attackers in what the victim is sent, in the mean over rounds, where a method has weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from amity import Run
from amity.federation.server import ServerSide
from amity.prepare import prepare, silos_of
from benchmarks.attackers import ABSENT, IMITATIONS, Attacked
from benchmarks.attacks import ATTACKERS, COMMON
from benchmarks.attacks import METHODS as OPTIONS

METHODS = ("fedavg", "fedamp", "heurfedamp", "pfedatt", "fedacs")
VICTIMS = (0, 8, 13)  # of three groups of silos; attackers are 3, 10 and 17
DATA = Path(__file__).resolve().parents[1] / "docs" / "imitators.json"


class Case(NamedTuple):
    """One run."""

    method: str
    kind: str
    bad: int  # silos that attack
    victim: int

    @property
    def key(self) -> str:
        return "/".join(map(str, self))


class Found(TypedDict):
    """What came of it."""

    scores: list[float]  # of every silo after the last round, in percent
    heard: float | None  # share of the attackers in what the victim is sent, in the mean over rounds
    refused: int  # uploads
    seconds: float


def cases(methods: Sequence[str]) -> Iterator[Case]:
    """All runs; those without attackers have no victim, and are named by the first."""
    for method in methods:
        for count in ATTACKERS:
            yield Case(method, ABSENT, count, VICTIMS[0])
            for kind in IMITATIONS:
                for victim in VICTIMS:
                    yield Case(method, kind, count, victim)


def run_case(case: Case, common: Mapping[str, Any] = COMMON) -> Found:
    """Run one case."""
    begun = time.perf_counter()
    run = Run(case.method, **{**common, **OPTIONS[case.method]}, robust="norm")
    made = prepare(run, silos_of(run))
    bad = ATTACKERS[case.bad]
    carrier = Attacked(made.plan, dict(enumerate(made.silos.silos)), bad, case.kind, case.victim)
    scores: list[float] = []
    shares: list[float] = []
    refused = 0
    for report in ServerSide(made.plan, carrier, evaluate_every=run.evaluate_every).rounds():
        refused += len(report.dropped)
        if report.weights is not None:
            shares.append(float(report.weights[case.victim, list(bad)].sum()))
        if report.scores is not None:
            scores = [round(one.main, 4) for one in report.scores]
    heard = round(statistics.fmean(shares), 4) if shares else None
    return Found(scores=scores, heard=heard, refused=refused, seconds=round(time.perf_counter() - begun, 1))


def run_all(todo: Iterator[Case], file: Path) -> None:
    """Run what is missing, and write each result down as it comes."""
    known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for case in todo:
        if case.key in known:
            continue
        found = known[case.key] = run_case(case)
        text = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in known.items())
        file.write_text(f"{{\n{text}\n}}\n")
        print(case.key, found["heard"], found["refused"], found["seconds"], flush=True)


def table(file: Path) -> Iterator[str]:
    """The table in Markdown: points that the victim loses / that the others lose / the attackers' share."""
    known: dict[str, Found] = json.loads(file.read_text())
    methods = [method for method in METHODS if all(case.key in known for case in cases([method]))]
    yield f"| {' | '.join(['', *methods])} |"
    yield f"| --- |{' ---: |' * len(methods)}"
    for count, bad in ATTACKERS.items():
        for kind in IMITATIONS:
            cells = [_cell(known, method, kind, count, bad) for method in methods]
            yield f"| {kind}, {'one silo' if count == 1 else 'three silos'} | {' | '.join(cells)} |"


def _cell(known: Mapping[str, Found], method: str, kind: str, count: int, bad: Sequence[int]) -> str:
    without = known[Case(method, ABSENT, count, VICTIMS[0]).key]["scores"]
    own, others, shares = [], [], []
    for victim in VICTIMS:
        found = known[Case(method, kind, count, victim).key]
        lost = [before - after for before, after in zip(without, found["scores"], strict=True)]
        own.append(lost[victim])
        others += [points for silo, points in enumerate(lost) if silo not in (victim, *bad)]
        shares.append(found["heard"])
    heard = "-" if None in shares else f"{100 * statistics.fmean(share or 0.0 for share in shares):.0f} %"
    return f"{statistics.fmean(own):.1f} / {statistics.fmean(others):.1f} / {heard}".replace("-0.0", "0.0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--print", action="store_true")
    asked = parser.parse_args()
    if not asked.print:
        run_all(cases(asked.methods), asked.out)
    print("\n".join(table(asked.out)))


if __name__ == "__main__":
    main()
