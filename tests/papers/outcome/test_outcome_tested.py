"""Each test example, packed and unpacked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.papers.outcome.tested import SHAPE, packed_silo, unpacked
from amity.record.shapes import fits


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_right_or_wrong_comes_back(right: list[bool]) -> None:
    kept = packed_silo(np.array(right), None)
    assert kept is not None and fits([kept, None], SHAPE)
    again = unpacked(kept)
    assert again is not None and again.dtype == bool and again.tolist() == right


def test_errors_come_back_with_their_r2() -> None:
    kept = packed_silo(np.array([0.5, -1.25]), 40.0)
    assert kept is not None and kept["r2"] == 40.0 and fits([kept], SHAPE)
    again = unpacked(kept)
    assert again is not None and again.tolist() == [0.5, -1.25]


def test_nothing_to_test_is_nothing() -> None:
    assert packed_silo(None, None) is None and packed_silo(np.array([], bool), None) is None
    failed = packed_silo(np.array([np.inf]), -np.inf)
    assert failed is not None and failed["r2"] is None


@pytest.mark.parametrize("text", ["", "not base64!", "AAAA"])
def test_a_damaged_text_is_unknown(text: str) -> None:
    assert unpacked({"examples": 100, "right": text, "errors": None, "r2": None}) is None
    assert unpacked({"examples": 100, "right": None, "errors": text, "r2": None}) is None
