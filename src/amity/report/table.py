"""Methods side by side: one row of numbers each, over its seeds, for the terminal and for the HTML report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from amity import statistics
from amity.errors import InputError
from amity.metric import ACCURACY, METRICS, Metric
from amity.record import Record, score_of
from amity.record.contents import MainScore, Number
from amity.report.series import Series, same_examples, same_tests, series_of
from amity.statistics import RankTest, Seeds

MB = 1e6
LONG = 1e6  # from here on a number's size says more than its digits

HEADINGS = {
    "method": "Method",
    "delivered": "Delivered %",
    "worst": "Worst %",
    "spread": "Spread",
    "last": "Last %",
    "best_on_test": "BMTA %",
    "block_score": "Block",
    "seconds": "Sec",
    "up": "MB up",
    "down": "MB down",
}


DISPENSABLE = ("down", "up", "seconds", "block_score")
"""Columns dropped first on narrow terminals, in this order."""

SCORES = {"delivered": "Delivered", "worst": "Worst", "last": "Last", "best_on_test": "Best on test"}
"""Headings of scores where these are no accuracies: the metric's title and unit follow."""


def headings(records: Sequence[Record]) -> dict[str, str]:
    """Return the headings of the table's columns. The last round has one only where another round is delivered."""
    metric = METRICS[main_score(records)]
    named = {key: f"{words} {metric.short} {metric.unit}".rstrip() for key, words in SCORES.items()}
    found = HEADINGS if metric.key == "accuracy" else {**HEADINGS, **named}
    chosen = any(record.results["chosen_by"] == "validation" for record in records)
    return {key: title for key, title in found.items() if key != "last" or chosen}


def main_score(records: Sequence[Record]) -> MainScore:
    """Return the score that runs are compared by; refuse runs that have none in common."""
    names = {score_of(record.facts) for record in records}
    if len({METRICS[name].labels for name in names}) > 1:
        raise InputError("runs on classes and runs on quantities have no score in common: report them apart")
    if len(names) > 1:
        titles = " and ".join(METRICS[name].title for name in METRICS if name in names)
        raise InputError(f"runs that are scored by {titles} have no score in common: report them apart")
    return names.pop() if names else "accuracy"


class Row(NamedTuple):
    """One method's results: mean and deviation over its seeds; None where there is nothing to tell."""

    method: str
    delivered: Seeds | None  # mean score of the models that are delivered
    worst: Seeds | None  # the worst silo's, with these models, as is the spread
    spread: Seeds | None
    last: Seeds | None  # mean score of the last round
    best_on_test: Seeds | None  # the best mean over rounds, chosen on test data: of accuracies, the BMTA
    block_score: Seeds | None
    seconds: Seeds | None
    up: Seeds | None  # MB
    down: Seeds | None
    best: bool  # no other method's delivered models have a better mean, where means can be compared


def rows(records: Sequence[Record]) -> list[Row]:
    """Return the table's numbers, a row for the runs of a method."""
    series = series_of(records)
    means = [found.mean for one in series if (found := one.over_seeds("delivered")) is not None]
    top = METRICS[main_score(records)].best(means) if means and not no_best(records) else None
    return [_row(one, top) for one in series]


def _row(series: Series, top: float | None) -> Row:
    delivered = series.over_seeds("delivered")
    sent = {"up": series.over_seeds("bytes_up"), "down": series.over_seeds("bytes_down")}
    told: tuple[Number, ...] = ("worst", "spread", "last", "best_on_test", "block_score", "seconds")
    return Row(
        method=series.name,
        delivered=delivered,
        **{key: series.over_seeds(key) for key in told},
        **{key: value and Seeds(value.mean / MB, value.deviation / MB) for key, value in sent.items()},
        best=top is not None and delivered is not None and delivered.mean == top,
    )


def no_best(records: Sequence[Record]) -> str:
    """Return why none of these runs can be called the best; an empty text where their scores can be compared."""
    by_seed: dict[int, list[Record]] = {}
    for record in records:
        by_seed.setdefault(record.results["seed"], []).append(record)
    if all(same_examples(runs) for runs in by_seed.values()):
        return ""
    return (
        "These runs were not tested on the same examples: their scores cannot be compared, and none is called the best"
    )


def p_values(records: Sequence[Record]) -> list[RankTest | None] | None:
    """Return whether each method differs from the best one over silos: Wilcoxon's test, Holm-adjusted.

    It compares the delivered models, over the seeds that both methods have. None for the best method itself, and where
    nothing was evaluated; no list where runs are not of the same silos, with the same test data as far as records tell.
    """
    series = series_of(records)
    means = [one.over_seeds("delivered") for one in series]
    known = [found.mean for found in means if found is not None]
    if not _comparable(series) or len(known) < 2:
        return None
    top = METRICS[main_score(records)].best(known)
    best = next(place for place, found in enumerate(means) if found is not None and found.mean == top)
    others = [place for place, found in enumerate(means) if place != best and found is not None]
    tests = statistics.family([_against(series[place], series[best]) for place in others])
    found = dict(zip(others, tests, strict=True))
    return [found.get(place) for place in range(len(series))]


def _against(one: Series, other: Series) -> RankTest:
    common = [seed for seed in one.seeds if seed in other.seeds]
    a, b = ([scores for seed, scores in zip(s.seeds, s.scores(), strict=True) if seed in common] for s in (one, other))
    return statistics.wilcoxon(*statistics.paired_over_seeds(a, b, one.same_silos))


def _comparable(series: Sequence[Series]) -> bool:
    """Return whether all have the same seeds, and in each of them the same silos with the same tests."""
    if len({tuple(sorted(one.seeds)) for one in series}) != 1:
        return False
    for seed in series[0].seeds:
        runs = [run for one in series for run in one.runs if run.results["seed"] == seed]
        if not same_tests(runs):
            return False
    return True


def cells(row: Row, keys: Iterable[str], metric: Metric = ACCURACY) -> list[str]:
    """Return a row as text, in the order of these headings; scores as their metric is read."""
    texts = {"method": row.method, "block_score": _score(row.block_score)}
    for key in ("seconds", "up", "down"):  # whose deviation over seeds nobody asks for
        value = getattr(row, key)
        texts[key] = number(None if value is None else value.mean, 1)
    for key in ("delivered", "worst", "spread", "last", "best_on_test"):
        texts[key] = seeds(getattr(row, key), 2) if metric.unit else _significant(getattr(row, key))
    return [texts[key] for key in keys]


def seeds(value: Seeds | None, digits: int) -> str:
    """Return the mean as text, with the deviation where there are several seeds."""
    if value is None:
        return "–"
    deviation = "" if math.isnan(value.deviation) else f" ± {number(value.deviation, digits)}"
    return number(value.mean, digits) + deviation


def _significant(value: Seeds | None) -> str:
    """Return a score in the labels' own unit, which may be of any size."""
    if value is None:
        return "–"
    return f"{value.mean:.4g}" + ("" if math.isnan(value.deviation) else f" ± {value.deviation:.2g}")


def metric_heading(name: str) -> str:
    """Return a column's heading for a metric."""
    return METRICS[name].heading


def number(value: float | None, digits: int) -> str:
    """Return a number as text; of a very large one, its size."""
    if value is None:
        return "–"
    return f"{value:,.{digits}f}" if abs(value) < LONG else f"{value:.3g}"


def probability(test: RankTest | None) -> str:
    """Return a p-value as text, or that there are too few silos for one that says something."""
    return "–" if test is None else str(test)


def _score(value: Seeds | None) -> str:
    # A perfect separation has a score of 1e12 or so: digits say nothing there.
    return ">10,000" if value is not None and value.mean > 10_000 else seeds(value, 2)


def compare_table(records: Sequence[Record], width: int | None = None) -> Table:
    """Return a table for the terminal; the best mean of what is delivered is marked with a star.

    Columns go where the width does not suffice for all of them, names and scores never.
    """
    keys = list(headings(records))
    table = _table(records, keys)
    for key in DISPENSABLE:
        if width is None or table_width(table) <= width:
            break
        keys.remove(key)
        table = _table(records, keys)
    return table


def table_width(table: Table) -> int:
    """Return how many characters wide a table is, if nothing is cut off."""
    return Console(width=10_000).measure(table).maximum


def _table(records: Sequence[Record], keys: Sequence[str]) -> Table:
    table = Table(caption=_caption(records), box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    titles = headings(records)
    for key in keys:
        table.add_column(titles[key], justify="left" if key == "method" else "right", no_wrap=True)
    for row in rows(records):
        texts = dict(zip(keys, cells(row, keys, METRICS[main_score(records)]), strict=True))
        texts["delivered"] += " *" if row.best else "  "
        style = "bold" if row.best else ""
        table.add_row(*(Text(texts[key], style=style) for key in keys))  # Text: names are not markup
    return table


def _caption(records: Sequence[Record]) -> str:
    main = METRICS[main_score(records)].title
    chosen = {record.results["chosen_by"] for record in records}
    how = {"validation": "of the round that validation data chose", "last round": "of the last round"}
    which = " or ".join(text for key, text in how.items() if key in chosen) or "of the last round"
    several = max((len(one.runs) for one in series_of(records)), default=1)
    over = f"; mean ± deviation over {several} seeds" if several > 1 else ""
    papers = "BMTA" if main_score(records) == "accuracy" else "Best on test"
    why = no_best(records)
    begin = f"{why}. Delivered is the mean test {main}" if why else f"* best mean test {main}"
    return (
        f"{begin} of the models that are delivered, {which}; worst and spread are theirs{over}. "
        f"{papers}, the best round on test data, is what papers report" + "".join(f". {text}" for text in work(records))
    )


def work(records: Sequence[Record]) -> list[str]:
    """Return a sentence on rows whose models have trained more often than those of others; none where all are equal."""
    ahead = {one.name: one.first.facts.get("trainings_ahead", 0.0) for one in series_of(records)}
    least = min(ahead.values(), default=0.0)
    more = [name for name, value in ahead.items() if value > least]
    if not more:
        return []
    return [
        f"Unequal work: models of {', '.join(more)} are trained once more before every evaluation, the others' are not "
        "(fedavg-local of a round more is fine-tuned FedAvg at equal work)"
    ]
