"""A summary that came from another organisation, checked: it is trusted in no part."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from amity.data.schema.dates import ORDERS
from amity.data.schema.summary import MOST, VERSION, ColumnSummary, DaysSummary, Summary
from amity.errors import InputError
from amity.finite import is_finite
from amity.small_files import parse_json

LONGEST = 900_000
"""Characters of a summary: it travels in a message's header. A column takes a few hundred."""

LONGEST_NAME = 200
"""Characters of a column's name or of a word."""


def summary_text(summary: Summary) -> str:
    """Return a summary as the text that is sent; equal summaries have equal texts."""
    text = json.dumps(summary, sort_keys=True, separators=(",", ":"), allow_nan=False)
    if len(text) > LONGEST:
        count = len(summary["columns"])
        raise InputError(
            f"a summary has at most {LONGEST:,} characters, that of these {count:,} columns has {len(text):,}: leave "
            "columns out"
        )
    return text


def summary_of(text: str, least: int) -> Summary:
    """Return the summary in a text, in which no word is named that fewer than `least` rows share."""
    if len(text) > LONGEST:
        raise InputError(f"a summary has at most {LONGEST:,} characters, got {len(text):,}: leave columns out")
    try:
        content = parse_json(text)
        _table(content, Summary.__annotations__, "a summary")
        if content["version"] != VERSION or not _count(content["rows"]) or not isinstance(content["columns"], dict):
            raise ValueError("its version, rows or columns")
        for name, column in content["columns"].items():
            _check_column(name, column, content["rows"], least)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise InputError(f"what a silo has sent is no summary of columns ({error}): look at its version") from None
    found: Summary = content
    return found


def is_plain(word: str) -> bool:
    """Whether a word may stand in a summary and in a contract: not too long, of letters that can be seen."""
    return 1 <= len(word) <= LONGEST_NAME and word.isprintable()


def _check_column(name: str, column: Any, rows: int, least: int) -> None:
    if not is_plain(name):
        raise ValueError(f"the name of a column, {name!r:.60}")
    _table(column, ColumnSummary.__annotations__, "a column")
    for key, rule in _RULES.items():
        if not rule(column[key]):
            raise ValueError(f"{key} of a column")
    counts = column["missing"], column["numbers"], column["words"]
    if sum(counts) != rows or column["yes"] > rows or column["squares"] < 0:
        raise ValueError("counts of a column")
    if any(0 < count < least for count in (column["numbers"], column["words"])):
        raise ValueError(f"a column of which fewer than {least} rows are told")
    if len(column["named"]) > MOST or any(not _word(word, n, rows, least) for word, n in column["named"].items()):
        raise ValueError(f"words that fewer than {least} rows share, or too many of them")
    for order, days in column["days"].items():
        _table(days, DaysSummary.__annotations__, "dates")
        parts = (("months", 12), ("weekdays", 7))
        fit = all(isinstance(days[key], list) and len(days[key]) <= most for key, most in parts)
        if order not in ORDERS or not fit or not _number(days["mean"]) or not _number(days["squares"]):
            raise ValueError("dates of a column")
        if not all(_count(one) for key, _ in parts for one in days[key]) or days["squares"] < 0:
            raise ValueError("months or weekdays of a column")


def _word(word: str, count: Any, rows: int, least: int) -> bool:
    return is_plain(word) and _count(count) and least <= count <= rows


def _table(value: Any, keys: Mapping[str, Any], what: str) -> None:
    if not isinstance(value, dict) or value.keys() != keys.keys():
        raise ValueError(f"the keys of {what}")


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _number(value: Any) -> bool:
    return type(value) in (int, float) and is_finite(value)


def _flag(value: Any) -> bool:
    return type(value) is bool


def _dict(value: Any) -> bool:
    return isinstance(value, dict)


_RULES: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("place", "missing", "numbers", "words", "yes"), _count),
    **dict.fromkeys(("mean", "squares"), _number),
    **dict.fromkeys(("binary", "whole", "codes", "answers", "slips", "constant", "unique", "rising"), _flag),
    **dict.fromkeys(("named", "days"), _dict),
}
