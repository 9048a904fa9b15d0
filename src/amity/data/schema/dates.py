"""Dates as people write them: 2024-03-31, 2024/03/31, 31.03.2024, and 31/03/2024 or 03/31/2024 by a known order."""

from __future__ import annotations

import re
from datetime import date
from typing import Literal

Order = Literal["ymd", "dmy", "mdy"]
ORDERS: tuple[Order, ...] = ("ymd", "dmy", "mdy")
"""ymd: the year comes first everywhere; dmy, mdy: dates with the year last have the day or the month first."""

EPOCH = date(2000, 1, 1)  # from which days are counted
_END = (date.max - EPOCH).days + 1

_TIME = r"(?:[t ]+(\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d+)?)?\s*(?:z|utc|[+-]\d\d:?\d\d)?)?"
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})" + _TIME, re.ASCII | re.IGNORECASE)
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})" + _TIME, re.ASCII | re.IGNORECASE)


def days_of(word: str, order: Order) -> float | None:
    """Return the days from the first of 2000 to a date, with the time of day as a fraction; None: it is no date."""
    if match := _YEAR_FIRST.fullmatch(word):
        year, _, month, day, *clock = match.groups()
    elif order != "ymd" and (match := _YEAR_LAST.fullmatch(word)):
        first, sign, second, year, *clock = match.groups()
        if order == "mdy" and sign == ".":
            return None  # nobody writes 03.31.2024
        day, month = (first, second) if order == "dmy" else (second, first)
    else:
        return None
    try:
        days = (date(int(year), int(month), int(day)) - EPOCH).days
    except ValueError:
        return None
    hours, minutes, seconds = (int(part or 0) for part in clock)
    if hours > 24 or minutes > 59 or seconds > 60:
        return None
    found = days + (hours * 3600 + minutes * 60 + seconds) / 86400
    return found if found < _END else None  # 9999-12-31 24:00 is on no calendar


def month_of(days: float) -> int:
    """Return the month of a day that is counted from the first of 2000, from 1 to 12."""
    return date.fromordinal(EPOCH.toordinal() + int(days // 1)).month


def weekday_of(days: float) -> int:
    """Return the day of the week, from 0 for Monday to 6."""
    return date.fromordinal(EPOCH.toordinal() + int(days // 1)).weekday()
