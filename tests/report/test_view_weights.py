"""Weights packed for a page, and the orders in which they are shown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from amity.report.view_weights import clustered, kept_rounds, packed, unpacked, weights_of


@given(arrays(np.float64, (2, 3, 3), elements=st.floats(-5, 5) | st.just(float("nan"))))
def test_weights_come_back_to_a_hundred_thousandth_of_their_span(stack: np.ndarray) -> None:
    view = weights_of({1: stack[0], 2: stack[1]}, [0, 1, 2], 3, [None] * 3, 10**6)
    assert view is not None and view["rounds"] == [1, 2]
    back = unpacked(view, 3)
    assert (np.isnan(back) == np.isnan(stack)).all()
    span = view["high"] - view["low"]
    assert np.nanmax(np.abs(back - stack), initial=0.0) <= span / 65534 / 2 + 1e-12


def test_what_is_not_finite_is_undefined() -> None:
    low, high, codes = packed(np.array([[[1.0, np.inf], [np.nan, 3.0]]]))
    assert (low, high, codes.tolist()) == (1.0, 3.0, [[[0, 65535], [65535, 65534]]])
    assert packed(np.full((1, 1, 1), np.nan))[2].tolist() == [[[65535]]]
    assert packed(np.full((1, 1, 1), 0.25)) == (0.25, 0.25, np.zeros((1, 1, 1), dtype=np.uint16))


def test_a_run_with_fewer_silos_has_its_place_among_all() -> None:
    view = weights_of({4: np.array([[0.1, 0.9], [0.6, 0.4]])}, [2, 0], 3, [1, None, 0], 10**6)
    assert view is not None
    expected = [[0.4, np.nan, 0.6], [np.nan] * 3, [0.9, np.nan, 0.1]]
    assert unpacked(view, 3)[0] == pytest.approx(np.array(expected), abs=1e-4, nan_ok=True)
    assert view["given"] == [2, 0, 1]
    assert weights_of({}, [], 3, [None] * 3, 10**6) is None


def test_too_many_rounds_are_thinned_and_the_last_one_stays() -> None:
    each = 8 * 100 * 100 / 3
    assert kept_rounds(range(1, 91), 100, int(90 * each) + 1) == list(range(1, 91))
    few = kept_rounds(range(1, 91), 100, int(10 * each) + 1)
    assert len(few) == 10 and few[0] == 1 and few[-1] == 90 and few == sorted(few)
    assert kept_rounds(range(1, 91), 100, 0) == [90]


@given(st.permutations(range(9)))
def test_silos_that_listen_to_each_other_lie_side_by_side(order: list[int]) -> None:
    """Three groups of three, dealt in any order: each must come out in one piece."""
    group = np.array(order) % 3
    matrix = np.where(group[:, None] == group[None, :], 0.3, 0.02)
    np.fill_diagonal(matrix, 0.5)
    found = clustered(matrix)
    assert sorted(found) == list(range(9))
    assert sum(group[a] != group[b] for a, b in zip(found, found[1:], strict=False)) == 2


def test_the_order_of_strange_matrices_is_an_order() -> None:
    assert clustered(np.full((4, 4), np.nan)) and sorted(clustered(np.full((4, 4), np.nan))) == [0, 1, 2, 3]
    assert clustered(np.array([[1.0]])) == [0] and clustered(np.zeros((0, 0))) == []
    assert sorted(clustered(np.eye(3))) == [0, 1, 2]
