"""Coding: the cells of one column become features, as its schema says."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from amity.data.schema import dates
from amity.data.schema.cells import MISSING, Column, Flags, Numbers, as_number, number_text
from amity.data.schema.column_schema import ColumnSchema

YES = ("yes", "y", "true", "t", "ja", "oui", "si", "sí")
NO = ("no", "n", "false", "f", "nein", "non")

_MONTH, _WEEKDAY = (6.5, 3.5), (3.0, 2.0)  # middle and about the deviation of 1 to 12, and of 0 to 6


class Misfit(ValueError):
    """Cells that a column's kind does not allow."""

    def __init__(self, rows: Flags, rule: str) -> None:
        super().__init__(rule)
        self.rows, self.rule = rows, rule


def coded(cells: Column, column: ColumnSchema) -> Iterator[Numbers]:
    """Yield the features of one column, one after the other.  # [n] each"""
    cells = _marked(cells, column)
    if column.kind == "category":
        yield from _categories(cells, column)
    elif column.kind == "date":
        yield from _dates(cells, column)
    else:
        if column.kind == "number":
            values, bad = cells.mapped(as_number)
            rule = "must be a number"
        else:
            values, bad = cells.mapped(yes_or_no)
            bad |= ~np.isnan(values) & (values != 0) & (values != 1)
            rule = "must be yes or no"
        if bad.any():
            raise Misfit(bad, rule)
        gap = np.isnan(values)
        yield (np.where(gap, column.fill, values) - column.centre) / column.scale
        if column.missing:
            yield gap.astype(np.float64)


def strange_words(cells: Column, column: ColumnSchema) -> dict[str, int]:
    """Return the words of a column of categories that are none of these, with the number of rows that have them."""
    if column.kind != "category":
        return {}
    cells = _marked(cells, column)
    codes, counts = np.unique(cells.numbers[np.isfinite(cells.numbers)], return_counts=True)
    found = {number_text(float(code)): int(count) for code, count in zip(codes, counts, strict=True)}
    return {word: count for word, count in (cells.used() | found).items() if word not in column.categories}


def _marked(cells: Column, column: ColumnSchema) -> Column:
    """Return the cells with the column's own marks for missing values taken for such."""
    if not column.marks or cells.places is None:
        return cells
    marks = [place for place, word in enumerate(cells.words) if word in column.marks]
    return cells._replace(places=np.where(np.isin(cells.places, marks), np.int32(MISSING), cells.places))


def yes_or_no(word: str) -> float | None:
    """Return 1 for yes, 0 for no, None for any other word."""
    return 1.0 if word in YES else 0.0 if word in NO else None


def _categories(cells: Column, column: ColumnSchema) -> Iterator[Numbers]:
    index = {category: float(place) for place, category in enumerate(column.categories)}
    unknown = float(len(index))
    values, _ = cells.mapped(lambda word: index.get(word, unknown))
    held = np.isfinite(cells.numbers)
    if held.any():  # codes such as 1, 2, 3
        distinct, which = np.unique(cells.numbers[held], return_inverse=True)
        values = values.copy()
        values[held] = np.array([index.get(number_text(float(one)), unknown) for one in distinct])[which]
    if not column.missing:
        values = np.where(np.isnan(values), unknown, values)
    for place in range(len(index) + column.other):
        yield (values == place).astype(np.float64)
    if column.missing:
        yield np.isnan(values).astype(np.float64)


def _dates(cells: Column, column: ColumnSchema) -> Iterator[Numbers]:
    days, bad = cells.mapped(lambda word: dates.days_of(word, column.order))
    bad = bad | np.isfinite(cells.numbers)
    if bad.any():
        raise Misfit(bad, f"must be a date ({date_rule(column.order)})")
    gap = np.isnan(days)
    for part in column.parts:
        if part == "days":
            yield (np.where(gap, column.fill, days) - column.centre) / column.scale
        else:
            of_day, (middle, spread) = (dates.month_of, _MONTH) if part == "month" else (dates.weekday_of, _WEEKDAY)
            known = np.array([middle if math.isnan(day) else of_day(day) for day in days.tolist()])
            yield (known - middle) / spread
    if column.missing:
        yield gap.astype(np.float64)


def date_rule(order: dates.Order) -> str:
    """Return how dates of an order are written."""
    return {"ymd": "2024-03-31", "dmy": "2024-03-31 or 31/03/2024", "mdy": "2024-03-31 or 03/31/2024"}[order]
