"""The table of a view: a row of numbers for each method, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence

from amity import statistics
from amity.config.references import REFERENCES
from amity.metric import METRICS
from amity.record import Record
from amity.record.results import NUMBERS
from amity.report.contents import MethodView, OverSeeds
from amity.report.series import Series
from amity.report.table import headings, main_score, p_values, probability, rows, work
from amity.report.view_course import finite
from amity.statistics import RankTest, Seeds

KEYS = {"up": "bytes_up", "down": "bytes_down"}
"""Columns of the table whose number has another name in a summary."""


def methods_of(series: Sequence[Series], records: Sequence[Record]) -> list[MethodView]:
    """Return a row for each method. `runs` are places in the order of the series, seed by seed."""
    best = [row.best for row in rows(records)]
    tests = p_values(records) or [None] * len(series)
    first = 0
    found = []
    for place, one in enumerate(series):
        leads = best[place] and len(series) > 1
        found.append(_method(one, tests[place], leads, list(range(first, first + len(one.runs)))))
        first += len(one.runs)
    return found


def _method(one: Series, test: RankTest | None, best: bool, runs: list[int]) -> MethodView:
    told = one.first.results
    metrics = [(run.results["metrics"] or {}).get("delivered") or {} for run in one.runs]
    names = dict.fromkeys(name for each in metrics for name in each)
    clouds = [cloud["mean"] for run in one.runs if (cloud := run.results.get("cloud"))]
    return {
        "name": one.name,
        "method": told["method"],
        "seeds": one.seeds,
        "numbers": {key: _over_seeds(one.over_seeds(key)) for key in NUMBERS},
        "chosen_by": told["chosen_by"],
        "metrics": {name: _mean([each.get(name) for each in metrics]) for name in names},
        "cloud": _mean(clouds),
        "best": best,
        "level": None if test is None else not test.clear,
        "p": probability(test),
        "reference": told["method"] in REFERENCES,
        "runs": runs,
    }


def _mean(values: Sequence[float | None]) -> OverSeeds | None:
    known = [value for value in values if value is not None]
    return _over_seeds(statistics.over_seeds(known)) if known else None


def _over_seeds(value: Seeds | None) -> OverSeeds | None:
    return None if value is None else {"mean": finite(value.mean), "deviation": finite(value.deviation)}


def columns_of(records: Sequence[Record]) -> dict[str, str]:
    """Return the heading of each column of numbers, by the number's name in a summary."""
    return {KEYS.get(key, key): title for key, title in headings(records).items() if key != "method"}


def remarks_of(records: Sequence[Record]) -> list[str]:
    """Return sentences on how to read the table."""
    main = METRICS[main_score(records)].title
    remarks = [
        f"Delivered is the mean test {main} of the models that are saved: those of the round that validation data "
        "chose, where silos have some, else of the last round. Worst silo and spread (standard deviation over silos) "
        "are theirs."
    ]
    if main_score(records) == "r2":
        remarks.append(
            "R² is the share of the variance of a silo's test labels that its model explains: 100 % is perfect, 0 % as "
            "good as their mean, less is worse."
        )
    papers = "BMTA, the best mean test accuracy over rounds, is what papers report: it"
    if main_score(records) != "accuracy":
        papers = "The best mean over rounds"
    remarks.append(f"{papers} chooses its round on the test data, so nobody can count on it.")
    if any(record.results["block_score"] is not None for record in records):
        remarks.append("Block is the mean weight within groups of alike silos over the mean weight between them.")
    if p_values(records) is not None:
        remarks.append(
            "p: could the difference from the best method be chance? Wilcoxon's signed-rank test over silos with the "
            "models that either delivers, Holm-adjusted for the number of methods. Methods that it cannot tell from "
            "the best one are level with it."
        )
    return [*remarks, *(f"{text}." for text in work(records))]
