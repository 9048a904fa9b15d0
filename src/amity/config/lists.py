"""Options that hold more than one value, written as text: a span LO:HI, a list of names."""

from __future__ import annotations

import csv

from amity.errors import InputError


def span_of(text: str) -> tuple[int, int]:
    """Return the two whole numbers of LO:HI."""
    low, colon, high = text.partition(":")
    if colon and all(part.isascii() and part.strip().isdigit() for part in (low, high)):
        low, high = (part.strip().lstrip("0")[:20] or "0" for part in (low, high))  # what is too large is refused later
        return int(low), int(high)
    raise InputError(f"local_epochs_range needs LO:HI, two whole numbers, got {text!r}: try 1:9")


def names_of_columns(text: str) -> tuple[str, ...]:
    """Return the names in a comma list, which is written like a line of a csv file."""
    try:
        found = tuple(name.strip() for row in csv.reader([text], skipinitialspace=True, strict=True) for name in row)
    except csv.Error as error:
        raise InputError(
            f'drop_column needs names with commas between, got {text!r} ({error}): try id,name or "a, b",id'
        ) from None
    if not found:
        raise InputError(f"drop_column needs names of columns, got {text!r}: try id,name, or none")
    return found
