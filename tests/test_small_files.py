"""Texts that people and silos write: whole numbers that no machine has are refused where they are read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.finite import LARGEST
from amity.small_files import parse_json, parse_toml

values = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(values)
def test_json_is_read_as_ever(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    "number", [LARGEST + 1, -LARGEST - 1, 10**18 * 10, -(10**400)], ids=lambda n: f"{str(n)[:6]}..."
)
def test_a_number_without_an_end_is_refused(number: int) -> None:
    for text in (f"{number}", f'{{"a": [1, {{"b": {number}}}]}}'):
        with pytest.raises(ValueError, match="at most 19 digits"):
            parse_json(text)
    for text in (f"a = {number}", f"[a]\nb = [1, [{number}]]", f"[[a]]\nb = {{ c = {number} }}"):
        with pytest.raises(ValueError, match="at most 19 digits"):
            parse_toml(text)


def test_the_largest_numbers_are_read() -> None:
    assert parse_json(f"[{LARGEST}, {-LARGEST}, 007e3]".replace("007", "7")) == [LARGEST, -LARGEST, 7000.0]
    assert parse_toml(f"a = {LARGEST}\nb = true") == {"a": LARGEST, "b": True}
