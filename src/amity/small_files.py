"""Small files that people write: read whole, and never more of them than a machine can bear.

Both TOML and JSON, as Python reads them, have whole numbers without an end. Whoever makes a float of one fails, and so
they are refused where texts are read.
"""

from __future__ import annotations

import errno
import json
import tomllib
from pathlib import Path
from typing import Any

from amity.finite import LARGEST, TOO_LARGE

MOST = 16 << 20
"""Bytes that options, schemas, kits and the like may have. A device or a pipe may have no end."""


def read_small(path: str | Path) -> bytes:
    """Return all that a small file holds; OSError for one that is no small file."""
    with Path(path).open("rb") as file:
        content = file.read(MOST + 1)
    if len(content) > MOST:
        raise OSError(errno.EFBIG, f"it has more than {MOST >> 20} MiB", str(path))
    return content


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table of a TOML text; ValueError for one with a whole number that no machine has."""
    table = tomllib.loads(text)
    _check(table)
    return table


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; ValueError for one with a whole number that no machine has."""
    return json.loads(text, parse_int=_whole)


def _whole(digits: str) -> int:
    if len(digits) > len(str(-LARGEST)) or abs(number := int(digits)) > LARGEST:
        raise ValueError(TOO_LARGE)
    return number


def _check(value: Any) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _check(one)
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(TOO_LARGE)
