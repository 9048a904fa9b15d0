"""Several seeds: what the command line and Python take for them, and where their runs lie."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from amity.errors import InputError

MOST_SEEDS = 1000


def seeds_of(text: str) -> list[int]:
    """Read seeds as the command line takes them: 0:5 for 0, 1, 2, 3, 4, or a list such as 0,3,7."""
    low, colon, high = text.partition(":")
    words = [word.strip() for word in ((low, high) if colon else text.split(","))]
    if all(word.isascii() and word.isdigit() and len(word) < 20 for word in words):
        numbers = [int(word) for word in words]
        if not colon:
            return checked_seeds(numbers)
        if 0 < numbers[1] - numbers[0] <= MOST_SEEDS:
            return list(range(*numbers))
    raise InputError(
        f"seeds needs FIRST:END, whole numbers of which END itself is left out, or a list, got {text!r}: "
        "try 0:5 or 0,1,2"
    )


def checked_seeds(seeds: Iterable[int]) -> list[int]:
    """Return the seeds as a list; refuse an empty one, and any seed that comes twice."""
    found = list(seeds)
    whole = all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in found)
    if not whole or not found or len(set(found)) < len(found) or len(found) > MOST_SEEDS:
        rule = f"seeds needs different whole numbers >= 0, from 1 to {MOST_SEEDS} of them"
        raise InputError(f"{rule}, got {found!r:.80}: try range(5)")
    return found


def seed_directory(parent: Path, seed: int) -> Path:
    """Return the directory of one seed's run, beside those of the other seeds."""
    return parent / f"seed-{seed}"
