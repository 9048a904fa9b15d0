"""Twin attention: the invariants TWI-1 to TWI-7 of the specification, its three ideal cases, rounds by hand.

STAR has the mean (10, 20); seen from it the models are (4, 3), (4, -3) and (-8, 0), with cosines 0.28, -0.8 and -0.8.
Their median is -0.8 and nothing lies below it, so chance is 0: only the first two are twins, with 0.28 of the 1/3 that
makes sure ones.
"""

import math
from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from methods.points import ask, client_at, facts, holding, message, models, point, sent_by, turn, vector
from methods.tables import sends_what_the_formula_says
from small import batchnorm, flat, near, run, same, silos, task
from torch import Tensor

import amity
from amity.config.run import Run
from amity.contract import Data, Split, State, Turn, Validating, model_of
from amity.data import Silos, own_silos
from amity.learn.streams import stream
from amity.methods._attention import twin_shares
from amity.methods.twin import Twin
from amity.prepare import prepare
from amity.testing import LAWS, check_law
from amity.testing.cases import Case, check_equal
from amity.testing.laws_state import through_disk
from amity.testing.watched import Watched

STAR = torch.tensor([[14.0, 23.0], [14.0, 17.0], [2.0, 20.0]], dtype=torch.float64)
HALVING = math.log(2) / (3 * 0.28)
BY_HAND = torch.tensor([[2, 2, 1], [2, 2, 1], [5 / 3, 5 / 3, 5 / 3]], dtype=torch.float64) / 5

taus = st.floats(1e-3, 1e3)


def uniform(count: int) -> Tensor:
    return torch.full((count, count), 1 / count, dtype=torch.float64)


def weights_of(w: Tensor, tau: float | Literal["auto"] = "auto") -> Tensor:
    weights = ask(Twin(tau=tau), w).weights
    assert weights is not None
    return weights


@given(w=models(), tau=taus)
def test_twi_1_weights_are_not_negative_and_sum_to_one(w: Tensor, tau: float) -> None:
    weights = weights_of(w, tau)
    assert (weights >= 0).all() and near(weights.sum(1), torch.ones(len(w), dtype=torch.float64))


@given(w=models(1, 1), count=st.integers(1, 7), tau=taus, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_twi_2_equal_models_weigh_alike(w: Tensor, count: int, tau: float, dtype: torch.dtype) -> None:
    third = (w / 3).to(dtype)  # whose mean is not exact
    assert near(weights_of(third.repeat(count, 1), tau), uniform(count))


@given(w=models(), tau=st.floats(1e-3, 100), far=st.lists(st.integers(-800, 800), min_size=4, max_size=4))
def test_twi_3_a_shift_of_all_models_changes_no_weight(w: Tensor, tau: float, far: list[int]) -> None:
    shift = vector(*far)[: w.shape[1]] / 8
    assert near(weights_of(w + shift, tau), weights_of(w, tau))


@given(w=models(), tau=st.floats(1e-3, 100), factor=st.floats(1e-3, 1e3))
def test_twi_4_the_scale_of_deviations_changes_no_weight(w: Tensor, tau: float, factor: float) -> None:
    w = w - w.mean(0)
    assert near(weights_of(w.mean(0) + factor * w, tau), weights_of(w, tau), 1e-9)


@given(w=models(2), tau=taus, data=st.data())
def test_twi_5_identical_clients_weigh_each_other_as_themselves(w: Tensor, tau: float, data: st.DataObject) -> None:
    one, other = data.draw(st.permutations(range(len(w))))[:2]
    weights = weights_of(w.index_copy(0, torch.tensor([other]), w[[one]]), tau)
    assert near(weights[one, other], weights[one, one]) and near(weights[other, one], weights[one, one])
    assert near(weights[one], weights[other])


@pytest.mark.parametrize("sizes", [(2, 2), (2, 9), (3, 2, 8), (2, 2, 2, 2), (2, 3, 4, 20)])
def test_twi_6_separate_groups_are_uniform_whatever_their_size(sizes: tuple[int, ...]) -> None:
    groups = torch.cat([torch.full((size,), g) for g, size in enumerate(sizes)])
    centres = 100 * torch.eye(len(sizes), dtype=torch.float64) + 7
    same_group = (groups[:, None] == groups).double()
    assert near(weights_of(centres[groups], 500.0), same_group / same_group.sum(1, keepdim=True))


@given(w=models(2, 2), tau=taus)
def test_twi_7_two_clients_weigh_alike(w: Tensor, tau: float) -> None:
    assert near(weights_of(w, tau), uniform(2))


# Why: the three ideal cases, with tau at its default


def noise(count: int, seed: int = 0, size: int = 20_000) -> Tensor:
    return torch.randn(count, size, generator=stream(seed, "noise"), dtype=torch.float64)


def test_why_models_of_one_distribution_are_averaged() -> None:
    # Twenty models that differ by noise: cosines are -1/19, give or take 1/sqrt(20000) = 0.007.
    weights = weights_of(50 + noise(20))
    assert near(weights, uniform(20), 0.02) and (1 / weights.square().sum(1) > 19.8).all()


@pytest.mark.parametrize("sizes", [(5, 5, 5, 5), (2, 3, 5, 10), (2, 18)])
def test_why_groups_are_averaged_whatever_their_size(sizes: tuple[int, ...]) -> None:
    # A sure twin weighs as 20 strangers, so the 20 - g strangers together hardly more than one of g twins.
    groups = torch.cat([torch.full((size,), g) for g, size in enumerate(sizes)])
    weights = weights_of(50 + noise(len(sizes))[groups] + 0.05 * noise(20, seed=1))
    for i in range(20):
        size = sizes[groups[i]]
        mates = weights[i, groups == groups[i]]
        assert abs(mates.sum() - 20 * size / (20 * size + 20 - size)) < 0.01 and mates.max() / mates.min() < 1.2


def test_why_likeness_is_measured_by_the_nearest_twin() -> None:
    # Groups 0 and 1 have much in common, and less than their own members: they do not merge.
    centres = noise(5)
    centres[1] = 0.5 * centres[0] + 0.75**0.5 * centres[1]
    groups = torch.arange(20) // 4
    weights = weights_of(50 + centres[groups] + 0.05 * noise(20, seed=1))
    assert weights[0, 1] > 3 * weights[0, 4] > 3 * weights[0, 8]


def test_why_a_client_without_a_twin_gets_nearly_the_average() -> None:
    # Four groups of five and one client on its own: as far from all of them, its row is nearly uniform.
    groups = torch.arange(21) // 5
    weights = weights_of(50 + noise(5)[groups] + 0.05 * noise(21, seed=1))
    assert near(weights[20], uniform(21)[20], 0.02) and 1 / weights[20].square().sum() > 20
    assert weights[:20, 20].max() < 0.02  # and to the others it is one of 16 strangers


# By hand


def judged(data: Tensor, val: Tensor | None, rate: float = 0.5) -> Turn:
    whole = turn(data, rate)
    examples = None if val is None else Split(val, torch.zeros(len(val), dtype=torch.int64))
    return whole._replace(data=Data(whole.data.train, examples))


def test_one_round_by_hand() -> None:
    method = Twin(tau=HALVING)
    server = holding(method, STAR)
    down = sent_by(method, server, torch.arange(3), 2)
    assert near(down.weights, BY_HAND)
    # u_0 = mean + 0.4 (4, 3) + 0.4 (4, -3) + 0.2 (-8, 0) = mean + (1.6, 0); u_2 is the mean.
    assert near(down.each["params"], torch.tensor([[11.6, 20], [11.6, 20], [10, 20]], dtype=torch.float64))
    # Client 0 learns from (13.6, 20) at rate 1/2: w = u_0 + (1, 0).
    go = judged(vector(13.6, 20)[None], vector(13, 20)[None])
    state, upload = method.local(point(2), client_at(method, STAR[0]), down.to(0), go)
    assert near(upload["params"], vector(12.6, 20)) and torch.equal(state["params"], upload["params"])
    after = method.aggregate(server, torch.tensor([0]), {k: v[None] for k, v in upload.items()}, 2)
    assert torch.equal(after["params"], torch.stack([upload["params"], STAR[1], STAR[2]]))


def sent(to: float) -> State:
    return {key: value[0] for key, value in message(vector(to)[None]).items()}


@pytest.mark.parametrize(("judge", "own"), [(6.0, True), (3.75, True), (3.6, False), (1.0, False)])
def test_a_clearly_better_own_model_is_held_and_gone_on_with(judge: float, own: bool) -> None:
    # Losses (7 - judge)^2 / 2 and judge^2 / 2; the own is 0.75 of the other at 3.75, 0.89 at 3.6.
    method = Twin()
    state, upload = method.local(
        point(1), client_at(method, vector(7)), sent(0), judged(vector(2)[None], vector(judge)[None])
    )
    # One example at 2, rate 1/2: halfway from where training starts.
    assert upload["params"].tolist() == [4.5 if own else 1.0] and set(upload) == {"params", "buffers", "counts"}
    assert same(model_of(state), upload) and method.holds(state) == ("own" if own else "cloud")
    held = method.personal(point(1), state, sent(-3), judged(vector(2)[None], None))
    assert held["params"].tolist() == (upload["params"].tolist() if own else [-3.0])
    assert not state["left_out"].any()  # it has validation data


def test_losses_are_summed_over_turns() -> None:
    method, go = Twin(), judged(vector(2)[None], vector(6)[None])
    state, _ = method.local(point(1), client_at(method, vector(7)), sent(0), go)
    assert (state["own_loss"].item(), state["cloud_loss"].item()) == (0.5, 18.0)
    state, _ = method.local(point(1), state, sent(5), go)  # it went on from 7 to 4.5
    assert (state["own_loss"].item(), state["cloud_loss"].item()) == (0.5 + 1.5**2 / 2, 18.5)


DATA = torch.arange(15, dtype=torch.float64)[:, None] * 8  # 0, 8, ..., 112


def test_a_seventh_is_left_out_of_the_first_third_of_the_rounds_and_judged_in_the_next_turn() -> None:
    method = Twin()
    fed = facts(1, rounds=6)._replace(sizes=torch.tensor([15]))
    state = {**method.init_client(point(1), fed, 0), **sent(7)}
    seen = []
    for round in (1, 2, 3, 4):
        out = state["left_out"]
        state, upload = method.local(point(1), before := state, sent(56), turn(DATA, 1.0, round=round))
        lost, cloud_lost = (((x - DATA[out]) ** 2).sum() / 2 for x in (before["params"], vector(56)))
        assert near(state["own_loss"], before["own_loss"] + lost)
        assert near(state["cloud_loss"], before["cloud_loss"] + cloud_lost)
        # At rate 1 training ends at the mean of what it has seen.
        assert near(upload["params"], DATA[~state["left_out"]].mean(0))
        seen.append(state["left_out"])
    assert [int(out.sum()) for out in seen] == [2, 2, 0, 0]
    assert not torch.equal(seen[0], seen[1])


def test_a_silo_on_trial_starts_from_the_cloud_model_and_holds_what_was_better_so_far() -> None:
    method = Twin()
    fed = facts(1, rounds=6)._replace(sizes=torch.tensor([15]))
    found = {"own_loss": vector(1)[0], "cloud_loss": vector(2)[0]}
    state = {**method.init_client(point(1), fed, 0), **sent(7), **found}
    go = judged(DATA, None, rate=0.5)
    for round, start in ((2, 56.0), (3, 7.0)):
        after, upload = method.local(point(1), state, sent(56), go._replace(round=round))
        assert near(upload["params"], (start + DATA[~after["left_out"]].mean(0)) / 2)
        assert method.holds(after) == "own"


def test_a_silo_with_few_examples_leaves_none_out() -> None:
    method, fed = Twin(), facts(1)._replace(sizes=torch.tensor([6]))
    state, upload = method.local(
        point(1), method.init_client(point(1), fed, 0), sent(0), judged(DATA[:6], None, rate=1.0)
    )
    assert not state["left_out"].any() and near(upload["params"], DATA[:6].mean(0))
    assert method.holds(state) == "cloud"


def test_own_starts_from_the_cloud_model_holds_the_trained_one_and_judges_nothing() -> None:
    method = Twin(keep="own")
    state, upload = method.local(
        point(1), client_at(method, vector(7)), sent(0), judged(vector(2)[None], vector(7)[None])
    )
    assert upload["params"].tolist() == [1.0] and same(model_of(state), upload) and method.holds(state) == "own"
    assert state["cloud_loss"] == 0 and method.evaluates == "held"
    assert same(method.personal(point(1), state, None, judged(DATA, None)), upload)


def test_attraction_pulls_towards_the_cloud_model() -> None:
    # u = 0, example 2, rate 1/2, two steps: 1, then 1 + (2 - 1)/2 = 1.5 without, 1 + (1 - 0.5 * 1)/2 = 1.25 with pull.
    go = judged(vector(2)[None], None)._replace(epochs=2)
    for pull, want in [(0.0, 1.5), (0.5, 1.25)]:
        _, upload = Twin(attraction=pull).local(point(1), client_at(Twin(), vector(7)), sent(0), go)
        assert near(upload["params"], vector(want))


def test_only_the_clients_asked_are_in_the_active_pool() -> None:
    # A fourth model would move the mean; absent, it does nothing. Two alone: halves. One alone: its own model.
    method = Twin(tau=HALVING)
    server = holding(method, torch.cat([STAR, vector(500, -300)[None]]))
    weights = sent_by(method, server, torch.tensor([0, 1, 2]), 2).weights
    assert near(weights, torch.cat([BY_HAND, torch.zeros(3, 1, dtype=torch.float64)], 1))
    pair = sent_by(method, server, torch.tensor([1, 3]), 2)
    assert near(pair.weights, vector(0, 0.5, 0, 0.5).expand(2, 4))
    alone = sent_by(method, server, torch.tensor([2]), 2)
    assert alone.weights.tolist() == [[0, 0, 1, 0]]
    assert alone.each["params"][0].tolist() == STAR[2].tolist()


def test_in_the_latest_pool_all_are_seen_from_the_mean_of_those_heard() -> None:
    # Client 3 was never heard: it sees the others from their mean, and changes nothing for them.
    method = Twin(tau=HALVING, pool="latest")
    server = holding(method, torch.cat([STAR, torch.zeros(1, 2, dtype=torch.float64)]), heard=torch.arange(3))
    server = {**server, "params": server["params"].index_copy(0, torch.tensor([3]), vector(12, 20)[None])}
    weights = sent_by(method, server, torch.tensor([0, 3]), 2).weights
    assert near(weights[0], torch.cat([BY_HAND[0], vector(0)]))
    # From the mean it lies at (2, 0): cosines 0.8, 0.8 and -1, so 0.8 to itself. The median of all is -0.8 and the
    # noise below it sqrt(2 * 0.04 / 6) = 0.12: chance is 0, and 0.8 is sure.
    twin = 2 ** (1 / (3 * 0.28))
    parts = vector(twin, twin, 1, twin)
    assert near(weights[1], parts / parts.sum())
    first = sent_by(method, method.init_server(point(2), facts(4)), torch.tensor([1, 2]), 1).weights
    assert first.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]


def test_a_model_at_the_mean_resembles_nobody() -> None:
    w = torch.stack([vector(1, 0), vector(-1, 0), vector(0, 0), vector(0, 0)])
    for shift in (0.0, 1 / 3, 1e6 / 3):  # at the mean but for rounding
        weights = weights_of(w + shift, HALVING)
        assert near(weights, uniform(4))  # cosines are 0 or -1: nobody has a twin


def test_self_is_as_similar_as_the_nearest_twin() -> None:
    # Pairs 0.75, 0, -1, each twice: median 0, noise sqrt((1 + 1) / 3), so chance is cut at 1/2. What 0.75 has above it
    # is half of what it could have, more than a third: a sure twin. The third client has none.
    similar = torch.tensor([[1, 0.75, 0], [0.75, 1, -1], [0, -1, 1]], dtype=torch.float64)
    for tau, twin in ((math.log(2), 2), (None, 3)):
        parts = torch.tensor([[twin, twin, 1], [twin, twin, 1], [1, 1, 1]], dtype=torch.float64)
        assert near(twin_shares(similar, tau), parts / parts.sum(1, keepdim=True))


def test_sure_twins_are_measured_by_the_nearest_and_others_by_a_third() -> None:
    # Pairs 0.6, 0.4 and 0, each twice: the median is 0.4 (the lower middle) or 0, by which chance is at least 0.4:
    # with the noise below it, sqrt(2 * 0.16 / 3) = 0.33, it is cut at 1/2. Then 0.6 has a fifth of what is left.
    similar = torch.tensor([[1, 0.6, 0.4], [0.6, 1, 0], [0.4, 0, 1]], dtype=torch.float64)
    few = 8 ** (0.2 * 3)
    assert near(twin_shares(similar, math.log(8))[0], vector(few, few, 1) / (2 * few + 1))
    # With no doubt chance is the median 0.4 and 0.6 has a third of what is left.
    assert near(twin_shares(similar, math.log(8), doubt=0)[0], vector(8, 8, 1) / 17)


def test_what_is_not_above_chance_does_not_count() -> None:
    # Six clients, cosines 0 but for a few: of 30 entries the median is 0, and the mean square of the 15 below it
    # 2 * 0.01 / 15, so chance is 3 times its root, 0.11: 0.05 says nothing, 0.3 does.
    similar = torch.eye(6, dtype=torch.float64)
    for i, j, cosine in ((0, 1, 0.3), (1, 2, 0.05), (2, 3, 0.05), (3, 4, 0.05), (4, 5, 0.05), (0, 3, -0.1)):
        similar[i, j] = similar[j, i] = cosine
    weights = twin_shares(similar)
    chance = 3 * math.sqrt(2 * 0.01 / 15)
    factor = 6 ** (3 * (0.3 - chance) / (1 - chance))
    for i in (0, 1):
        parts = torch.ones(6, dtype=torch.float64)
        parts[:2] = factor
        assert near(weights[i], parts / parts.sum())
    assert near(weights[2:], uniform(6)[2:])
    assert twin_shares(torch.ones(1, 1, dtype=torch.float64)).tolist() == [[1.0]]


# Whole runs


def test_runs_with_validation_data_are_pure_and_resume() -> None:
    at, on = list(Silos(tuple(silos()), 3, "own", "own").with_validation(0.3, 1).silos), task(batchnorm)
    settings: dict[str, Any] = {"at": at, "on": on, "rounds": 4, "epochs": 2, "participation": 0.8}
    whole = run("twin", **settings)
    assert torch.equal(flat(whole[-1]), flat(run(Watched(Twin()), engine="memory", **settings)[-1]))
    saved = through_disk(whole[1].saved)
    check_equal(whole[2:], run("twin", start=saved, workers=2, **settings))


def test_silos_among_strangers_go_on_alone_and_those_of_one_kind_hold_the_average() -> None:
    """Each silo names the two classes in its own way, or all in one; the record says what each holds."""

    rng = torch.Generator().manual_seed(0)

    def examples(count: int, angle: float) -> tuple[Tensor, Tensor]:
        x = torch.randn(count, 2, generator=rng)
        return x, (x @ vector(math.cos(angle), math.sin(angle)).float() > 0).long()

    for strange, held in ((True, "own"), (False, "cloud")):
        arrays = {
            f"{i}": (*examples(70, i * strange * math.tau / 5), *examples(50, i * strange * math.tau / 5))
            for i in range(5)
        }
        asked = Run("twin", model="mlr", rounds=9, epochs=5, lr=0.1, workers=1)
        result = amity.run(asked, own_silos(arrays))
        assert set(result.lines[0]["holds"].values()) == {"cloud"}
        assert list(result.lines[-1]["holds"].values()) == [held] * 5
        assert result.bmta > 90


def test_nothing_is_set_aside_for_good() -> None:
    x, y = torch.arange(40.0).view(20, 2), torch.arange(20) % 2
    data = own_silos({name: (x, y, x, y) for name in ("a", "b")})
    assert not isinstance(Twin(), Validating)
    assert prepare(Run(method="twin"), data).silos.sizes == (20, 20)


VARIANTS = [
    Case("twin", {"keep": "own", "tau": 3.0, "attraction": 0.5}),
    Case("twin", {"pool": "latest"}),
    # Mixtures of independent models are so bad that validated silos go on alone.
    Case("twin", {"keep": "own", "pool": "latest", "init": "independent"}),
]


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if law.variants])
@pytest.mark.parametrize("case", VARIANTS, ids=str)
def test_other_settings_keep_the_laws(case: Case, name: str) -> None:
    check_law(name, case, LAWS[name].over[0])


@pytest.mark.parametrize("case", VARIANTS, ids=str)
def test_other_settings_send_a_model(case: Case) -> None:
    sends_what_the_formula_says(case)
