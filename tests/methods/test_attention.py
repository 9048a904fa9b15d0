"""The pure functions from similarities to mixing matrices. Expected numbers are worked out beside each."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import near
from torch import Tensor

from amity.methods._attention import (
    ATTRACTIONS,
    above_quantile,
    gradient_step,
    group_self_weight,
    largest_step,
    mcp,
    negexp,
    pseudo_huber,
    scad,
    shares,
    top_k,
)

each_function = pytest.mark.parametrize("function", ATTRACTIONS)
sigmas = st.floats(1e-3, 1e3)
times = st.one_of(st.floats(0, 6), st.sampled_from([0.0, 1.0, 3.0, 3.7]))  # s = t / sigma, with the kinks of A'


def matrix(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


@st.composite
def squares(draw: st.DrawFn, entry: st.SearchStrategy[float], least: int = 1) -> Tensor:
    count = draw(st.integers(least, 6))
    row = st.lists(entry, min_size=count, max_size=count)
    return torch.tensor(draw(st.lists(row, min_size=count, max_size=count)), dtype=torch.float64)


@each_function
@given(sigma=sigmas)
def test_definition_1_zero_at_zero_with_a_finite_positive_slope(function: str, sigma: float) -> None:
    kernel = ATTRACTIONS[function](sigma)
    assert kernel.value(number(0.0)) == 0
    expected = 1 / (2 * math.sqrt(sigma)) if function == "pseudo_huber" else 1 / sigma
    assert kernel.slope(number(0.0)).item() == pytest.approx(expected, rel=1e-12)


@each_function
@given(sigma=sigmas, one=times, other=times)
def test_definition_1_increasing_and_concave_with_the_slope_as_derivative(
    function: str, sigma: float, one: float, other: float
) -> None:
    # A is increasing and concave with derivative A' just when every chord is squeezed between the slopes at its ends:
    # 0 <= A'(t) (t - s) <= A(t) - A(s) <= A'(s) (t - s) for s <= t.
    kernel = ATTRACTIONS[function](sigma)
    s, t = number(sigma * min(one, other)), number(sigma * max(one, other))
    rise, span = kernel.value(t) - kernel.value(s), t - s
    slack = 1e-14 * (kernel.value(t) + 1 + math.sqrt(sigma))
    assert 0 <= kernel.slope(t) * span <= rise + slack
    assert rise <= kernel.slope(s) * span + slack


@each_function
@given(sigma=sigmas, at=times.filter(lambda s: s > 1e-2))
def test_definition_1_continuously_differentiable(function: str, sigma: float, at: float) -> None:
    # Central differences meet the slope also at the kinks of A', where it is continuous but not differentiable.
    kernel = ATTRACTIONS[function](sigma)
    t, h = number(sigma * at), 1e-6 * sigma
    difference = (kernel.value(t + h) - kernel.value(t - h)) / (2 * h)
    unit = kernel.slope(number(0.0))
    assert abs(difference - kernel.slope(t)) <= 1e-5 * unit
    assert abs(kernel.slope(t + h) - kernel.slope(t - h)) <= 1e-5 * unit


def test_attraction_values_by_hand() -> None:
    t = torch.tensor([0.0, 2.0, 4.0, 12.0], dtype=torch.float64)
    assert near(negexp(2.0).value(t), 1 - torch.exp(-t / 2))
    # sqrt(t + 4) - 2, slope 1 / (2 sqrt(t + 4))
    assert near(pseudo_huber(4.0).value(t), matrix([0, math.sqrt(6) - 2, math.sqrt(8) - 2, 2])[0])
    assert near(pseudo_huber(4.0).slope(t)[3], number(1 / 8))
    # s = 0, 1, 2, 6 and gamma 3: s - s^2/6 = 0, 5/6, 4/3, then 3/2 for good; slope (1 - s/3)/2
    assert near(mcp(2.0).value(t), matrix([0, 5 / 6, 4 / 3, 3 / 2])[0])
    assert near(mcp(2.0).slope(t), matrix([1 / 2, 1 / 3, 1 / 6, 0])[0])
    # a = 3: 1 at s = 1; (2*3*2 - 4 - 1)/4 = 7/4 at s = 2; (3 + 1)/2 beyond; slope 1, 1, (3 - 2)/2, 0, by sigma = 2
    assert near(scad(2.0, 3.0).value(t), matrix([0, 1, 7 / 4, 2])[0])
    assert near(scad(2.0, 3.0).slope(t), matrix([1 / 2, 1 / 2, 1 / 4, 0])[0])


def test_log_slopes_outlive_the_underflow_of_slopes() -> None:
    far = torch.tensor([1e6, 1e6 + 1], dtype=torch.float64)
    assert negexp(1.0).slope(far).tolist() == [0, 0]
    assert negexp(1.0).log_slope(far).tolist() == [-1e6, -1e6 - 1]


@given(logits=squares(st.floats(-800, 800)), own=st.floats(0, 1))
def test_shares_are_rows_of_a_softmax(logits: Tensor, own: float) -> None:
    free = shares(logits, None)
    assert (free >= 0).all() and near(free.sum(1), torch.ones(len(free), dtype=torch.float64))
    fixed = shares(logits, torch.full((len(logits),), own, dtype=torch.float64))
    assert (fixed >= 0).all() and near(fixed.sum(1), torch.ones(len(free), dtype=torch.float64))
    if len(logits) > 1:
        assert torch.equal(fixed.diagonal(), torch.full((len(logits),), own, dtype=torch.float64))


def test_shares_by_hand() -> None:
    logits = matrix([0, 1, 2], [1, 0, 0], [3, 3, 3]) * math.log(2)
    assert near(shares(logits, None), matrix([1 / 7, 2 / 7, 4 / 7], [1 / 2, 1 / 4, 1 / 4], [1 / 3] * 3))
    own = torch.tensor([0.25, 0.0, 1.0])
    assert near(shares(logits, own), matrix([0.25, 0.25, 0.5], [2 / 3, 0, 1 / 3], [0, 0, 1]))


def test_shares_compare_what_underflows() -> None:
    logits = matrix([0, -1e6, -1e6 - math.log(3)], [-1e6, 0, -1e9], [-1e9, -1e9, 0])
    expected = matrix([0.5, 3 / 8, 1 / 8], [0.5, 0.5, 0], [0.25, 0.25, 0.5])
    assert near(shares(logits, torch.full((3,), 0.5)), expected, 1e-9)  # 1e6 has an ulp of 1e-10
    assert torch.equal(shares(logits, None), torch.eye(3, dtype=torch.float64))


def test_shares_of_a_row_whose_others_weigh_nothing_stay_with_itself() -> None:
    none = -math.inf
    logits = matrix([0, none, none], [none, 0, 0], [none, 0, 0])
    assert torch.equal(shares(logits, torch.full((3,), 0.25)), matrix([1, 0, 0], [0, 0.25, 0.75], [0, 0.75, 0.25]))
    assert torch.equal(shares(logits, None)[0], matrix([1, 0, 0])[0])
    assert torch.equal(shares(matrix([5.0]), torch.zeros(1)), matrix([1.0]))


def test_group_self_weight_by_hand() -> None:
    # N_i: 2, 2, 2, 0 others of the same group; 3, 3, 3, 1 when i itself is counted.
    groups = torch.tensor([7, 7, 7, 1])
    assert near(group_self_weight(groups), matrix([1 / 3, 1 / 3, 1 / 3, 1])[0])
    assert near(group_self_weight(groups, counts_self=True), matrix([1 / 4, 1 / 4, 1 / 4, 1 / 2])[0])


def test_gradient_step_by_hand() -> None:
    slopes = matrix([9, 1, 2], [1, 9, 3], [2, 3, 9])
    given_slopes = slopes.clone()
    assert near(gradient_step(slopes, 0.1), matrix([0.7, 0.1, 0.2], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5]))
    # The third row has the largest sum, 5.
    assert largest_step(slopes) == pytest.approx(0.2)
    assert largest_step(slopes, least_self=0.5) == pytest.approx(0.1)
    assert torch.equal(slopes, given_slopes)


def test_the_largest_step_of_a_pool_without_slopes_is_unbounded() -> None:
    assert largest_step(torch.zeros(3, 3)) == math.inf
    assert largest_step(torch.ones(1, 1)) == math.inf


@given(slopes=squares(st.floats(0.01, 10), least=2), least=st.floats(0, 0.9))
def test_the_largest_step_leaves_the_least_self_weight(slopes: Tensor, least: float) -> None:
    own = gradient_step(slopes, largest_step(slopes, least)).diagonal()
    assert own.min().item() == pytest.approx(least, abs=1e-12)


ROW = matrix([0.1, 0.2, 0.3, 0.4])  # as row 0 of a matrix: the own weight is the smallest


@pytest.mark.parametrize(
    ("own", "renormalise", "expected"),
    [
        ("always", "all", [1 / 5, 0, 0, 4 / 5]),  # 0.1 and 0.4 of 0.5
        ("always", "others", [0.1, 0, 0, 0.9]),
        ("always", "to_self", [0.6, 0, 0, 0.4]),
        ("always", "none", [0.1, 0, 0, 0.4]),
        ("compete", "all", [0, 0, 3 / 7, 4 / 7]),
        ("compete", "none", [0, 0, 0.3, 0.4]),
        ("extra", "all", [1 / 8, 0, 3 / 8, 4 / 8]),
        ("extra", "others", [0.1, 0, 0.9 * 3 / 7, 0.9 * 4 / 7]),
        ("extra", "to_self", [0.3, 0, 0.3, 0.4]),
        ("extra", "none", [0.1, 0, 0.3, 0.4]),
    ],
)
def test_top_2_by_hand(own: Any, renormalise: Any, expected: list[float]) -> None:
    weights = torch.cat([ROW, torch.eye(4, dtype=torch.float64)[1:]])
    before = weights.clone()
    kept = top_k(weights, 2, torch.arange(4), own=own, renormalise=renormalise)
    assert near(kept[0], matrix(expected)[0])
    assert torch.equal(weights, before)


def test_top_k_others_keeps_itself_whole_when_nobody_else_is_kept() -> None:
    weights = matrix([0.5, 0.5], [0.2, 0.8])
    assert torch.equal(top_k(weights, 1, torch.arange(2), renormalise="others"), torch.eye(2, dtype=torch.float64))


@given(order=st.permutations(range(5)))
def test_top_k_ties_go_to_whoever_is_first_in_the_order(order: list[int]) -> None:
    weights = torch.full((5, 5), 0.2, dtype=torch.float64)
    kept = top_k(weights, 3, torch.tensor(order))
    for client in range(5):
        first = [other for other in order if other != client][:2]
        assert set(kept[client].nonzero()[:, 0].tolist()) == {client, *first}
    kept = top_k(weights, 3, torch.tensor(order), own="compete")
    assert set(kept[0].nonzero()[:, 0].tolist()) == set(order[:3])


COSINES = matrix([1, 0.6, -0.2], [0.6, 1, 0.3], [-0.2, 0.3, 1])


@pytest.mark.parametrize(
    ("options", "parts"),  # rows before they are divided by their sums
    [
        # In order: -0.2 -0.2 0.3 0.3 0.6 0.6 1 1 1, the median is 0.6 and must be exceeded.
        ({"p": 0.5}, [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        # Place 8 p = 3.5 lies half way between 0.3 and 0.6.
        ({"p": 0.4375}, [[10, 6, 0], [6, 10, 0], [0, 0, 1]]),
        # Without the diagonal -0.2 -0.2 0.3 0.3 0.6 0.6: the median is 0.3.
        ({"p": 0.5, "over": "offdiag"}, [[10, 6, 0], [6, 10, 0], [0, 0, 1]]),
        ({"p": 0.0}, [[10, 6, 0], [6, 10, 3], [0, 3, 10]]),
        ({"p": None}, [[10, 6, 0], [6, 10, 3], [0, 3, 10]]),
        ({"p": None, "negative": "raw"}, [[10, 6, -2], [6, 10, 3], [-2, 3, 10]]),
        # (s + 1)/2: 1, 0.8, 0.4; 0.8, 1, 0.65; 0.4, 0.65, 1
        ({"p": None, "negative": "shift"}, [[20, 16, 8], [16, 20, 13], [8, 13, 20]]),
        ({"p": 0.0, "negative": "shift"}, [[20, 16, 0], [16, 20, 13], [0, 13, 20]]),
    ],
)
def test_above_quantile_by_hand(options: dict[str, Any], parts: list[list[float]]) -> None:
    given_cosines = COSINES.clone()
    expected = matrix(*parts)
    assert near(above_quantile(COSINES, **options), expected / expected.sum(1, keepdim=True))
    assert torch.equal(COSINES, given_cosines)


def test_above_quantile_of_one_client() -> None:
    for over in ("all", "offdiag"):
        assert torch.equal(above_quantile(matrix([1.0]), 0.5, over=over), matrix([1.0]))
