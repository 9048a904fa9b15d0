"""What is wrong with a user's own data, collected, so that all of it is told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from amity.data.memory import TooLarge
from amity.errors import InputError, InputErrors, several

MOST = 40  # lines that are told

Key = TypeVar("Key")
Made = TypeVar("Made")


class Problems:
    """Lines, each about one thing that is wrong."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    def __bool__(self) -> bool:
        """True if something is wrong."""
        return bool(self._lines)

    def add(self, problem: InputError | str) -> None:
        """Add a problem; the lines of several ones stay apart."""
        lines = problem.lines if isinstance(problem, InputErrors) else [str(problem)]
        self._lines.update(dict.fromkeys(lines))

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect an error that is raised inside, unless there is no sense in looking further."""
        try:
            yield
        except TooLarge:
            raise
        except InputError as error:
            self.add(error)

    def each(self, keys: Iterable[Key], make: Callable[[Key], Made]) -> dict[Key, Made]:
        """Return what `make` makes of each key, without those that it refuses."""
        made: dict[Key, Made] = {}
        for key in keys:
            with self.collecting():
                made[key] = make(key)
        return made

    def check(self) -> None:
        """Raise one error for all that was collected, if anything was."""
        lines = list(self._lines)
        more = [f"and {len(lines) - MOST:,} problems more"] if len(lines) > MOST else []
        if lines:
            raise several([*lines[:MOST], *more])
