"""What bad silos cost the honest ones, by method and protection: the tables of docs/robust.md.

    python -m benchmarks.attacks [--methods fedavg ...] [--kinds noise ...] [--out docs/attacks.json] [--print]

20 silos of fmnist practical with 200 training examples each, of which none, one or three attack
(`benchmarks/attackers.py`). A run's result is the mean accuracy of the other silos after the last round. What is in the
file is not run again, so this can be interrupted at any time; `--print` runs nothing and prints the tables. Runs with
`norm` come first: one in which nothing was refused is the run with `off`, to the last bit.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amity import Run
from amity.config.robust import MEANS, Robust
from amity.data import Silos
from amity.federation.server import ServerSide
from amity.prepare import prepare, silos_of
from benchmarks.attackers import ABSENT, KINDS, Attacked

METHODS: Mapping[str, Mapping[str, Any]] = {
    "fedavg": {},
    "fedamp": {},
    "heurfedamp": {},
    "pfedatt": {},
    "fedacs": {"optimizer": "adam"},
    "twin": {},
    "apple": {"settings": {"lr_scale": "m"}},
    "accord": {},
}
"""With the options that the demo gives them, where their own are meant for many more rounds."""

AVERAGE = ("fedavg",)
ATTACKERS: Mapping[int, tuple[int, ...]] = {1: (3,), 3: (3, 10, 17)}
HONEST = "honest"
COMMON: Mapping[str, Any] = {
    "data": "fmnist",
    "setting": "practical",
    "clients": 20,
    "per_silo": 200,
    "model": "mlp",
    "rounds": 15,
    "epochs": 3,
    "evaluate_every": 15,
    "workers": 1,
}
DATA = Path(__file__).resolve().parents[1] / "docs" / "attacks.json"


class Case(NamedTuple):
    """One run."""

    method: str
    kind: str  # of attack, or none
    bad: int  # silos that attack
    robust: Robust

    @property
    def key(self) -> str:
        return "/".join(map(str, self))


class Found(NamedTuple):
    """What came of it."""

    accuracy: float  # mean over the silos that do not attack, in percent
    refused: int  # uploads of attackers
    wronged: int  # uploads of honest silos that were refused
    seconds: float


def cases(methods: Sequence[str], kinds: Sequence[str]) -> Iterator[Case]:
    """All runs, `norm` before `off`; without attackers first."""
    for method in methods:
        for count in ATTACKERS:
            yield Case(method, HONEST, count, "norm")
            yield Case(method, ABSENT, count, "off")
    for kind in kinds:
        for count in ATTACKERS:
            for method in methods:
                others = MEANS if method in AVERAGE else ()
                for robust in ("norm", "off", *others):
                    yield Case(method, kind, count, robust)


def run_case(case: Case, common: Mapping[str, Any] = COMMON) -> Found:
    """Run one case."""
    begun = time.perf_counter()
    run = Run(case.method, **{**common, **METHODS[case.method]}, robust=case.robust)
    made = prepare(run, _dealt(tuple(common.items())))
    attackers = ATTACKERS[case.bad]
    bad = () if case.kind == HONEST else attackers
    carrier = Attacked(made.plan, dict(enumerate(made.silos.silos)), bad, case.kind)
    refused = wronged = 0
    scores: list[float] = []
    for report in ServerSide(made.plan, carrier, evaluate_every=run.evaluate_every).rounds():
        gone = set(report.dropped)
        refused += len(gone.intersection(bad))
        wronged += len(gone.difference(bad))
        if report.scores is not None:
            scores = [one.main for one in report.scores if one.silo not in attackers]
    return Found(statistics.fmean(scores), refused, wronged, round(time.perf_counter() - begun, 1))


@functools.cache
def _dealt(options: tuple[tuple[str, Any], ...]) -> Silos:
    return silos_of(Run(**dict(options)))


def run_all(todo: Iterator[Case], file: Path) -> None:
    """Run what is missing, and write each result down as it comes."""
    known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for case in todo:
        if case.key in known:
            continue
        protected = known.get(case._replace(robust="norm").key)
        if case.robust == "off" and protected is not None and not protected[1] and not protected[2]:
            found = Found(*protected)._replace(seconds=0.0)  # nothing was refused: the same run
        else:
            found = run_case(case)
        known[case.key] = [round(found.accuracy, 4), *found[1:]]
        text = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in known.items())
        file.write_text(f"{{\n{text}\n}}\n")
        print(case.key, *found, flush=True)


def tables(file: Path) -> Iterator[str]:
    """The tables in Markdown: points that attackers cost the others, against a run without them."""
    known = {key: Found(*value) for key, value in json.loads(file.read_text()).items()}
    methods = [method for method in METHODS if Case(method, ABSENT, 1, "off").key in known]
    for count in ATTACKERS:
        yield f"\n{'One silo' if count == 1 else 'Three silos'} of 20:\n"
        yield _row("", *methods)
        yield _row("---", *["---:"] * len(methods))
        honest = [_accuracy(known, Case(method, HONEST, count, "norm")) for method in methods]
        absent = [_accuracy(known, Case(method, ABSENT, count, "off")) for method in methods]
        yield _row("all honest: accuracy", *honest)
        yield _row("attackers absent: accuracy", *absent)
        for kind in KINDS:
            both = [[Case(method, kind, count, "off"), Case(method, kind, count, "norm")] for method in methods]
            yield _row(kind, *(" / ".join(_cost(known, case) for case in pair) for pair in both))
    for method in AVERAGE:
        yield f"\n`{method}`, one / three attackers:\n"
        rules: tuple[Robust, ...] = ("off", "norm", *MEANS)
        yield _row("", *rules)
        yield _row("---", *["---:"] * len(rules))
        for kind in KINDS:
            yield _row(kind, *[" / ".join(_cost(known, Case(method, kind, n, r)) for n in ATTACKERS) for r in rules])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _accuracy(known: Mapping[str, Found], case: Case) -> str:
    return f"{known[case.key].accuracy:.1f}" if case.key in known else ""


def _cost(known: Mapping[str, Found], case: Case) -> str:
    """Points lost, `*` where the attackers' uploads were refused in every round."""
    without = known.get(Case(case.method, ABSENT, case.bad, "off").key)
    found = known.get(case.key)
    if found is None or without is None:
        return ""
    cost = without.accuracy - found.accuracy
    return f"{cost + 0.0:.1f}".replace("-0.0", "0.0") + ("*" if found.refused >= 14 * case.bad else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--print", action="store_true")
    asked = parser.parse_args()
    if not asked.print:
        run_all(cases(asked.methods, asked.kinds), asked.out)
    print("\n".join(tables(asked.out)))


if __name__ == "__main__":
    main()
