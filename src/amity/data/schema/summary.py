"""A silo's summary of its own columns: all that leaves the silo so that a schema can be agreed on.

It is made from training rows alone. It tells, for each column: its name and place, how many rows have numbers, words
or nothing, mean and squared deviations of numbers (of dates: of days, with the months and weekdays seen), and words
that at least LEAST rows share, with their counts; so too whole numbers, where there are few different ones, for they
may be codes. No row, no rarer word, no smallest or largest number is in it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from amity.data.schema import dates
from amity.data.schema.cells import Column, Numbers, Table, number_text
from amity.data.schema.coding import yes_or_no

VERSION = 1
LEAST = 5  # rows of a silo that share a word before the silo names it to others
MOST = 50  # words of a column that a silo names
CODES = 20  # different whole numbers that may be names: 1, 2, 3, x


class DaysSummary(TypedDict):
    """Dates, read in one order of day and month."""

    mean: float  # days since the first of 2000
    squares: float
    months: list[int]
    weekdays: list[int]


class ColumnSummary(TypedDict):
    """One column of one silo."""

    place: int  # in the silo's tables
    missing: int  # rows without a value
    numbers: int  # rows with a number
    mean: float
    squares: float  # sum of squared deviations from the mean
    binary: bool  # no number but 0 and 1
    whole: bool  # no number with a fraction
    codes: bool  # and few different ones
    words: int  # rows with a word
    answers: bool  # every word means yes or no
    yes: int  # rows that mean yes, where words are answers and numbers 0 or 1
    named: dict[str, int]  # words and codes that at least LEAST rows have
    days: dict[str, DaysSummary]  # by order of day and month, for each order in which every word is a date
    slips: bool  # more than half of the words are dates, and not all of them
    constant: bool  # one value, or none
    unique: bool  # no value twice
    rising: bool  # numbers alone, which rise or fall from row to row


class Summary(TypedDict):
    """All columns of one silo."""

    version: int
    rows: int
    columns: dict[str, ColumnSummary]


def summarise(table: Table) -> Summary:
    """Return the summary of a silo's training rows."""
    columns = {name: _summary(cells, place) for place, (name, cells) in enumerate(table.columns.items())}
    return {"version": VERSION, "rows": table.rows, "columns": columns}


def encoded(summary: Summary) -> bytes:
    """Return a summary as the bytes that are sent; equal summaries have equal bytes."""
    return json.dumps(summary, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def decoded(content: bytes) -> Summary:
    """Return the summary in these bytes."""
    summary: Summary = json.loads(content)
    return summary


def _summary(cells: Column, place: int) -> ColumnSummary:
    numbers = cells.numbers[np.isfinite(cells.numbers)]
    words = cells.used()
    distinct, counts = np.unique(numbers, return_counts=True)
    count, different = sum(words.values()), len(distinct) + len(words)
    whole, binary = bool((numbers == np.floor(numbers)).all()), bool(np.isin(distinct, (0, 1)).all())
    codes = whole and len(distinct) <= CODES
    answers = all(yes_or_no(word) is not None for word in words)
    mean, squares = moments(numbers)
    days = {} if len(numbers) else _days(words)
    steps = np.diff(numbers)
    return {
        "place": place,
        "missing": len(cells.numbers) - len(numbers) - count,
        "numbers": len(numbers),
        "mean": mean,
        "squares": squares,
        "binary": binary,
        "whole": whole,
        "codes": codes,
        "words": count,
        "answers": answers,
        "yes": _yes(numbers, words) if answers and binary else 0,
        "named": named(words | _codes(distinct, counts) if codes else words),
        "days": days,
        "slips": bool(words) and not days and _mostly_dates(words),
        "constant": different <= 1,
        "unique": different == len(numbers) + count,
        "rising": len(numbers) > 0 and not words and bool((steps > 0).all() or (steps < 0).all()),
    }


def moments(numbers: Numbers, weights: Numbers | None = None) -> tuple[float, float]:
    """Return the mean of numbers and the sum of their squared deviations; 0 and 0 where there are none."""
    if not len(numbers):
        return 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.ones(len(numbers)) if weights is None else weights
        mean = float((numbers * weights).sum() / weights.sum())
        squares = float((weights * (numbers - mean) ** 2).sum())
    if not math.isfinite(squares):  # JSON has no infinity
        return float(np.nan_to_num(mean)), sys.float_info.max
    return mean, squares


def _yes(numbers: Numbers, words: Mapping[str, int]) -> int:
    return int((numbers == 1).sum()) + sum(count for word, count in words.items() if yes_or_no(word))


def _mostly_dates(words: Mapping[str, int]) -> bool:
    """True if more than half of the rows have a date: then the other words are slips."""
    dated = sum(n for word, n in words.items() if any(dates.days_of(word, order) is not None for order in dates.ORDERS))
    return 2 * dated > sum(words.values())


def _codes(distinct: Numbers, counts: npt.NDArray[np.int64]) -> dict[str, int]:
    return {number_text(float(one)): int(count) for one, count in zip(distinct, counts, strict=True)}


def named(words: Mapping[str, int]) -> dict[str, int]:
    """Return the words that enough rows share, the most frequent ones where there are too many."""
    often = sorted(((-count, word) for word, count in words.items() if count >= LEAST))
    return {word: -count for count, word in often[:MOST]}


def _days(words: Mapping[str, int]) -> dict[str, DaysSummary]:
    found: dict[str, DaysSummary] = {}
    for order in dates.ORDERS if words else ():
        days = [dates.days_of(word, order) for word in words]
        known = [day for day in days if day is not None]
        if len(known) < len(days):
            continue
        mean, squares = moments(np.array(known), np.array(list(words.values()), dtype=np.float64))
        found[order] = {
            "mean": mean,
            "squares": squares,
            "months": sorted({dates.month_of(day) for day in known}),
            "weekdays": sorted({dates.weekday_of(day) for day in known}),
        }
    return found
