"""Shapes that follow from types: what fits them, and what does not."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict, get_args

import pytest

from amity.federation.events import Event
from amity.record.contents import EventLine, Facts, FactsFile, MethodResults, Number, Subject, Summary
from amity.record.shapes import MAYBE, NUMBER, Each, OneOf, fits, shape_of
from amity.record.summary import LATER_KEYS, SUMMARY_FACTS


class Inner(TypedDict):
    name: str


class Outer(TypedDict):
    whole: int
    number: float
    maybe: float | None
    scores: list[float | None]
    named: dict[str, int]
    inner: list[Inner] | None
    word: Literal["a", "b"]
    later: NotRequired[str | None]


GOOD: dict[str, Any] = {
    "whole": 1,
    "number": 1,
    "maybe": None,
    "scores": [1.5, None, 2],
    "named": {"x": 3},
    "inner": [{"name": "x", "more": 1}],
    "word": "b",
}


def test_the_shape_of_a_type() -> None:
    assert shape_of(Outer) == {
        "whole": int,
        "number": NUMBER,
        "maybe": MAYBE,
        "scores": [MAYBE],
        "named": Each(int),
        "inner": ([{"name": str}], type(None)),
        "word": OneOf(("a", "b")),
        "?later": frozenset({str, type(None)}),
    }
    with pytest.raises(TypeError, match="no shape is known for"):
        shape_of(tuple[int, ...])


@pytest.mark.parametrize("change", [{}, {"number": 0.5}, {"inner": None}, {"later": None}, {"later": "x"}, {"new": []}])
def test_what_fits(change: dict[str, Any]) -> None:
    assert fits({**GOOD, **change}, shape_of(Outer))


@pytest.mark.parametrize(
    "change",
    [
        {"whole": 1.0},
        {"whole": True},
        {"number": None},
        {"number": "1"},
        {"scores": [True]},
        {"scores": None},
        {"named": {"x": None}},
        {"inner": [{}]},
        {"word": "c"},
        {"word": 1},
        {"later": 1},
    ],
)
def test_what_does_not_fit(change: dict[str, Any]) -> None:
    assert not fits({**GOOD, **change}, shape_of(Outer))


@pytest.mark.parametrize("key", GOOD)
def test_what_is_missing_does_not_fit(key: str) -> None:
    assert not fits({other: value for other, value in GOOD.items() if other != key}, shape_of(Outer))


def test_keys_that_belong_together_do() -> None:
    """Types that repeat each other's keys: an event's fields, the numbers over seeds, the facts of a summary."""
    assert tuple(EventLine.__annotations__) == Event._fields
    assert set(get_args(Number)) <= set(MethodResults.__annotations__) & set(Summary.__annotations__)
    assert set(SUMMARY_FACTS) == set(Subject.__annotations__) <= set(Summary.__annotations__)
    assert set(FactsFile.__annotations__) - set(Facts.__annotations__) == {"silos"}
    optional = {key.removeprefix("?") for key in shape_of(Summary) if key.startswith("?")}
    assert optional >= LATER_KEYS  # an earlier version did not write them, and is read all the same
