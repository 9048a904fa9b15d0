"""HeurFedAMP: the invariants HEUR-1 to HEUR-8 of the specification, and rounds by hand.

ANGLES has cosines 0.6 (clients 0, 1), 0 (0, 2) and 0.8 (1, 2); with sigma = 5 ln 2 a cosine c weighs 2^(5c):
8, 1 and 16, and 32 for itself.
"""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from methods.points import ask, client_at, facts, holding, message, models, point, sent_by, turn, vector
from small import near
from torch import Tensor

from amity.contract import InputError
from amity.learn.vectors import cosines
from amity.methods import heurfedamp
from amity.methods._attention import shares
from amity.methods.heurfedamp import HeurFedAMP

ANGLES = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)
DOUBLING = 5 * math.log(2)

sigmas = st.floats(1e-6, 200)
self_weights = st.one_of(st.just("softmax"), st.floats(0, 1))


def uniform(count: int, own: float) -> Tensor:
    return torch.full((count, count), (1 - own) / (count - 1), dtype=torch.float64).fill_diagonal_(own)


def test_the_equations_have_the_papers_numbers() -> None:
    cited = {
        line.split()[0]: line.split()[-1] for line in (heurfedamp.__doc__ or "").splitlines() if line.endswith(")")
    }
    assert cited == {"xi_ij": "(8)", "w_i": "(6)"}


@given(w=models(), sigma=sigmas, own=self_weights)
def test_heur_1_weights_are_not_negative_and_sum_to_one(w: Tensor, sigma: Any, own: Any) -> None:
    weights = ask(HeurFedAMP(sigma=sigma, self_weight=own), w).weights
    assert (weights >= 0).all()
    assert near(weights.sum(1), torch.ones(len(w), dtype=torch.float64))


@given(w=models(2), own=st.floats(0, 1))
def test_heur_2_without_sharpness_the_others_are_equal(w: Tensor, own: float) -> None:
    # The method asks for sigma > 0: here sigma is too small to tell cosines apart, then exactly 0.
    assert near(ask(HeurFedAMP(sigma=1e-12, self_weight=own), w).weights, uniform(len(w), own))
    free = ask(HeurFedAMP(sigma=1e-12), w).weights
    assert near(free, torch.full_like(free, 1 / len(w)))
    assert near(shares(0.0 * cosines(w), torch.full((len(w),), own, dtype=torch.float64)), uniform(len(w), own))


@given(w=models(), sigma=sigmas, own=self_weights, data=st.data())
def test_heur_3_the_length_of_a_model_does_not_matter(w: Tensor, sigma: Any, own: Any, data: st.DataObject) -> None:
    scale = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=len(w), max_size=len(w)))
    method = HeurFedAMP(sigma=sigma, self_weight=own)
    scaled = torch.tensor(scale, dtype=torch.float64)[:, None] * w
    assert near(ask(method, scaled).weights, ask(method, w).weights)


@given(count=st.integers(2, 5), sigma=sigmas, own=st.floats(0, 1), angle=st.floats(0, 2))
def test_heur_4_equal_cosines_weigh_alike(count: int, sigma: float, own: float, angle: float) -> None:
    # Rows e_i + angle * (1, ..., 1): all pairs have one and the same cosine.
    w = torch.eye(count, dtype=torch.float64) + angle
    assert near(ask(HeurFedAMP(sigma=sigma, self_weight=own), w).weights, uniform(count, own))


@given(w=models(2, 2), sigma=sigmas, own=st.floats(0, 1))
def test_heur_5_of_two_clients_the_other_gets_the_rest(w: Tensor, sigma: float, own: float) -> None:
    assert near(ask(HeurFedAMP(sigma=sigma, self_weight=own), w).weights, uniform(2, own))


@given(w=models(), sigma=sigmas)
def test_heur_6_full_self_weight_changes_nothing(w: Tensor, sigma: float) -> None:
    assert torch.equal(ask(HeurFedAMP(sigma=sigma, self_weight=1.0), w).each["params"], w)


@pytest.mark.parametrize("sigma", [1e3, 1e6, 1e12])
def test_heur_7_great_sharpness_turns_to_the_nearest_by_cosine(sigma: float) -> None:
    expected = torch.tensor([[1, 3, 0], [0, 1, 3], [0, 3, 1]], dtype=torch.float64) / 4
    assert near(ask(HeurFedAMP(sigma=sigma, self_weight=0.25), ANGLES).weights, expected)
    assert near(ask(HeurFedAMP(sigma=sigma), ANGLES).weights, torch.eye(3, dtype=torch.float64))


def test_heur_8_weights_are_not_symmetric_and_the_mean_is_not_kept() -> None:
    # The others' halves go 8 : 1, 8 : 16 and 1 : 16.
    sent = ask(HeurFedAMP(sigma=DOUBLING, self_weight=0.5), ANGLES)
    assert near(sent.weights, torch.stack([vector(9, 8, 1) / 18, vector(1, 3, 2) / 6, vector(1, 16, 17) / 34]))
    assert not near(sent.weights, sent.weights.T, 0.1)
    assert not near(sent.each["params"].mean(0), ANGLES.mean(0), 0.01)


def test_one_round_by_hand() -> None:
    method = HeurFedAMP(sigma=DOUBLING, attraction=1.0, alpha=2.0)
    server = holding(method, ANGLES)
    sent = sent_by(method, server, torch.arange(3), 1)
    assert near(sent.weights, torch.stack([vector(32, 8, 1) / 41, vector(1, 4, 2) / 7, vector(1, 16, 32) / 49]))
    # u_1 = ((1, 0) + 4 (3, 4) + 2 (0, 1)) / 7 = (13, 18) / 7
    assert near(sent.each["params"], torch.stack([vector(56, 33) / 41, vector(13, 18) / 7, vector(49, 96) / 49]))
    # Client 1, data with mean u_1 + (2, 0), pull 1/2, rate 0.2. In the first coordinate, from u_1:
    # cloud: 0.2 * 2 = 0.4, then 0.4 + 0.2 (1.6 - 0.5 * 0.4) = 0.68.
    data = sent.each["params"][1] + torch.stack([vector(1, 0), vector(3, 0)])
    client = client_at(method, ANGLES[1])
    _, upload = method.local(point(2), client, sent.to(1), turn(data, 0.2, epochs=2))
    assert near(upload["params"], vector(13, 18) / 7 + vector(0.68, 0))
    # own: w = (3, 4) = u_1 + (8, 10)/7, one step: -0.2 ((8/7 - 2, 10/7) + 0.5 (8/7, 10/7)) = (1/17.5, -3/7).
    own = HeurFedAMP(sigma=DOUBLING, attraction=1.0, alpha=2.0, start="own")
    _, stayed = own.local(point(2), client, sent.to(1), turn(data, 0.2))
    assert near(stayed["params"], vector(3 + 2 / 35, 4 - 3 / 7))
    after = method.aggregate(server, torch.tensor([1]), message(upload["params"][None]), 1)
    assert torch.equal(after["params"], torch.stack([ANGLES[0], upload["params"], ANGLES[2]]))


@pytest.mark.parametrize(("round", "decay"), [(30, 1), (31, 0.1), (60, 0.1), (61, 0.01)])
def test_the_pull_grows_by_thirds(round: int, decay: float) -> None:
    # F is flat at its minimum w = 1; the pull towards u = 0 alone moves w: 1 - rate * lambda / alpha_k.
    method = HeurFedAMP(attraction=3.0, alpha=6.0, start="own")
    down = {key: value[0] for key, value in message(vector(0)[None]).items()}
    go = turn(torch.ones(1, 1, dtype=torch.float64), 1e-3, round=round)
    _, upload = method.local(point(1), client_at(method, vector(1), rounds=90), down, go)
    assert near(upload["params"], vector(1 - 1e-3 * 0.5 / decay))


@pytest.mark.parametrize(("counts_self", "own"), [(False, [1, 1 / 2, 1 / 2]), (True, [1 / 2, 1 / 3, 1 / 3])])
def test_group_self_weight_by_hand(counts_self: bool, own: list[float]) -> None:
    method = HeurFedAMP(sigma=DOUBLING, self_weight="group", group_counts_self=counts_self)
    weights = ask(method, ANGLES, fed=facts(3, groups=[0, 1, 1])).weights
    others = torch.stack([vector(0, 8, 1) / 9, vector(1, 0, 2) / 3, vector(1, 16, 0) / 17])
    assert near(weights, others * (1 - vector(*own))[:, None] + torch.diag(vector(*own)))


def test_similarity_of_updates_by_hand() -> None:
    # All models lie far from the origin, so that their cosines are near 1; seen from w^0 they are those of ANGLES.
    method = HeurFedAMP(sigma=DOUBLING, similarity_on="update")
    server = method.init_server(point(2), facts(3))
    first = server["params"][0].clone()
    server = method.aggregate(server, torch.arange(3), message(first + ANGLES), 1)
    sent = sent_by(method, server, torch.arange(3), 2)
    expected = torch.stack([vector(32, 8, 1) / 41, vector(1, 4, 2) / 7, vector(1, 16, 32) / 49])
    assert near(sent.weights, expected)
    # Models are mixed, not updates: u = w^0 + the mixed update.
    assert near(sent.each["params"], first + expected @ ANGLES)
    assert not near(ask(HeurFedAMP(sigma=DOUBLING), first + ANGLES).weights, expected, 1e-2)


def test_before_any_update_everybody_is_sent_the_first_model() -> None:
    # No update has a direction: cosines are 0 to the others and 1 to itself.
    method = HeurFedAMP(sigma=DOUBLING, similarity_on="update")
    server = method.init_server(point(2), facts(3))
    sent = sent_by(method, server, torch.arange(3), 1)
    assert near(sent.weights, (torch.eye(3, dtype=torch.float64) * 31 + 1) / 34)
    assert near(sent.each["params"], server["params"])


def test_similarity_of_updates_needs_one_first_model() -> None:
    with pytest.raises(InputError, match="similarity_on=update, got init=independent: use init=shared"):
        HeurFedAMP(similarity_on="update", init="independent")


def test_a_model_of_zeros_resembles_nobody() -> None:
    w = torch.stack([vector(1, 0), vector(0, 0), vector(1, 0)])
    # Cosines: 0 to and from the zero model, 1 elsewhere; 32 parts against 1.
    weights = ask(HeurFedAMP(sigma=DOUBLING), w).weights
    assert near(weights, torch.stack([vector(32, 1, 32) / 65, vector(1, 32, 1) / 34, vector(32, 1, 32) / 65]))
