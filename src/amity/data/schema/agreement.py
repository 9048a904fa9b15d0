"""Agreeing on a schema: the summaries of all silos become one. The order of silos does not matter, and a silo without
rows changes nothing; sums are exact, so that not even the last bit depends on it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from amity.data.schema.column_schema import OTHER, ColumnSchema, DatePart, Kind
from amity.data.schema.dates import ORDERS, Order
from amity.data.schema.summary import LEAST, MOST, ColumnSummary, DaysSummary, Summary
from amity.data.schema.table_schema import TableSchema

Scaling = Literal["auto", "none"]
"""auto: numbers less their mean over their deviation, over the training rows of all silos; none: as they are."""

MANY = 10  # values of a column that are no accident if all differ
_ID = re.compile(r"(.*[ _.-])?(ids|nr|no|num|number|key|uuid|mrn|index)|.*id", re.IGNORECASE)


class Conflict(NamedTuple):
    """A column that silos do not fill with the same kind of thing."""

    column: str
    rule: str
    silos: tuple[str, ...]  # one for each of the kinds


class Agreement(NamedTuple):
    """The schema that silos agree on, with what has to be decided by people."""

    schema: TableSchema
    conflicts: tuple[Conflict, ...]
    missing: Mapping[str, float]  # column -> share of training rows without a value
    doubts: tuple[str, ...]  # columns of whole numbers that all differ, and may be ids


class _Silos(NamedTuple):
    """One column at all silos that have rows."""

    name: str
    own: Mapping[str, ColumnSummary]

    def total(self, key: Literal["missing", "numbers", "words"]) -> int:
        return sum(one[key] for one in self.own.values())

    def having(self, key: Literal["numbers", "words"]) -> list[ColumnSummary]:
        return [one for one in self.own.values() if one[key]]

    @property
    def valued(self) -> list[ColumnSummary]:
        return [one for one in self.own.values() if one["numbers"] + one["words"]]

    def dated(self, wanted: bool) -> str:
        return min(silo for silo, one in self.own.items() if one["words"] and bool(one["days"]) == wanted)

    def without(self, order: Order) -> str:
        return min(silo for silo, one in self.own.items() if one["words"] and order not in one["days"])

    def first(self, key: Literal["numbers", "words"]) -> str:
        return min(silo for silo, one in self.own.items() if one[key])

    def largest(self) -> str:
        return max(sorted(self.own), key=lambda silo: (self.own[silo]["squares"], abs(self.own[silo]["mean"])))


def agree(label: str, summaries: Mapping[str, Summary], scaling: Scaling = "auto", least: int = LEAST) -> Agreement:
    """Return the schema that these summaries make, by silo. `least`: rows that shared a word that they name."""
    silos = {name: one for name, one in summaries.items() if one["rows"]}
    columns: dict[str, dict[str, ColumnSummary]] = {}
    for silo, summary in silos.items():
        for name, column_summary in summary["columns"].items():
            columns.setdefault(name, {})[silo] = column_summary
    places = {name: sum(one["place"] for one in every.values()) / len(every) for name, every in columns.items()}
    ordered = sorted(columns, key=lambda name: (places[name], name))
    rows = sum(one["rows"] for one in silos.values())
    found, conflicts, doubts = list[ColumnSchema](), list[Conflict](), list[str]()
    for name in ordered:
        own = _Silos(name, columns[name])
        column = _column(own, scaling, least)
        if isinstance(column, Conflict):
            conflicts.append(column)
            column = ColumnSchema(name, "unclear", why=column.rule)
        elif column.kind == "number" and _may_be_id(own):
            doubts.append(name)
        found.append(column)
    missing = {name: _Silos(name, every).total("missing") / max(rows, 1) for name, every in columns.items()}
    return Agreement(TableSchema(label, tuple(found)), tuple(conflicts), missing, tuple(doubts))


def _column(own: _Silos, scaling: Scaling, least: int) -> ColumnSchema | Conflict:
    """Return what a column is, over all silos."""
    valued, name = own.valued, own.name
    if not valued:
        return ColumnSchema(name, "empty", why="no silo has a value")
    if all(one["constant"] for one in valued) and not own.total("missing"):
        return ColumnSchema(name, "constant", why="the same in all rows of each silo, whichever silo it is")
    if _is_id(own):
        return ColumnSchema(name, "id", why="a different value in each row, as an id has")
    kind = _kind(own)
    if isinstance(kind, Conflict):
        return kind
    gaps = own.total("missing") > 0
    if kind == "number":
        mean, deviation = pooled([(one["numbers"], one["mean"], one["squares"]) for one in own.having("numbers")])
        if not math.isfinite(deviation):
            return Conflict(name, "has numbers too large to be squared: use a larger unit", (own.largest(),))
        centre, scale = (mean, deviation or 1.0) if scaling == "auto" else (0.0, 1.0)
        return ColumnSchema(name, kind, centre=centre, scale=scale, fill=mean, missing=gaps)
    if kind == "yes/no":
        share = sum(one["yes"] for one in valued) / (own.total("numbers") + own.total("words"))
        return ColumnSchema(name, kind, fill=share, missing=gaps)
    return _date(own, gaps, scaling) if kind == "date" else _category(own, gaps, least)


def _kind(own: _Silos) -> Kind | Conflict:
    numbers, words = own.having("numbers"), own.having("words")
    if not words:
        return "yes/no" if all(one["binary"] for one in numbers) else "number"
    if all(one["answers"] for one in words) and all(one["binary"] for one in numbers):
        return "yes/no"
    if slips := [silo for silo, one in own.own.items() if one["slips"]]:
        return Conflict(own.name, "has dates and other words", (min(slips),))
    if numbers and not _are_words(own):
        both = [silo for silo, one in own.own.items() if one["numbers"] and one["words"]]
        if both:
            return Conflict(own.name, "has numbers and other words", (min(both),))
        rule = "has numbers at one silo and words at another"
        return Conflict(own.name, rule, (own.first("numbers"), own.first("words")))
    dated = [bool(one["days"]) for one in words]
    if all(dated):
        return "date"
    if any(dated):
        silos = (own.dated(True), own.dated(False))
        return Conflict(own.name, "has dates at one silo and other words at another", silos)
    return "category"


def _are_words(own: _Silos) -> bool:
    """True for numbers that are words among words.

    They are a few whole ones everywhere, and some silo has both, as in 0, 1, 2, 3+; or every silo has more words.
    """
    numbers = own.having("numbers")
    codes = all(one["codes"] for one in numbers) and any(one["words"] for one in numbers)
    return codes or all(one["numbers"] < one["words"] for one in numbers)


def _is_id(own: _Silos) -> bool:
    """True for words that never repeat, and for whole numbers that count the rows or are called an id."""
    valued, numbers = own.valued, own.having("numbers")
    if not all(one["unique"] and not one["days"] and not one["slips"] for one in valued):
        return False
    if max(one["numbers"] + one["words"] for one in valued) < MANY:
        return False
    if not numbers and own.total("missing"):
        return False  # remarks that not everybody has
    counted = all(one["whole"] and one["rising"] for one in numbers)
    return counted or bool(_ID.fullmatch(own.name)) and all(one["whole"] for one in numbers)


def _may_be_id(own: _Silos) -> bool:
    most = max(one["numbers"] for one in own.valued)
    return most >= 2 * MANY and all(one["unique"] and one["whole"] for one in own.valued)


def pooled(parts: Sequence[tuple[int, float, float]]) -> tuple[float, float]:
    """Return mean and deviation of all silos' numbers, from count, mean and squares of each."""
    count = sum(n for n, _, _ in parts)
    try:
        mean = math.fsum(n * mean for n, mean, _ in parts) / count
        squares = math.fsum([*(own for _, _, own in parts), *(n * (one - mean) ** 2 for n, one, _ in parts)])
    except (OverflowError, ValueError):
        return 0.0, math.inf
    return mean, math.sqrt(squares / count)


def _date(own: _Silos, gaps: bool, scaling: Scaling) -> ColumnSchema | Conflict:
    words = own.having("words")
    orders: list[Order] = [order for order in ORDERS if all(order in one["days"] for one in words)]
    if not orders:
        rule = "has the day first at one silo and the month first at another"
        return Conflict(own.name, rule, (own.without("mdy"), own.without("dmy")))
    if "ymd" not in orders and len(orders) == 2 and any(one["days"]["dmy"] != one["days"]["mdy"] for one in words):
        rule = "has dates of which nobody can say whether day or month comes first"
        return Conflict(own.name, rule, (own.first("words"),))
    order = orders[0]
    days: list[DaysSummary] = [one["days"][order] for one in words]
    pairs = zip(words, days, strict=True)
    mean, deviation = pooled([(one["words"], day["mean"], day["squares"]) for one, day in pairs])
    centre, scale = (mean, deviation or 1.0) if scaling == "auto" else (0.0, 1.0)
    parts: list[DatePart] = ["days"]
    if len({month for day in days for month in day["months"]}) > 1:
        parts.append("month")
    if len({weekday for day in days for weekday in day["weekdays"]}) > 1:
        parts.append("weekday")
    return ColumnSchema(
        own.name, "date", centre=centre, scale=scale, fill=mean, missing=gaps, order=order, parts=tuple(parts)
    )


def _category(own: _Silos, gaps: bool, least: int) -> ColumnSchema:
    counts: Counter[str] = Counter()
    for one in own.having("words"):
        counts.update(one["named"])
    counts.pop(OTHER, None)  # which is what the feature for all others is called
    kept = sorted(counts, key=lambda word: (-counts[word], word))[:MOST]
    total = own.total("words") + own.total("numbers")
    rest = total - sum(counts[word] for word in kept)
    if not kept or 2 * rest > total:
        why = f"text: fewer than half of its rows have a word that {least} rows of a silo share"
        return ColumnSchema(own.name, "text", why=why)
    return ColumnSchema(own.name, "category", categories=tuple(sorted(kept)), other=rest > 0, missing=gaps)
