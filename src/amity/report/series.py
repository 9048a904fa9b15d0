"""Series of runs that differ in their seed alone: one row of a table, one curve, one name."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from amity import statistics
from amity.record import Record
from amity.record.contents import Config, Number
from amity.statistics import Seeds

_OF_A_SEED = re.compile(r"seed-\d+")


class Series(NamedTuple):
    """A method's runs, one per seed; most often a single one."""

    name: str
    runs: tuple[Record, ...]

    @property
    def first(self) -> Record:
        """The run that pictures of a single run show."""
        return self.runs[0]

    @property
    def seeds(self) -> list[int]:
        """The seed of each run."""
        return [run.results["seed"] for run in self.runs]

    def over_seeds(self, key: Number) -> Seeds | None:
        """Return mean and deviation of a number of the summaries; None where no run has it."""
        values = [value for run in self.runs if (value := run.results[key]) is not None]
        return statistics.over_seeds(values) if values else None

    def scores(self) -> list[list[float]]:
        """Return the silos' scores with the models that were delivered.  # [seed][silo]"""
        return [[math.nan if v is None else v for v in run.results["per_client"]] for run in self.runs]

    @property
    def same_silos(self) -> bool:
        """Whether a silo of a name is the same one in every seed: natural ones and a user's own are.

        All others are dealt anew.
        """
        return self.first.results["setting"] in ("natural", "own")


def series_of(records: Sequence[Record]) -> list[Series]:
    """Return the runs in series, in the order of the first run of each.

    Two runs belong together if they have different seeds and either the same configuration otherwise, or lie side by
    side as `--seeds` leaves them: there what `auto` has become may follow the silos that a seed dealt.
    """
    found: list[list[Record]] = []
    for record in records:
        home = next((runs for runs in found if _belongs(record, runs)), None)
        if home is None:
            found.append(home := [])
        home.append(record)
    return [Series(name, tuple(runs)) for name, runs in zip(_names(found), found, strict=True)]


def same_tests(runs: Sequence[Record]) -> bool:
    """Return whether runs have the same silos with the same test data, as far as their records tell."""
    same = {(tuple(run.silos), run.results["data"], run.results["setting"]) for run in runs}
    tested = {run.facts.get("test_sha256") for run in runs} - {None}
    return len(same) == 1 and len(tested) <= 1


def same_examples(runs: Sequence[Record]) -> bool:
    """Return whether runs were tested on the same examples, wherever these lie; as far as records tell."""
    tested = {run.facts.get("test_sha256") for run in runs}
    return same_tests(runs) if None in tested else len(tested) <= 1


def _belongs(record: Record, runs: Sequence[Record]) -> bool:
    seeds = [run.results["seed"] for run in runs]
    if record.results["seed"] in seeds or record.results["method"] != runs[0].results["method"]:
        return False
    return _configuration(record) == _configuration(runs[0]) or _beside(record) == _beside(runs[0]) is not None


def _configuration(record: Record) -> tuple[str, ...]:
    """Return all that decides what comes out, but for the seed."""
    content: Config = {key: value for key, value in record.config.items() if key != "seed"}
    told = record.results
    options = json.dumps(content, sort_keys=True, default=str)
    return (options, told["data"], told["setting"], told["model"], *record.silos)


def _beside(record: Record) -> Path | None:
    path = record.path.resolve()
    return path.parent if _OF_A_SEED.fullmatch(path.name) else None


def _names(found: Sequence[Sequence[Record]]) -> list[str]:
    """Return a name for every series: its method, told apart by directory where a method occurs more than once.

    A series that has not come to its end says how far it has come.
    """
    methods = [runs[0].results["method"] for runs in found]
    paths = [_path(runs) for runs in found]
    named = []
    for method, path, runs in zip(methods, paths, found, strict=True):
        others = [other for name, other in zip(methods, paths, strict=True) if name == method]
        named.append((method if len(others) == 1 else _told_apart(method, path, others)) + _unfinished(runs))
    seen: Counter[str] = Counter()
    for position, name in enumerate(named):
        seen[name] += 1
        if seen[name] > 1:
            named[position] = f"{name} #{seen[name]}"
    return named


def _path(runs: Sequence[Record]) -> Path:
    """Return the directory that stands for a series: that of its run, or the one above those of its seeds."""
    path = runs[0].path.resolve()
    return path if len(runs) == 1 else path.parent


def _told_apart(method: str, path: Path, paths: Sequence[Path]) -> str:
    """Return as much of the end of its path as differs from that of every other directory, its method's name aside."""
    depth = 2 if path.name == method else 1
    while any(other.parts[-depth:] == path.parts[-depth:] for other in paths if other != path):
        depth += 1
    end = "/".join(path.parts[-depth:])
    return end if path.name == method else f"{method} ({end})"


def _unfinished(runs: Sequence[Record]) -> str:
    stopped = [run for run in runs if len(run.lines) < run.config.get("rounds", 0)]
    if not stopped:
        return ""
    if len(runs) > 1:
        return f" ({len(stopped)} of {len(runs)} seeds unfinished)"
    return f" ({len(runs[0].lines)} of {runs[0].config.get('rounds', 0)} rounds)"
