"""Numbers out of files and messages that can be computed with.

JSON and TOML know whole numbers of any length, and one that no float holds breaks whatever computes with it.
"""

from __future__ import annotations

import sys

LARGEST = 2**63 - 1
"""The largest whole number in a text or a message."""

TOO_LARGE = f"a whole number has at most {len(str(LARGEST))} digits"


def is_finite(value: object) -> bool:
    """Return whether a value is a number, not true or false, and one that a float can hold."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max
