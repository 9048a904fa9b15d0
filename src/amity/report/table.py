"""Runs side by side: one row of numbers per run, for the terminal and for the HTML report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from amity import evaluate
from amity.record import Record

MB = 1e6

HEADINGS = {
    "method": "Method",
    "bmta": "BMTA %",
    "last": "Last %",
    "worst": "Worst %",
    "spread": "Spread",
    "block_score": "Block",
    "seconds": "Sec",
    "up": "MB up",
    "down": "MB down",
}


class Row(NamedTuple):
    """One run's results; None where there is nothing to tell."""

    method: str
    bmta: float | None  # best mean test accuracy over rounds
    last: float | None  # mean test accuracy of the last round
    worst: float | None  # at the best round, as are the spread and the accuracies behind it
    spread: float | None
    block_score: float | None
    seconds: float
    up: float
    down: float
    best: bool  # whether no other run has a higher BMTA


def labels(records: Sequence[Record]) -> list[str]:
    """A name for every run: its method, told apart by directory where a method occurs more than once."""
    methods = [str(record.results["method"]) for record in records]
    count = Counter(methods)
    named = [
        f"{method} ({record.path.resolve().name})" if count[method] > 1 else method
        for method, record in zip(methods, records, strict=True)
    ]
    seen: Counter[str] = Counter()
    for position, name in enumerate(named):
        seen[name] += 1
        if seen[name] > 1:
            named[position] = f"{name} #{seen[name]}"
    return named


def rows(records: Sequence[Record]) -> list[Row]:
    """The table's numbers."""
    top = max((record.results["bmta"] or 0.0 for record in records), default=0.0)
    return [_row(name, record, top) for name, record in zip(labels(records), records, strict=True)]


def _row(name: str, record: Record, top: float) -> Row:
    results = record.results
    spread = evaluate.spread([value for value in results["per_client"] if value is not None])
    return Row(
        method=name,
        bmta=results["bmta"],
        last=results["last"],
        worst=results["worst"],
        spread=None if math.isnan(spread) else spread,
        block_score=results["block_score"],
        seconds=results["seconds"],
        up=results["bytes_up"] / MB,
        down=results["bytes_down"] / MB,
        best=results["bmta"] is not None and results["bmta"] == top,
    )


def cells(row: Row) -> list[str]:
    """A row as text, in the order of `HEADINGS`."""
    accuracies = [_number(value, 2) for value in (row.bmta, row.last, row.worst, row.spread)]
    return [
        row.method,
        *accuracies,
        _score(row.block_score),
        *(_number(value, 1) for value in (row.seconds, row.up, row.down)),
    ]


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _score(value: float | None) -> str:
    # A perfect separation has a score of 1e12 or so: digits say nothing there.
    return ">10,000" if value is not None and value > 10_000 else _number(value, 2)


def compare_table(records: Sequence[Record]) -> Table:
    """A table for the terminal; the best BMTA is marked with a star."""
    caption = "* best mean test accuracy over rounds (BMTA); worst and spread at that round"
    table = Table(caption=caption, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for key, heading in HEADINGS.items():
        table.add_column(heading, justify="left" if key == "method" else "right", no_wrap=True)
    for row in rows(records):
        texts = cells(row)
        texts[1] += " *" if row.best else "  "
        style = "bold" if row.best else ""
        table.add_row(*(Text(text, style=style) for text in texts))  # Text: names are not markup
    return table
