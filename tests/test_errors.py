"""The tree of errors: drawn in its module as it is, and every branch ends a command in one line."""

from __future__ import annotations

import errno
import inspect
import os
import re

import pytest

from amity import errors
from amity.errors import AmityError, DiskFull

BRANCH = re.compile(r"^    (?P<before>[│├└─ ]*)(?P<name>[A-Z]\w+)  +(?P<words>.+)$")


def drawn() -> dict[str, tuple[str | None, str]]:
    """Each class in the drawing, with the one that it hangs on and what is said about it."""
    found: dict[str, tuple[str | None, str]] = {}
    above: list[tuple[int, str]] = []
    for match in filter(None, map(BRANCH.match, (errors.__doc__ or "").splitlines())):
        depth, name = len(match["before"]), match["name"]
        while above and above[-1][0] >= depth:
            above.pop()
        found[name] = (above[-1][1] if above else None, match["words"])
        above.append((depth, name))
    return found


def defined() -> dict[str, type]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }


def test_the_drawing_and_the_module_have_the_same_classes() -> None:
    assert sorted(drawn()) == sorted(defined())
    assert len(defined()) >= 8


@pytest.mark.parametrize("name", defined())
def test_a_class_hangs_where_it_is_drawn(name: str) -> None:
    parent, words = drawn()[name]
    bases = {base.__name__ for base in defined()[name].__bases__} & defined().keys()
    assert (parent in bases) if parent else name == "AmityError"
    for other in bases - {parent}:
        assert other in words, "a second parent is told in words"


@pytest.mark.parametrize("name", defined())
def test_all_are_caught_as_one_and_explained(name: str) -> None:
    assert issubclass(defined()[name], AmityError)
    assert inspect.getdoc(defined()[name])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_line(number: int) -> None:
    full = DiskFull.from_system(OSError(number, os.strerror(number)))
    assert str(full) == f"there is no room to write ({os.strerror(number)}): make some, or write elsewhere"


def test_other_failures_of_the_system_are_not_a_full_disk() -> None:
    assert DiskFull.from_system(PermissionError(errno.EACCES, "no")) is None
    assert DiskFull.from_system(OSError("without a number")) is None
