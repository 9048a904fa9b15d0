"""PFedAtt: the invariants ATT-1 to ATT-6 of the specification, rounds by hand, ties.

The method always keeps the client itself; the other readings of eq. 17 are arguments of `top_k`.
ANGLES has cosines 0.6, 0 and 0.8, which weigh 8, 1 and 16 (and 32 for itself, in the softmax) with sigma = 5 ln 2.
"""

import dataclasses
import itertools
import math
from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from methods.points import (
    HALVING,
    TRIANGLE,
    ask,
    client_at,
    draws,
    facts,
    holding,
    message,
    models,
    point,
    sent_by,
    turn,
    vector,
)
from small import near
from torch import Generator, Tensor

from amity.contract import InputError
from amity.learn.streams import stream
from amity.learn.vectors import squared_distances
from amity.methods._attention import gradient_step, negexp, shares, top_k
from amity.methods.fedamp import FedAMP
from amity.methods.heurfedamp import HeurFedAMP
from amity.methods.pfedatt import PFedAtt

ANGLES = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)
DOUBLING = 5 * math.log(2)
OWN: tuple[Literal["always", "compete", "extra"], ...] = ("always", "compete", "extra")
RENORMALISE: tuple[Literal["all", "others", "to_self", "none"], ...] = ("all", "others", "to_self", "none")

sigmas = st.floats(0.1, 100)
kernels = st.sampled_from(["cosine", "euclidean"])
own_weights = st.one_of(st.sampled_from(["auto", "softmax"]), st.floats(0, 1))


@st.composite
def attentions(draw: st.DrawFn) -> Tensor:
    """Rows of a softmax, self weights not always the largest."""
    count = draw(st.integers(1, 6))
    row = st.lists(st.floats(-5, 5), min_size=count, max_size=count)
    return shares(torch.tensor(draw(st.lists(row, min_size=count, max_size=count)), dtype=torch.float64), None)


def everybody(weights: Tensor) -> Tensor:
    return torch.arange(len(weights))


@given(w=models(), sigma=sigmas, own=st.one_of(st.just("softmax"), st.floats(0, 1)))
def test_att_1_with_all_clients_it_is_fedamp_or_heurfedamp(w: Tensor, sigma: Any, own: Any) -> None:
    cosine = ask(PFedAtt(kernel="cosine", sigma=sigma, k=len(w), self_weight=own), w)
    heuristic = ask(HeurFedAMP(sigma=sigma, self_weight=own), w)
    assert torch.equal(cosine.weights, heuristic.weights)
    assert torch.equal(cosine.each["params"], heuristic.each["params"])
    # sigma_FedAMP = sigma_PFedAtt^2
    euclidean = ask(PFedAtt(kernel="euclidean", sigma=sigma, k=len(w), self_weight=own), w)
    assert torch.equal(euclidean.weights, ask(FedAMP(sigma=sigma**2, self_weight=own), w).weights)


@given(w=models(), sigma=sigmas)
def test_att_1_by_default_the_self_weight_is_an_even_share(w: Tensor, sigma: float) -> None:
    even = ask(HeurFedAMP(sigma=sigma, self_weight=1 / len(w)), w).weights
    assert torch.equal(ask(PFedAtt(sigma=sigma, k=len(w)), w).weights, even)


@given(
    w=models(),
    sigma=sigmas,
    eta=st.floats(1e-3, 1e5),
    round=st.sampled_from([1, 40, 90]),
    on_negative=st.sampled_from(["shrink", "raw"]),
)
def test_att_1_with_all_clients_a_step_is_fedamps(
    w: Tensor, sigma: float, eta: float, round: int, on_negative: str
) -> None:
    both: dict[str, Any] = {"alpha": eta, "on_negative": on_negative}
    ours = ask(PFedAtt(mode="step", kernel="euclidean", sigma=sigma, k=len(w), **both), w, round=round)
    theirs = ask(FedAMP(mode="theory", grad_factor=1, sigma=sigma**2, **both), w, round=round)
    assert torch.equal(ours.weights, theirs.weights)
    assert ours.notes == theirs.notes


@given(weights=attentions())
def test_att_1_with_all_clients_every_reading_keeps_the_weights(weights: Tensor) -> None:
    for own, renormalise in itertools.product(OWN, RENORMALISE):
        kept = top_k(weights, len(weights), everybody(weights), own=own, renormalise=renormalise)
        assert torch.equal(kept, weights), (own, renormalise)


@given(w=models(), sigma=sigmas, kernel=kernels, own=own_weights)
def test_att_2_with_one_client_the_model_stays(w: Tensor, sigma: Any, kernel: Any, own: Any) -> None:
    sent = ask(PFedAtt(kernel=kernel, sigma=sigma, k=1, self_weight=own), w)
    assert near(sent.each["params"], w)
    assert torch.equal(sent.weights > 0, torch.eye(len(w), dtype=torch.bool))
    step = ask(PFedAtt(mode="step", kernel="euclidean", sigma=sigma, k=1), w)
    assert torch.equal(step.each["params"], w) and step.notes == ()


@given(w=models(), sigma=sigmas, kernel=kernels, k=st.integers(1, 7), own=own_weights)
def test_att_3_at_most_k_weights_that_sum_to_one(w: Tensor, sigma: Any, kernel: Any, k: Any, own: Any) -> None:
    weights = ask(PFedAtt(kernel=kernel, sigma=sigma, k=k, self_weight=own), w).weights
    assert (weights.count_nonzero(1) <= k).all() and (weights >= 0).all()
    kept = min(k, len(w))
    if own != "softmax":  # whatever was dropped, a client keeps the self weight that was chosen
        fixed = 1 / kept if own == "auto" else own
        expected = torch.full((len(w),), 1.0 if kept == 1 else fixed, dtype=torch.float64)
        assert near(weights.diagonal(), expected)
    assert near(weights.sum(1), torch.ones(len(w), dtype=torch.float64))


@given(weights=attentions(), k=st.integers(1, 7))
def test_att_3_every_reading(weights: Tensor, k: Any) -> None:
    for own, renormalise in itertools.product(OWN, RENORMALISE):
        kept = top_k(weights, k, everybody(weights), own=own, renormalise=renormalise)
        # `others` and `to_self` give weight to the diagonal even where it lost the competition.
        returns = own == "compete" and renormalise in ("others", "to_self")
        assert (kept.count_nonzero(1) <= k + (own == "extra" or returns)).all()
        if renormalise != "none":
            assert near(kept.sum(1), torch.ones(len(weights), dtype=torch.float64)), (own, renormalise)


@given(weights=attentions(), k=st.integers(1, 7))
def test_att_4_the_printed_rows_sum_to_the_kept_mass(weights: Tensor, k: Any) -> None:
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
def test_att_5_kept_weights_keep_their_ratios(w: Tensor, sigma: Any, kernel: Any, k: Any) -> None:
    softmax = PFedAtt(kernel=kernel, sigma=sigma, k=k, self_weight="softmax")
    full = ask(dataclasses.replace(softmax, k=len(w)), w).weights
    kept = ask(softmax, w).weights
    for before, after in zip(full, kept, strict=True):
        chosen = after > 0
        assert near(after[chosen], before[chosen] / before[chosen].sum())
    # With a self weight of their own the others do among themselves.
    shared = ask(dataclasses.replace(softmax, self_weight=0.25), w).weights
    for i, (before, after) in enumerate(zip(full, shared, strict=True)):
        chosen = (after > 0) & (torch.arange(len(w)) != i)
        assert near(after[chosen], 0.75 * before[chosen] / before[chosen].sum())


@given(w=models(2), sigma=st.floats(0.1, 5), eta=st.floats(1e-3, 1.0), k=st.integers(1, 5))
def test_att_5_a_step_on_fewer_pairs_gives_the_dropped_weight_to_itself(
    w: Tensor, sigma: float, eta: float, k: int
) -> None:
    method = PFedAtt(mode="step", kernel="euclidean", sigma=sigma, alpha=eta, k=k, on_negative="raw")
    whole = gradient_step(negexp(sigma**2).slope(squared_distances(w)), eta)
    sent = ask(method, w).weights
    off = sent.clone().fill_diagonal_(0)
    assert torch.equal(off[off > 0], whole[off > 0])  # what is kept is kept as it was
    assert (off.count_nonzero(1) <= k - 1).all()
    assert near(sent.diagonal(), 1 - off.sum(1))
    if len(w.unique(dim=0)) == len(w) and k >= len(w):
        assert near(sent, whole)


@given(weights=attentions(), k=st.integers(1, 6))
def test_att_5_kept_weights_keep_their_order_and_beat_those_dropped(weights: Tensor, k: Any) -> None:
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
def test_att_6_itself_and_k_less_one_others_are_k_with_itself(weights: Tensor, k: Any) -> None:
    for renormalise in RENORMALISE:
        extra = top_k(weights, k - 1, everybody(weights), own="extra", renormalise=renormalise)
        assert torch.equal(extra, top_k(weights, k, everybody(weights), own="always", renormalise=renormalise))


def test_one_round_by_hand() -> None:
    # The others weigh 8 and 1, 8 and 16, 1 and 16: each keeps the larger, which gets what a_ii = 1/5 leaves.
    method = PFedAtt(k=2, sigma=DOUBLING, self_weight=0.2, attraction=1.0, alpha=4.0)
    server = holding(method, ANGLES)
    sent = sent_by(method, server, torch.arange(3), 1)
    assert near(sent.weights, torch.stack([vector(1, 4, 0), vector(0, 1, 4), vector(0, 4, 1)]) / 5)
    # (1, 0) + 4 (3, 4), (3, 4) + 4 (0, 1) and 4 (3, 4) + (0, 1), each by 5.
    assert near(sent.each["params"], torch.stack([vector(2.6, 3.2), vector(0.6, 1.6), vector(2.4, 3.4)]))
    # Client 0 starts at q = (2.6, 3.2), data with mean (2.6, 7.2), pull 1/4, rate 0.5. In the second coordinate:
    # 3.2 + 0.5 * 4 = 5.2, then 5.2 + 0.5 (2 - 0.25 * 2) = 5.95.
    data = torch.stack([vector(1.6, 8.2), vector(3.6, 6.2)])
    _, upload = method.local(point(2), client_at(method, ANGLES[0]), sent.to(0), turn(data, 0.5, epochs=2))
    assert near(upload["params"], vector(2.6, 5.95))
    # In round 61 of 90 the pull is 100 times that, 25: 5.2 + 0.5 (2 - 25 * 2) = -18.8.
    late = turn(data, 0.5, round=61, epochs=2)
    _, upload = method.local(point(2), client_at(method, ANGLES[0]), sent.to(0), late)
    assert near(upload["params"], vector(2.6, -18.8))
    after = method.aggregate(server, torch.tensor([1]), message(vector(2, 5.75)[None]), 1)
    assert torch.equal(after["params"], torch.stack([ANGLES[0], vector(2, 5.75), ANGLES[2]]))


def test_eq_20_by_hand() -> None:
    # A fourth at (0, -1): cosines 0, -0.8 and -1 with the others, which weigh 1, 1/16 and 1/32. With k = 3 a client
    # keeps a third, and the two others that it keeps share the rest: 8 and 16, 1 and 16, 1 and 1/16.
    w = torch.cat([ANGLES, vector(0, -1)[None]])
    weights = ask(PFedAtt(k=3, sigma=DOUBLING), w).weights
    assert near(weights[1], vector(2, 3, 4, 0) / 9)
    assert near(weights[2], vector(2, 32, 17, 0) / 51)
    assert near(weights[3], vector(32, 2, 0, 17) / 51)
    # In row 0 the fourth and the third tie at 1 beside 8: one of them is kept.
    assert near(weights[0].sort().values, vector(0, 2, 9, 16) / 27)
    fixed = ask(PFedAtt(k=3, sigma=DOUBLING, self_weight=0.0), w).weights
    assert near(fixed[1:3], torch.stack([vector(1, 0, 2, 0) / 3, vector(1, 16, 0, 0) / 17]))


def test_the_client_in_its_own_softmax_by_hand() -> None:
    # Rows in parts 32 8 1, 8 32 16 and 1 16 32; the two largest of each: 32 8, 32 16 and 16 32.
    weights = ask(PFedAtt(k=2, sigma=DOUBLING, self_weight="softmax"), ANGLES).weights
    assert near(weights, torch.stack([vector(4, 1, 0) / 5, vector(0, 2, 1) / 3, vector(0, 1, 2) / 3]))


def test_the_oracle_self_weight_is_fedamps() -> None:
    # Groups of two and of one: 1/(1 + 1), 1/(1 + 1) and 1/(0 + 1).
    fed = facts(3, groups=[4, 4, 7])
    weights = ask(PFedAtt(k=2, sigma=DOUBLING, self_weight="group"), ANGLES, fed=fed).weights
    assert near(weights, torch.stack([vector(1, 1, 0) / 2, vector(0, 1, 1) / 2, vector(0, 0, 1)]))
    with pytest.raises(InputError, match="self_weight=group needs to know each client's group"):
        ask(PFedAtt(self_weight="group"), ANGLES)


def test_a_full_self_weight_is_said_to_be_separate_training() -> None:
    sent = ask(PFedAtt(k=2, self_weight=1), ANGLES)
    assert torch.equal(sent.each["params"], ANGLES)
    assert sent.notes == ("self_weight = 1: no collaboration, this is separate training",)


def test_models_that_are_nearly_alike_still_learn_from_each_other() -> None:
    # Cosines of 1 - 2e-1 to 1 - 5e-4 with sharpness 1e4: in its own softmax a client is all that counts.
    angle = torch.tensor([0.0, 0.03, 0.3, 0.6], dtype=torch.float64)
    w = torch.stack([angle.cos(), angle.sin()], 1)
    own, shared = (ask(PFedAtt(k=2, sigma=1e4, self_weight=own), w).weights for own in ("softmax", "auto"))
    assert (own.diagonal() > 0.98).all()
    assert near(shared, torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]).double() / 2)


def test_euclidean_weights_by_hand() -> None:
    # sigma^2 = 1 / ln 2: 2^-d^2 for d^2 = 1, 4 and 5; the two largest of each row 1 1/2, 1/2 1 and 1/16 1.
    both = PFedAtt(kernel="euclidean", k=2, sigma=math.sqrt(HALVING), self_weight="softmax")
    weights = ask(both, TRIANGLE).weights
    assert near(weights, torch.stack([vector(2, 1, 0) / 3, vector(1, 2, 0) / 3, vector(1, 0, 16) / 17]))
    # All three, a quarter for itself: 1/2 to 1/16, 1/2 to 1/32 and 1/16 to 1/32.
    weights = ask(dataclasses.replace(both, k=3, self_weight=0.25), TRIANGLE).weights
    assert near(weights, torch.stack([vector(3, 8, 1) / 12, vector(48, 17, 3) / 68, vector(2, 1, 1) / 4]))


STEP: dict[str, Any] = {"mode": "step", "kernel": "euclidean", "sigma": math.sqrt(HALVING)}


def test_eq_16_by_hand() -> None:
    # V'(t) = 2^-t / HALVING, so that eta = HALVING / 2 gives 2^-t / 2: 1/4, 1/32 and 1/64 for d^2 = 1, 4 and 5.
    whole = ask(PFedAtt(**STEP, k=3, alpha=HALVING / 2), TRIANGLE)
    assert near(whole.weights, torch.stack([vector(46, 16, 2), vector(16, 47, 1), vector(2, 1, 61)]) / 64)
    kept = ask(PFedAtt(**STEP, k=2, alpha=HALVING / 2), TRIANGLE)
    assert near(kept.weights, torch.stack([vector(24, 8, 0), vector(8, 24, 0), vector(1, 0, 31)]) / 32)
    assert whole.notes == kept.notes == ()
    # In the second third of the rounds the step is a tenth.
    later = ask(PFedAtt(**STEP, k=2, alpha=HALVING / 2), TRIANGLE, round=31)
    assert near(later.weights, torch.stack([vector(312, 8, 0), vector(8, 312, 0), vector(1, 0, 319)]) / 320)


def test_a_step_is_shrunk_only_as_far_as_the_kept_pairs_ask() -> None:
    # eta = 4 HALVING gives 2, 1/4 and 1/8. With k = 2 the rows take 2, 2 and 1/4: half a step leaves them 0, 0 and 7/8.
    steep = {**STEP, "k": 2, "alpha": 4 * HALVING}
    sent = ask(PFedAtt(**steep, attraction=3.0), TRIANGLE)
    assert near(sent.weights, torch.stack([vector(0, 8, 0), vector(8, 0, 0), vector(1, 0, 7)]) / 8)
    assert sent.notes == ("step shrunk to keep self weights >= 0: effective lambda 1.5",)
    raw = ask(PFedAtt(**steep, on_negative="raw"), TRIANGLE)
    assert near(raw.weights, torch.stack([vector(-4, 8, 0), vector(8, -4, 0), vector(1, 0, 3)]) / 4)
    with pytest.raises(InputError, match=r"^pfedatt needs every self weight >= 0, but the step 5.77\d* exceeds 2.88"):
        ask(PFedAtt(**steep, on_negative="error"), TRIANGLE)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mode": "step"}, "mode=step, got kernel=cosine: set kernel=euclidean"),
        (
            {"mode": "step", "kernel": "euclidean", "self_weight": 0.5},
            "got self_weight=0.5: leave it out, or use mode=",
        ),
        ({"mode": "step", "kernel": "euclidean", "self_weight": "group"}, "got self_weight=group"),
        ({"self_weight": 1.5}, "self_weight to be a number >= 0 and <= 1 or one of auto, softmax, group, got 1.5"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as refusal:
        PFedAtt(**settings)
    assert "\n" not in str(refusal.value)


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
    # Clients 0 and 2 only: an even share is a half. In the softmax cosine 0 weighs 1 to 32.
    method = PFedAtt(k=3, sigma=DOUBLING)
    sent = sent_by(method, holding(method, ANGLES), torch.tensor([0, 2]), 1)
    assert near(sent.weights, torch.stack([vector(1, 0, 1), vector(1, 0, 1)]) / 2)
    softmax = dataclasses.replace(method, self_weight="softmax")
    sent = sent_by(softmax, holding(method, ANGLES), torch.tensor([0, 2]), 1)
    assert near(sent.weights, torch.stack([vector(32, 0, 1), vector(1, 0, 32)]) / 33)


def of_round(round: int) -> Any:
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
    rows = [sent_by(method, server, torch.arange(6), round, of_round(round)).weights[0] for round in range(1, 30)]
    assert (torch.stack(rows).sum(0) > 0).all()
    again = sent_by(method, server, torch.arange(6), 1, of_round(1)).weights[0]
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
