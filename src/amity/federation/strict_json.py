"""JSON that both sides read alike: one text for a value, and nothing accepted that could be read in two ways.

Reasons for a refusal are raised as ValueError, without any context: whoever asked knows which file or message it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from amity.finite import LARGEST, TOO_LARGE

DEEPEST = 8  # tables and lists inside each other


def canonical(value: Any) -> str:
    """Return the one text of a value: keys in order, no blanks, ASCII alone, floats by the shortest text that reads
    back as the same number."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read(text: str, most: int) -> Any:
    """Return the value of a JSON text of at most so many characters. Keys that come twice, NaN, infinity, numbers
    without an end and texts that could change what a terminal shows are refused."""
    if len(text) > most:
        raise ValueError(f"it has {len(text):,} characters, more than {most:,}")
    try:
        value = json.loads(text, object_pairs_hook=_table, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error})") from None
    check(value)
    return value


def check(value: Any, depth: int = 0) -> None:
    """Refuse a value that has no JSON text of its own, or one that another reader may take for something else."""
    if depth > DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"names are texts, got {key!r:.40}")
            check(key)
            check(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            check(item, depth + 1)
    elif isinstance(value, str):
        if not value.isprintable():
            raise ValueError(f"texts are of letters that can be seen, got {ascii(value):.60}")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("numbers are finite")
    elif isinstance(value, int):
        if abs(value) > LARGEST:
            raise ValueError(TOO_LARGE)
    elif value is not None:
        raise ValueError(f"{type(value).__name__} has no place in JSON")


def table(value: Any, keys: Iterable[str], what: str) -> dict[str, Any]:
    """Return a table that has exactly these keys."""
    wanted = set(keys)
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no table")
    if missing := sorted(wanted - value.keys()):
        raise ValueError(f"{what} lacks {', '.join(missing)}")
    if more := sorted(value.keys() - wanted):
        raise ValueError(f"{what} has the unknown {', '.join(more)[:200]}")
    return value


def of_type(value: Any, kind: type, what: str) -> Any:
    """Return a value that is exactly of this type: true is no number, and 1.0 is not whole."""
    if type(value) is not kind:
        raise ValueError(f"{what} is no {_CALLED[kind]}")
    return value


def texts(value: Any, what: str) -> tuple[str, ...]:
    """Return a list of texts."""
    return tuple(of_type(item, str, f"an entry of {what}") for item in of_type(value, list, what))


_CALLED = {str: "text", int: "whole number", float: "number", bool: "true or false", list: "list", dict: "table"}


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"{twice!r:.60} comes twice")
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")
