"""The results of several runs together: each method's mean and deviation over seeds, in one JSON file for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

from amity import statistics
from amity.record.contents import Comparison, MethodResults, Number, OverSeeds, Results, Summary
from amity.record.files import replace, to_json, written_to
from amity.record.sharing import make_folder
from amity.statistics import RankTest
from amity.worth.contents import WorthView

RESULTS = "results.json"

NUMBERS: tuple[Number, ...] = get_args(Number)
"""The numbers of a summary that have a mean and a deviation over seeds, in the order of the file."""


def over_seeds(summaries: Sequence[Summary]) -> MethodResults:
    """Return one method's summaries together: for every number its mean, sample deviation and the values by seed.

    The deviation is null with one seed, and a number that no run has is null itself.
    """
    first = summaries[0]
    told = {"method": first["method"], "data": first["data"], "setting": first["setting"], "model": first["model"]}
    seeds = {"score": first["score"], "seeds": [summary["seed"] for summary in summaries]}
    numbers = {key: _over_seeds([summary[key] for summary in summaries]) for key in NUMBERS}
    return cast(MethodResults, {**told, **seeds, **numbers})


def _over_seeds(values: list[float | None]) -> OverSeeds | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    found = statistics.over_seeds(known)
    return {"mean": found.mean, "deviation": found.deviation, "values": values}


def write_results(
    folder: Path,
    methods: Mapping[str, Sequence[Summary]],
    tests: Mapping[str, RankTest | None] | None = None,
    worth: Sequence[WorthView] = (),
) -> Results:
    """Write `results.json`: every method's numbers over its seeds, and how surely it differs from the best one.

    A test has its p-value, after Holm's correction, and the least that so many silos can give; null for the best.
    `worth`: the verdicts on whether joining was worth it, where there are some.
    """
    content: Results = {
        "methods": {name: over_seeds(summaries) for name, summaries in methods.items()},
        "tests": None if tests is None else {name: _comparison(test) for name, test in tests.items()},
    }
    if worth:
        content["worth"] = list(worth)
    with written_to(folder):
        make_folder(folder)
        replace(folder / RESULTS, to_json(content, indent=1))
    return content


def _comparison(test: RankTest | None) -> Comparison | None:
    return None if test is None else {"p": test.p, "least": test.least, "zeros": test.zeros}
