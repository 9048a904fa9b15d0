"""Robust means: by hand on a few numbers, and what any few bad rows can do to them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from amity.learn.robust_means import MEANS, bad_rows, clip, krum, krum_choice, median, trimmed

ROWS = torch.tensor([[1.0, 10.0], [2.0, 30.0], [3.0, 20.0], [4.0, 60.0], [1000.0, -50.0]])


def test_the_median_of_each_column() -> None:
    assert median(ROWS).tolist() == [3.0, 20.0]
    assert median(ROWS[:4]).tolist() == [2.5, 25.0]  # of an even number, the mean of the middle two
    assert median(ROWS[:1]).tolist() == [1.0, 10.0]


def test_the_trimmed_mean_leaves_out_a_fifth_at_either_end() -> None:
    assert trimmed(ROWS).tolist() == [3.0, 20.0]  # of 2, 3, 4 and of 10, 20, 30
    assert trimmed(ROWS[:4]).tolist() == [2.5, 30.0]  # fewer than five: the mean


def test_krum_takes_the_rows_that_have_neighbours() -> None:
    rows = torch.tensor([[0.0], [1.0], [3.0], [7.0], [100.0]])  # f = 1: each row's two nearest count
    # squares: 0 -> 1 + 9, 1 -> 1 + 4, 3 -> 4 + 9, 7 -> 16 + 36, 100 -> 93^2 + 97^2: all but the last
    assert krum_choice(rows).tolist() == [0, 1, 2, 3]
    assert krum(rows).tolist() == [2.75]
    assert krum(rows[:4]).tolist() == [2.75]  # nobody may be bad: the mean


def test_clipping_shortens_what_is_far_from_the_median() -> None:
    rows = torch.tensor([[0.0], [1.0], [2.0], [3.0], [102.0]])
    # from 2: -2, -1, 0, 1, 100; the median of their lengths is 1: -1 - 1 + 0 + 1 + 1 = 0
    assert clip(rows).tolist() == [2.0]
    assert clip(torch.tensor([[0.0], [0.0], [6.0]])).tolist() == [0.0]  # most agree: nothing else counts
    assert clip(torch.tensor([[1.0, 2.0]])).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
def test_rows_that_agree_are_their_mean_in_their_own_type(mean: object) -> None:
    assert callable(mean)
    rows = torch.full((7, 3), 0.1)
    assert torch.equal(mean(rows), rows[0]) and mean(rows).dtype == torch.float32
    assert mean(torch.zeros(7, 0)).shape == (0,)


number = st.floats(-10, 10, width=32)
anything = st.floats(-1e15, 1e15, width=64)


@st.composite
def federations(draw: st.DrawFn) -> tuple[Tensor, int]:
    """Rows of which the first so many are honest, and the rest, at most a fifth of all, anything."""
    count, width = draw(st.integers(5, 16)), draw(st.integers(1, 3))
    bad = draw(st.integers(0, bad_rows(count)))
    honest = draw(
        st.lists(st.lists(number, min_size=width, max_size=width), min_size=count - bad, max_size=count - bad)
    )
    others = draw(st.lists(st.lists(anything, min_size=width, max_size=width), min_size=bad, max_size=bad))
    return torch.tensor(honest + others, dtype=torch.float64), count - bad


@given(federations())
def test_a_fifth_of_bad_rows_does_not_carry_the_result_out_of_the_honest_ones(made: tuple[Tensor, int]) -> None:
    """Median and trimmed mean stay between them, number by number. The others stay within a few of their spans: krum
    takes a row only if its n - f - 2 nearest, one of them honest, are as near as honest rows are to each other; clip
    goes from the median as far as the median row is."""
    rows, good = made
    honest = rows[:good]
    slack = 1e-9 * (1 + honest.abs().max())
    for mean in (median, trimmed):
        found = mean(rows)
        assert bool((found >= honest.amin(0) - slack).all() and (found <= honest.amax(0) + slack).all())
    span = float(torch.cdist(honest, honest).max())
    neighbours = len(rows) - bad_rows(len(rows)) - 2
    # distances are differences of squares: what is far away rounds what is near
    rounding = 1e-7 * float(rows.abs().max()) if good < len(rows) else 1e-6
    assert float((krum(rows) - honest[0]).norm()) <= (1 + math.sqrt(neighbours)) * span + rounding
    box = float((honest.amax(0) - honest.amin(0)).norm())
    assert float((clip(rows) - honest[0]).norm()) <= 2 * box + float(slack) + 1e-6


def test_one_far_row_moves_the_plain_mean_as_far_as_it_likes() -> None:
    """What the rules are for."""
    rows = torch.cat([torch.zeros(9, 2), torch.full((1, 2), 1e6)])
    assert float(rows.mean(0)[0]) == 1e5
    assert all(float(mean(rows).abs().max()) == 0 for mean in MEANS.values())
