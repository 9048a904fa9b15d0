"""FedACS: the invariants ACS-1 to ACS-7 of the specification, and rounds by hand.

The method ships clipped cosines and keeps each client itself; the other readings are arguments of `above_quantile`.
ANGLES has cosines 0.6 (clients 0, 1), 0 (0, 2) and 0.8 (1, 2).
"""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from methods.points import ask, client_at, draws, holding, message, models, point, sent_by, turn, vector
from small import flat, near, run
from torch import Tensor

from amity.contract import Solver
from amity.learn.train import train
from amity.learn.vectors import cosines
from amity.methods._attention import above_quantile
from amity.methods.fedacs import FedACS
from amity.methods.separate import Separate

ANGLES = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)

quantiles = st.one_of(st.just("none"), st.floats(0, 1))


def scattered(count: int, seed: int = 0) -> Tensor:
    """Random models: all cosines differ."""
    return torch.randn(count, 6, generator=draws("models", seed), dtype=torch.float64)


def eye(count: int) -> Tensor:
    return torch.eye(count, dtype=torch.float64)


@given(w=models(), p=quantiles, damping=st.floats(0.01, 1))
def test_acs_1_weights_are_not_negative_and_sum_to_one(w: Tensor, p: Any, damping: float) -> None:
    weights = ask(FedACS(p=p, damping=damping), w).weights
    assert (weights >= 0).all() and (weights.diagonal() > 0).all()
    assert near(weights.sum(1), torch.ones(len(w), dtype=torch.float64))


@given(w=models())
def test_acs_2_without_a_quantile_all_are_kept_by_their_clipped_cosines(w: Tensor) -> None:
    unit = w / w.norm(dim=1, keepdim=True).clamp(min=1e-12)
    clipped = (unit @ unit.T).fill_diagonal_(1).clamp(min=0)
    clipped[clipped < 1e-14] = 0
    assert near(ask(FedACS(p="none"), w).weights, clipped / clipped.sum(1, keepdim=True))


def test_acs_2_the_zero_quantile_drops_the_smallest_pair() -> None:
    similar = cosines(scattered(10))
    kept = above_quantile(similar, 0.0, negative="shift")
    assert kept.count_nonzero() == 98
    low = divmod(int(similar.argmin()), 10)
    assert kept[low] == kept[low[::-1]] == 0
    assert above_quantile(similar, None, negative="shift").count_nonzero() == 100


@pytest.mark.parametrize("count", [3, 7, 15])  # n/(n + 1) and its place n^2 - n in the order are exact numbers
def test_acs_3_the_threshold_reaches_one_from_n_over_n_plus_1(count: int) -> None:
    similar = cosines(scattered(count))
    edge = count / (count + 1)
    # Without keep_self a threshold of 1 leaves 0/0; just below it everybody keeps at least itself, and alone.
    for p in (edge, (1 + edge) / 2, 1.0):
        assert above_quantile(similar, p, keep_self=False).isnan().all()
        assert torch.equal(above_quantile(similar, p), eye(count))
    assert torch.equal(above_quantile(similar, edge - 1e-9, keep_self=False), eye(count))
    # One place further down the largest pair passes too.
    below = above_quantile(similar, (count**2 - count - 2.5) / (count**2 - 1), negative="shift")
    assert below.count_nonzero() == count + 2


@given(w=models(2), p=st.floats(0, 1))
def test_acs_3_at_the_threshold_one_the_model_stays(w: Tensor, p: float) -> None:
    edge = len(w) / (len(w) + 1)
    sent = ask(FedACS(p=edge + (1 - edge) * p), w)
    assert near(sent.each["params"], w)


def test_acs_4_of_equal_models_each_keeps_its_own() -> None:
    for count in range(2, 34):
        for size in (6, 200, 1000):
            w = torch.randn(1, size, generator=draws("equal", count), dtype=torch.float64)
            weights = ask(FedACS(p=0.5), w.repeat(count, 1)).weights
            assert torch.equal(weights, eye(count))


@given(row=st.lists(st.floats(-2, 2), min_size=3, max_size=3), count=st.integers(1, 8), p=quantiles)
def test_acs_4_equal_models_stay_what_they_are(row: list[float], count: int, p: Any) -> None:
    w = torch.tensor([row] * count, dtype=torch.float64)
    assert near(ask(FedACS(p=p), w).each["params"], w)


def test_acs_5_raw_negative_cosines_make_the_denominator_negative_or_zero() -> None:
    # Cosines of (1, 0): 1, -0.6 and -0.8, sum -0.4: weights -2.5, 1.5 and 2, though they sum to 1.
    w = torch.stack([vector(1, 0), vector(-3, 4), vector(-4, -3)])
    assert near(above_quantile(cosines(w), None, negative="raw")[0], vector(-2.5, 1.5, 2))
    assert near(above_quantile(cosines(w), None, negative="clip")[0], vector(1, 0, 0))
    assert torch.equal(ask(FedACS(p="none"), w).weights[0], vector(1, 0, 0))
    opposite = cosines(torch.stack([vector(1, 0), vector(-1, 0)]))
    assert not above_quantile(opposite, None, negative="raw").isfinite().any()
    assert torch.equal(above_quantile(opposite, None), eye(2))


@given(w=models(), p=quantiles)
def test_acs_6_who_is_kept_is_mutual(w: Tensor, p: Any) -> None:
    kept = ask(FedACS(p=p), w).weights > 1e-12  # orthogonal models may have a cosine of rounding size
    assert torch.equal(kept, kept.T)


def test_acs_6_weights_are_not_symmetric() -> None:
    # Rows in parts: 1 0.6 0, then 0.6 1 0.8, then 0 0.8 1.
    weights = ask(FedACS(p="none"), ANGLES).weights
    assert near(weights, torch.stack([vector(10, 6, 0) / 16, vector(6, 10, 8) / 24, vector(0, 8, 10) / 18]))
    assert not near(weights, weights.T, 0.01)


@pytest.mark.parametrize("p", [5 / 6, 0.9, 1.0])
def test_acs_7_at_the_threshold_one_it_is_separate(p: float) -> None:
    # Five clients: from n/(n + 1) = 5/6 on.
    solver = Solver("sgd", 0.05, batch=4)
    one = run(FedACS(p=p, init="independent"), solver=solver, rounds=3)
    other = run(Separate(init="independent"), solver=solver, rounds=3)
    for ours, theirs in zip(one, other, strict=True):
        assert torch.equal(flat(ours), flat(theirs))
    coupled = run(FedACS(p=0.5, init="independent"), solver=solver, rounds=3)
    assert not near(flat(coupled[-1]), flat(other[-1]), 1e-3)


@pytest.mark.parametrize("p", [0.25, 0.4375])
def test_one_round_by_hand(p: float) -> None:
    # In order: 0 0 0.6 0.6 0.8 0.8 1 1 1. Place 8 p is 2 or 3.5, the threshold 0.6 or 0.7; only 0.8 exceeds it.
    method = FedACS(p=p)
    server = holding(method, ANGLES)
    sent = sent_by(method, server, torch.arange(3), 1)
    assert near(sent.weights, torch.stack([vector(1, 0, 0), vector(0, 5, 4) / 9, vector(0, 4, 5) / 9]))
    assert near(sent.each["params"], torch.stack([vector(1, 0), vector(5, 8) / 3, vector(4, 7) / 3]))
    # Client 1 starts at u = (5, 8)/3, data with mean u + (1, 0); two plain steps of rate 0.1 halfway there:
    # 0.1 + 0.1 * 0.9 = 0.19. Its own model (3, 4) plays no part, and nothing pulls it back to u.
    data = vector(5, 8) / 3 + torch.stack([vector(0, 1), vector(2, -1)])
    state, upload = method.local(point(2), client_at(method, ANGLES[1]), sent.to(1), turn(data, 0.1, epochs=2))
    assert near(upload["params"], vector(5, 8) / 3 + vector(0.19, 0))
    assert torch.equal(method.personal(point(2), state, None, turn(data, 0.1))["params"], upload["params"])
    after = method.aggregate(server, torch.tensor([1]), message(upload["params"][None]), 1)
    assert torch.equal(after["params"], torch.stack([ANGLES[0], upload["params"], ANGLES[2]]))


def test_damping_by_hand() -> None:
    # A quarter of the average, three quarters of the own model.
    sent = ask(FedACS(p=0.25, damping=0.25), ANGLES)
    assert near(sent.weights, torch.stack([vector(1, 0, 0), vector(0, 32, 4) / 36, vector(0, 4, 32) / 36]))
    assert near(sent.each["params"][1], 0.75 * vector(3, 4) + 0.25 * vector(5, 8) / 3)


@pytest.mark.parametrize("p", [0, 0.0, 1, 1.0])
def test_the_extreme_quantiles(p: float) -> None:
    # Above 0 lie both pairs of client 1; above 1 nobody.
    kept = ask(FedACS(p=p), ANGLES).weights > 0
    assert kept.tolist() == ([[1, 1, 0], [1, 1, 1], [0, 1, 1]] if p == 0 else eye(3).tolist())


def test_a_step_is_one_full_gradient_step() -> None:
    # Whatever epochs and batches the run asks for: w = u - 0.1 (u - mean x), mean (2, -1).
    method = FedACS(local_work="step")
    down = {key: value[0] for key, value in message(vector(1, 1)[None]).items()}
    data = torch.stack([vector(0, 0), vector(2, -1), vector(4, -2)])
    go = turn(data, 0.1, epochs=5, batch=1)
    _, upload = method.local(point(2), client_at(method, vector(9, 9)), down, go)
    assert near(upload["params"], vector(1.1, 0.8))


def test_epochs_are_plain_training_from_the_cloud_model() -> None:
    method = FedACS()
    down = {key: value[0] for key, value in message(vector(1, 1)[None]).items()}
    go = turn(scattered(7)[:, :2], 0.1, epochs=3, batch=2)
    _, upload = method.local(point(2), client_at(method, vector(9, 9)), down, go)
    assert torch.equal(upload["params"], train(point(2), down, go)["params"])
