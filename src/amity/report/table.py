"""Runs side by side: one row of numbers per run, for the terminal and for the HTML report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from amity import evaluate
from amity.contract import InputError
from amity.metrics import TITLES, UNITS
from amity.record import Record, score_of

MB = 1e6
LONG = 1e6  # from here on a number's size says more than its digits

HEADINGS = {
    "method": "Method",
    "best_mean": "BMTA %",
    "last": "Last %",
    "worst": "Worst %",
    "spread": "Spread",
    "block_score": "Block",
    "seconds": "Sec",
    "up": "MB up",
    "down": "MB down",
}


DISPENSABLE = ("down", "up", "seconds", "block_score")
"""What a narrow terminal does without, in this order."""

QUANTITIES = {"best_mean": "Best R² %", "last": "Last R² %", "worst": "Worst R² %"}
"""Headings in place of those above, where labels are quantities."""


def headings(records: Sequence[Record]) -> dict[str, str]:
    return HEADINGS if main_score(records) == "accuracy" else {**HEADINGS, **QUANTITIES}


def main_score(records: Sequence[Record]) -> str:
    """What the runs are compared by; they must have that in common."""
    names = {score_of(record.facts) for record in records}
    if len(names) > 1:
        raise InputError("runs on classes and runs on quantities have no score in common: report them apart")
    return names.pop() if names else "accuracy"


class Row(NamedTuple):
    """One run's results; None where there is nothing to tell."""

    method: str
    best_mean: float | None  # best mean score over rounds: of accuracies, the BMTA
    last: float | None  # mean score of the last round
    worst: float | None  # at the best round, as are the spread and the scores behind it
    spread: float | None
    block_score: float | None
    seconds: float
    up: float
    down: float
    best: bool  # whether no other run has a higher best mean


def labels(records: Sequence[Record]) -> list[str]:
    """A name for every run: its method, told apart by directory where a method occurs more than once; and how far it
    has come, if not to its end."""
    methods = [str(record.results["method"]) for record in records]
    paths = [record.path.resolve() for record in records]
    named = []
    for method, path, record in zip(methods, paths, records, strict=True):
        others = [other for name, other in zip(methods, paths, strict=True) if name == method]
        named.append((method if len(others) == 1 else _told_apart(method, path, others)) + _unfinished(record))
    seen: Counter[str] = Counter()
    for position, name in enumerate(named):
        seen[name] += 1
        if seen[name] > 1:
            named[position] = f"{name} #{seen[name]}"
    return named


def _told_apart(method: str, path: Path, paths: Sequence[Path]) -> str:
    """By as much of the end of its path as differs from that of every other directory, its method's name aside."""
    depth = 2 if path.name == method else 1
    while any(other.parts[-depth:] == path.parts[-depth:] for other in paths if other != path):
        depth += 1
    end = "/".join(path.parts[-depth:])
    return end if path.name == method else f"{method} ({end})"


def _unfinished(record: Record) -> str:
    wanted = record.config.get("rounds", 0)
    return f" ({len(record.lines)} of {wanted} rounds)" if len(record.lines) < wanted else ""


def rows(records: Sequence[Record]) -> list[Row]:
    """The table's numbers."""
    means = [mean for record in records if (mean := best_mean(record)) is not None]
    top = max(means, default=None)
    return [_row(name, record, top) for name, record in zip(labels(records), records, strict=True)]


def best_mean(record: Record) -> float | None:
    """Records of earlier versions have a BMTA alone."""
    mean: float | None = record.results.get("best", record.results["bmta"])
    return mean


def _row(name: str, record: Record, top: float | None) -> Row:
    results = record.results
    spread = evaluate.spread([value for value in results["per_client"] if value is not None])
    return Row(
        method=name,
        best_mean=best_mean(record),
        last=results["last"],
        worst=results["worst"],
        spread=None if math.isnan(spread) or best_mean(record) is None else spread,
        block_score=results["block_score"],
        seconds=results["seconds"],
        up=results["bytes_up"] / MB,
        down=results["bytes_down"] / MB,
        best=top is not None and best_mean(record) == top,
    )


def p_values(records: Sequence[Record]) -> list[float | None] | None:
    """Does a run differ from the best one over silos? Wilcoxon at either's best round, adjusted after Holm.

    None for the best run itself, and where nothing was evaluated; no list where runs are not of the same silos, with
    the same test data as far as records tell.
    """
    same = {(tuple(r.silos), *(r.results[key] for key in ("data", "setting", "seed"))) for r in records}
    tested = {r.facts["test_sha256"] for r in records if r.facts.get("test_sha256") is not None}
    means = [best_mean(record) for record in records]
    known = [mean for mean in means if mean is not None]
    if len(same) != 1 or len(tested) > 1 or len(known) < 2:
        return None
    best = means.index(max(known))
    scores = [[math.nan if value is None else value for value in record.results["per_client"]] for record in records]
    tests = [
        math.nan if place == best or means[place] is None else evaluate.wilcoxon(own, scores[best]).p
        for place, own in enumerate(scores)
    ]
    return [None if math.isnan(p) else p for p in evaluate.holm(tests)]


def cells(row: Row) -> list[str]:
    """A row as text, in the order of `HEADINGS`."""
    scores = [number(value, 2) for value in (row.best_mean, row.last, row.worst, row.spread)]
    return [
        row.method,
        *scores,
        _score(row.block_score),
        *(number(value, 1) for value in (row.seconds, row.up, row.down)),
    ]


def metric_heading(name: str) -> str:
    title = TITLES[name]
    return title[0].upper() + title[1:] + ("" if name in UNITS else " %")


def number(value: float | None, digits: int) -> str:
    if value is None:
        return "–"
    return f"{value:,.{digits}f}" if abs(value) < LONG else f"{value:.3g}"


def probability(value: float | None) -> str:
    return "< 0.0001" if value is not None and value < 1e-4 else number(value, 4)


def _score(value: float | None) -> str:
    # A perfect separation has a score of 1e12 or so: digits say nothing there.
    return ">10,000" if value is not None and value > 10_000 else number(value, 2)


def compare_table(records: Sequence[Record], width: int | None = None) -> Table:
    """A table for the terminal; the best mean is marked with a star. Columns go where the width does not suffice for
    all of them, names and scores never."""
    keys = list(headings(records))
    table = _table(records, keys)
    for key in DISPENSABLE:
        if width is None or table_width(table) <= width:
            break
        keys.remove(key)
        table = _table(records, keys)
    return table


def table_width(table: Table) -> int:
    """How many characters wide it is, if nothing is cut off."""
    return Console(width=10_000).measure(table).maximum


def _table(records: Sequence[Record], keys: Sequence[str]) -> Table:
    what = "test accuracy over rounds (BMTA)" if main_score(records) == "accuracy" else "R² on test data over rounds"
    caption = f"* best mean {what}; worst and spread at that round"
    table = Table(caption=caption, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    titles = headings(records)
    for key in keys:
        table.add_column(titles[key], justify="left" if key == "method" else "right", no_wrap=True)
    for row in rows(records):
        texts = dict(zip(titles, cells(row), strict=True))
        texts["best_mean"] += " *" if row.best else "  "
        style = "bold" if row.best else ""
        table.add_row(*(Text(texts[key], style=style) for key in keys))  # Text: names are not markup
    return table
