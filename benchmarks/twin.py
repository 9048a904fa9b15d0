"""Twin attention beside what it must be measured against: the tables of docs/results/twin.md.

    python benchmarks/twin.py [--tables digits fmnist ...] [--rows twin ...] [--out runs/twin] [--print]

20 silos, the settings iid, practical and pathological. Runs that are complete are not repeated and those cut short
are continued, so this can be interrupted at any time; `--print` runs nothing and prints what there is. A run directory
says nothing about the code that made it: remove those of a method that has changed.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amity import Run, record, run

SETTINGS = ("iid", "practical", "pathological")


class Protocol(NamedTuple):
    """How a table's runs are made."""

    options: Mapping[str, Any]  # of a run
    seeds: Sequence[int]
    sigmas: Sequence[float]  # the best is shown


LONG = {"rounds": 15, "epochs": 5}
SHORT = {"rounds": 6, "epochs": 2}
TABLES = {
    "digits": Protocol({"data": "digits", **LONG}, (0, 1, 2), (10, 30, 100)),
    "fmnist": Protocol({"data": "fmnist", "model": "mlp", "per_silo": 400, **LONG}, (0,), (10, 30, 100)),
    "mnist": Protocol({"data": "mnist", "model": "mlp", "per_silo": 400, **LONG}, (0,), (10, 30, 100)),
    "fmnist-cnn": Protocol({"data": "fmnist", "model": "cnn", "per_silo": 400, **SHORT}, (0,), (100,)),
}
ORACLE = "heurfedamp, oracle, best sigma"
ROWS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "separate": ("separate", {}),
    "fedavg": ("fedavg", {}),
    "fedavg-ft": ("fedavg-ft", {}),
    ORACLE: ("heurfedamp", {"self_weight": "group"}),
    "twin": ("twin", {}),
    "twin, `keep=own`": ("twin", {"keep": "own"}),
}
"""Row of the table -> method and settings."""


class Asked(NamedTuple):
    """A run and where it is kept."""

    run: Run
    path: Path


def runs(out: Path, table: str, setting: str, row: str) -> Iterator[list[Asked]]:
    """The runs of a row, one per seed; for the oracle once for each sigma."""
    protocol, (method, own) = TABLES[table], ROWS[row]
    if row == ORACLE and setting == "pathological":
        own = {**own, "group_counts_self": True}  # silos without a mate would otherwise keep to themselves
    for given in [{**own, "sigma": sigma} for sigma in protocol.sigmas] if row == ORACLE else [own]:
        name = "-".join([method, *(f"{key}={value}" for key, value in given.items())])
        yield [
            Asked(
                Run(method, setting=setting, clients=20, seed=seed, settings=given, **protocol.options),
                out / f"{table}-{setting}" / f"{name}-{seed}",
            )
            for seed in protocol.seeds
        ]


def complete(asked: Asked) -> bool:
    return record.holds_run(asked.path) and record.read(asked.path).results["rounds"] == asked.run.rounds


def carry_out(asked: Asked) -> None:
    """Run it, or continue it; nothing where it is complete."""
    if complete(asked):
        return
    print(asked.path, file=sys.stderr, flush=True)
    run(asked.run, out=asked.path, resume=True)


class Cell(NamedTuple):
    """What a table says of a row in a setting."""

    bmta: Sequence[float]  # by seed
    collaborators: Sequence[float | None]  # by round, mean over seeds
    own: float | None  # silos that hold their own model in the end, mean over seeds, where they choose

    def __str__(self) -> str:
        spread = f" ± {statistics.stdev(self.bmta):.2f}" if len(self.bmta) > 1 else ""
        return f"{statistics.mean(self.bmta):.2f}{spread}"


def cell(out: Path, name: str, setting: str, row: str) -> Cell | None:
    """The best candidate; None where a run is missing."""
    candidates = list(runs(out, name, setting, row))
    if not all(complete(asked) for seeds in candidates for asked in seeds):
        return None

    def seen(seeds: Sequence[Asked]) -> Cell:
        records = [record.read(asked.path) for asked in seeds]
        by_round = zip(*([line["collaborators"] for line in one.lines] for one in records), strict=True)
        means = [None if None in numbers else statistics.mean(numbers) for numbers in by_round]
        held = [list(one.lines[-1]["holds"].values()) for one in records if one.lines[-1].get("holds")]
        own = statistics.mean(words.count("own") for words in held) if held else None
        return Cell([one.results["bmta"] or 0.0 for one in records], means, own)

    return max((seen(seeds) for seeds in candidates), key=lambda it: statistics.mean(it.bmta))


def among(seen: Cell) -> str:
    """The effective number of collaborators, round by round, and how many silos do not use them."""
    texts = [f"{number:.1f}" for number in seen.collaborators if number is not None]
    spans = [(text, len(list(same))) for text, same in itertools.groupby(texts)]
    listed = ", ".join(text if count == 1 else f"{text} x{count}" for text, count in spans)
    return listed if seen.own is None or not listed else f"{listed}; {seen.own:g} hold their own"


def table(out: Path, name: str) -> str:
    """BMTA by row and setting; below it the effective number of collaborators in every round."""
    cells = {row: [cell(out, name, setting, row) for setting in SETTINGS] for row in ROWS}
    cells = {row: them for row, them in cells.items() if any(them)}
    parts = []
    for title, show in ((f"{name}, BMTA %", str), ("collaborators by round", among)):
        parts += [f"| {title} | {' | '.join(SETTINGS)} |", "|---|" + "---|" * len(SETTINGS)]
        for row, them in cells.items():
            shown = ["" if it is None else show(it) for it in them]
            parts += [f"| {row} | {' | '.join(shown)} |"] if any(shown) else []
        parts.append("")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--out", type=Path, default=Path("runs/twin"))
    parser.add_argument("--print", action="store_true", help="run nothing, print what there is")
    asked = parser.parse_args()
    for name in asked.tables:
        wanted = [one for setting in SETTINGS for row in asked.rows for one in runs(asked.out, name, setting, row)]
        for one in () if asked.print else (one for seeds in zip(*wanted, strict=True) for one in seeds):
            carry_out(one)
        print(table(asked.out, name), flush=True)


if __name__ == "__main__":
    main()
