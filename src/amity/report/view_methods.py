"""The table of a view: a row of numbers for each method, and how to read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amity import statistics
from amity.config.references import REFERENCES
from amity.metric import METRICS
from amity.record import Record
from amity.record.results import NUMBERS
from amity.report.contents import MethodView, OverSeeds, WorthView
from amity.report.series import Series
from amity.report.table import headings, main_score, p_values, probability, rows, work
from amity.report.view_course import finite
from amity.statistics import RankTest, Seeds
from amity.worth.consortium import WRONG

SHARES = {"recovered": "Gain recovered %", "harmed": "Harmed %"}
"""Columns of the two numbers of `amity.worth.recovered`."""

KEYS = {"up": "bytes_up", "down": "bytes_down"}
"""Columns of the table whose number has another name in a summary."""


def methods_of(series: Sequence[Series], records: Sequence[Record], worth: Sequence[WorthView]) -> list[MethodView]:
    """Return a row for each method. `runs` are places in the order of the series, seed by seed."""
    shares = {view["method"]: _shares(view) for view in worth}
    best = [row.best for row in rows(records)]
    tests = p_values(records) or [None] * len(series)
    first = 0
    found = []
    for place, one in enumerate(series):
        leads = best[place] and len(series) > 1
        row = _method(one, tests[place], leads, list(range(first, first + len(one.runs))))
        row["numbers"] |= shares.get(one.name, dict.fromkeys(SHARES))
        found.append(row)
        first += len(one.runs)
    return found


def _shares(view: WorthView) -> dict[str, OverSeeds | None]:
    """Return the two numbers of a method, which are of all its seeds together."""
    told = {"recovered": view.get("recovered"), "harmed": view.get("harmed")}
    return {
        key: None if one is None or one["share"] is None else {"mean": one["share"], "deviation": None}
        for key, one in told.items()
    }


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


def columns_of(records: Sequence[Record], worth: Sequence[WorthView]) -> dict[str, str]:
    """Return the heading of each column of numbers, by the number's name in a summary.

    The two numbers of methods stand behind their mean score, where there are runs to make them from.
    """
    titles = {KEYS.get(key, key): title for key, title in headings(records).items() if key != "method"}
    own = {key: title for key, title in SHARES.items() if any(key in view for view in worth)}
    return {"delivered": titles["delivered"], **own, **titles}


def remarks_of(records: Sequence[Record], worth: Sequence[WorthView] = ()) -> list[str]:
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
    remarks += list(_on_shares(worth))
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


def _on_shares(worth: Sequence[WorthView]) -> Iterator[str]:
    """Yield what the two numbers of methods mean, and why one is not there."""
    shares = [share for view in worth if (share := view.get("recovered"))]
    if shares:
        yield (
            "Gain recovered is (method - alone) / (pooled - alone) of mean scores over silos, all trained out "
            "(--ending auto): 0 % is training alone, 100 % all data in one place, each silo then going on with its own."
        )
        yield from dict.fromkeys(f"{_sentence(share['words'])}." for share in shares if share["share"] is None)
    if any("harmed" in view for view in worth):
        yield (
            f"Harmed is the share of silos that are better alone, by their own test examples; chance alone would give "
            f"up to {100 * WRONG:g} %."
        )


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]
