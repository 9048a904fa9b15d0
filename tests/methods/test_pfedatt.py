"""PFedAtt: the invariants ATT-1 to ATT-6 of the specification, rounds by hand, ties.

The method ships `own = always` and `renormalise = all`; the other readings are arguments of `top_k`.
ANGLES has cosines 0.6, 0 and 0.8, which weigh 8, 1 and 16 (and 32 for itself) with sigma = 5 ln 2.
"""

import dataclasses
import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import near
from test_cloud import HALVING, TRIANGLE, ask, client_at, draws, facts, holding, message, models, point, turn, vector
from torch import Generator, Tensor

from amity.attention import shares, top_k
from amity.methods.fedamp import FedAMP
from amity.methods.heurfedamp import HeurFedAMP
from amity.methods.pfedatt import PFedAtt
from amity.streams import stream

ANGLES = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)
DOUBLING = 5 * math.log(2)
OWN = ("always", "compete", "extra")
RENORMALISE = ("all", "others", "to_self", "none")

sigmas = st.floats(0.1, 100)
kernels = st.sampled_from(["cosine", "euclidean"])


@st.composite
def attentions(draw: st.DrawFn) -> Tensor:
    """Rows of a softmax, self weights not always the largest."""
    count = draw(st.integers(1, 6))
    row = st.lists(st.floats(-5, 5), min_size=count, max_size=count)
    return shares(torch.tensor(draw(st.lists(row, min_size=count, max_size=count)), dtype=torch.float64), None)


def everybody(weights: Tensor) -> Tensor:
    return torch.arange(len(weights))


@given(w=models(), sigma=sigmas)
def test_att_1_with_all_clients_it_is_fedamp_or_heurfedamp(w: Tensor, sigma: float) -> None:
    cosine = ask(PFedAtt(kernel="cosine", sigma=sigma, k=len(w)), w)
    heuristic = ask(HeurFedAMP(sigma=sigma), w)
    assert torch.equal(cosine.weights, heuristic.weights)
    assert torch.equal(cosine.each["params"], heuristic.each["params"])
    # sigma_FedAMP = sigma_PFedAtt^2
    euclidean = ask(PFedAtt(kernel="euclidean", sigma=sigma, k=len(w)), w)
    assert torch.equal(euclidean.weights, ask(FedAMP(sigma=sigma**2), w).weights)


@given(weights=attentions())
def test_att_1_with_all_clients_every_reading_keeps_the_weights(weights: Tensor) -> None:
    for own, renormalise in itertools.product(OWN, RENORMALISE):
        kept = top_k(weights, len(weights), everybody(weights), own=own, renormalise=renormalise)
        assert torch.equal(kept, weights), (own, renormalise)


@given(w=models(), sigma=sigmas, kernel=kernels)
def test_att_2_with_one_client_the_model_stays(w: Tensor, sigma: float, kernel: str) -> None:
    sent = ask(PFedAtt(kernel=kernel, sigma=sigma, k=1), w)
    assert near(sent.each["params"], w)
    assert torch.equal(sent.weights > 0, torch.eye(len(w), dtype=torch.bool))


@given(w=models(), sigma=sigmas, kernel=kernels, k=st.integers(1, 7))
def test_att_3_at_most_k_weights_that_sum_to_one(w: Tensor, sigma: float, kernel: str, k: int) -> None:
    weights = ask(PFedAtt(kernel=kernel, sigma=sigma, k=k), w).weights
    assert (weights.count_nonzero(1) <= k).all() and (weights >= 0).all() and (weights.diagonal() > 0).all()
    assert near(weights.sum(1), torch.ones(len(w), dtype=torch.float64))


@given(weights=attentions(), k=st.integers(1, 7))
def test_att_3_every_reading(weights: Tensor, k: int) -> None:
    for own, renormalise in itertools.product(OWN, RENORMALISE):
        kept = top_k(weights, k, everybody(weights), own=own, renormalise=renormalise)
        # `others` and `to_self` give weight to the diagonal even where it lost the competition.
        returns = own == "compete" and renormalise in ("others", "to_self")
        assert (kept.count_nonzero(1) <= k + (own == "extra" or returns)).all()
        if renormalise != "none":
            assert near(kept.sum(1), torch.ones(len(weights), dtype=torch.float64)), (own, renormalise)


@given(weights=attentions(), k=st.integers(1, 7))
def test_att_4_the_printed_rows_sum_to_the_kept_mass(weights: Tensor, k: int) -> None:
    for own in OWN:
        kept = top_k(weights, k, everybody(weights), own=own, renormalise="none")
        chosen = kept > 0
        assert torch.equal(kept, torch.where(chosen, weights, 0.0))
        assert (kept.sum(1) <= 1 + 1e-12).all()
    # The literal equation keeps the k largest of the row.
    literal = top_k(weights, k, everybody(weights), own="compete", renormalise="none")
    assert near(literal.sum(1), weights.sort(1, descending=True).values[:, :k].sum(1))
    if 1 < k < len(weights):
        assert (literal.sum(1) < 1).all()


@given(w=models(3), sigma=st.floats(0.1, 5), kernel=kernels, k=st.integers(1, 5))
def test_att_5_kept_weights_keep_their_ratios(w: Tensor, sigma: float, kernel: str, k: int) -> None:
    full = ask(PFedAtt(kernel=kernel, sigma=sigma, k=len(w)), w).weights
    kept = ask(PFedAtt(kernel=kernel, sigma=sigma, k=k), w).weights
    for before, after in zip(full, kept, strict=True):
        chosen = after > 0
        assert near(after[chosen], before[chosen] / before[chosen].sum())


@given(weights=attentions(), k=st.integers(1, 6))
def test_att_5_kept_weights_keep_their_order_and_beat_those_dropped(weights: Tensor, k: int) -> None:
    for own, renormalise in itertools.product(OWN, RENORMALISE):
        kept = top_k(weights, k, everybody(weights), own=own, renormalise=renormalise)
        off = ~torch.eye(len(weights), dtype=torch.bool)  # the diagonal is kept, or paid, whatever its weight
        for i, (before, after) in enumerate(zip(weights, kept, strict=True)):
            chosen, dropped = (after > 0) & off[i], (after == 0) & off[i]
            if chosen.any():
                order = before[chosen].argsort()
                assert (after[chosen][order].diff() >= -1e-15).all()
                assert not dropped.any() or before[chosen].min() >= before[dropped].max()


@given(weights=attentions(), k=st.integers(2, 7))
def test_att_6_itself_and_k_less_one_others_are_k_with_itself(weights: Tensor, k: int) -> None:
    for renormalise in RENORMALISE:
        extra = top_k(weights, k - 1, everybody(weights), own="extra", renormalise=renormalise)
        assert torch.equal(extra, top_k(weights, k, everybody(weights), own="always", renormalise=renormalise))


def test_one_round_by_hand() -> None:
    # Rows in parts 32 8 1, 8 32 16 and 1 16 32; the two largest of each: 32 8, 32 16 and 16 32.
    method = PFedAtt(k=2, sigma=DOUBLING, attraction=1.0, alpha=4.0)
    server = holding(method, ANGLES)
    sent = method.download(server, torch.arange(3), 1, draws)
    assert near(sent.weights, torch.stack([vector(4, 1, 0) / 5, vector(0, 2, 1) / 3, vector(0, 1, 2) / 3]))
    assert near(sent.each["params"], torch.stack([vector(1.4, 0.8), vector(2, 3), vector(1, 2)]))
    # Client 1 starts at q = (2, 3), data with mean (2, 7), pull 1/4, rate 0.5. In the second coordinate:
    # 3 + 0.5 * 4 = 5, then 5 + 0.5 (2 - 0.25 * 2) = 5.75.
    data = torch.stack([vector(1, 8), vector(3, 6)])
    _, upload = method.local(point(2), client_at(method, ANGLES[1]), sent.to(1), turn(data, 0.5, epochs=2))
    assert near(upload["params"], vector(2, 5.75))
    # In round 61 of 90 the pull is 100 times that, 25: 5 + 0.5 (2 - 25 * 2) = -19.
    late = turn(data, 0.5, round=61, epochs=2)
    _, upload = method.local(point(2), client_at(method, ANGLES[1]), sent.to(1), late)
    assert near(upload["params"], vector(2, -19))
    after = method.aggregate(server, torch.tensor([1]), message(vector(2, 5.75)[None]), 1)
    assert torch.equal(after["params"], torch.stack([ANGLES[0], vector(2, 5.75), ANGLES[2]]))


def test_euclidean_weights_by_hand() -> None:
    # sigma^2 = 1 / ln 2: 2^-d^2 for d^2 = 1, 4 and 5; the two largest of each row 1 1/2, 1/2 1 and 1/16 1.
    sent = ask(PFedAtt(kernel="euclidean", k=2, sigma=math.sqrt(HALVING)), TRIANGLE)
    assert near(sent.weights, torch.stack([vector(2, 1, 0) / 3, vector(1, 2, 0) / 3, vector(1, 0, 16) / 17]))


@pytest.mark.parametrize(("clients", "kept"), [(1, 1), (2, 2), (3, 2), (10, 2), (11, 3), (15, 3), (16, 4)])
def test_by_default_a_fifth_of_the_clients_and_at_least_two(clients: int, kept: int) -> None:
    sent = ask(PFedAtt(sigma=1.0), torch.randn(clients, 4, generator=draws("w", 0), dtype=torch.float64))
    assert (sent.weights.count_nonzero(1) == kept).all()
    assert sent.notes == ()


def test_k_beyond_the_clients_is_clipped_and_said() -> None:
    clipped = ask(PFedAtt(k=7, sigma=DOUBLING), ANGLES)
    (note,) = clipped.notes
    assert "k = 7" in note and "clipped to 3" in note
    whole = ask(PFedAtt(k=3, sigma=DOUBLING), ANGLES)
    assert torch.equal(clipped.weights, whole.weights) and whole.notes == ()


def test_k_counts_within_the_pool() -> None:
    # Clients 0 and 2 only: cosine 0 weighs 1 to 32.
    method = PFedAtt(k=3, sigma=DOUBLING)
    sent = method.download(holding(method, ANGLES), torch.tensor([0, 2]), 1, draws)
    assert near(sent.weights, torch.stack([vector(32, 0, 1), vector(1, 0, 32)]) / 33)


def of_round(round: int):
    def rng(role: str, key: int) -> Generator:
        return stream(0, role, key, round)

    return rng


@given(order=st.permutations(range(6)))
def test_ties_follow_the_clients_not_their_places(order: list[int]) -> None:
    method, fed = PFedAtt(k=3), facts(6)
    equal = torch.ones(6, 2, dtype=torch.float64)
    weights = ask(method, equal, fed=fed).weights
    moved = ask(method, equal, fed=fed._replace(keys=fed.keys[order])).weights
    assert near(moved, weights[order][:, order])


def test_ties_are_drawn_anew_in_each_round() -> None:
    method = PFedAtt(k=2)
    server = holding(method, torch.ones(6, 2, dtype=torch.float64))
    rows = [method.download(server, torch.arange(6), round, of_round(round)).weights[0] for round in range(1, 30)]
    assert (torch.stack(rows).sum(0) > 0).all()
    again = method.download(server, torch.arange(6), 1, of_round(1)).weights[0]
    assert torch.equal(rows[0], again)


def test_the_start_is_always_the_cloud_model() -> None:
    assert "start" not in {field.name for field in dataclasses.fields(PFedAtt)}
    method = PFedAtt(alpha=1.0)
    down = {key: value[0] for key, value in message(vector(3)[None]).items()}
    far, near_by = (
        method.local(point(1), client_at(method, vector(w)), down, turn(vector(5)[:, None], 0.1))[1]["params"]
        for w in (-50.0, 2.0)
    )
    assert torch.equal(far, near_by) and near(far, vector(3.2))
