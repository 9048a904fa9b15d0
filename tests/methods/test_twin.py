"""Twin attention: the invariants TWI-1 to TWI-7 of the specification, its three ideal cases, rounds by hand.

STAR has the mean (10, 20); seen from it the models are (4, 3), (4, -3) and (-8, 0), with cosines 0.28, -0.8 and -0.8.
Their median is -0.8 and nothing lies below it, so chance is 0: only the first two are twins.
With tau = sqrt(2) ln 2 a cosine of 0 weighs 1 and one of -1/sqrt(2) weighs 1/2.
"""

import math
from typing import Any

import pytest
import test_contract as laws
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import batchnorm, flat, near, run, same, silos, task
from test_cloud import ask, client_at, draws, facts, holding, message, models, point, turn, vector
from torch import Tensor

from amity.attention import twin_shares
from amity.config import Run
from amity.contract import Data, InputError, Split, Turn, Validating
from amity.data import Silos, federation
from amity.methods.twin import Twin
from amity.run import execute, prepare
from amity.streams import stream

STAR = torch.tensor([[14.0, 23.0], [14.0, 17.0], [2.0, 20.0]], dtype=torch.float64)
HALVING = math.log(2) / 0.28
BY_HAND = torch.tensor([[2, 2, 1], [2, 2, 1], [5 / 3, 5 / 3, 5 / 3]], dtype=torch.float64) / 5

taus = st.floats(1e-3, 1e3)


def uniform(count: int) -> Tensor:
    return torch.full((count, count), 1 / count, dtype=torch.float64)


def weights_of(w: Tensor, tau: float = 10.0) -> Tensor:
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
    groups = torch.cat([torch.full((size,), g) for g, size in enumerate(sizes)])
    weights = weights_of(50 + noise(len(sizes))[groups] + 0.05 * noise(20, seed=1))
    for i in range(20):
        mates = weights[i, groups == groups[i]]
        assert mates.sum() > 0.99 and mates.max() / mates.min() < 1.2
        assert abs(1 / weights[i].square().sum() / sizes[groups[i]] - 1) < 0.05


def test_why_a_client_without_a_twin_gets_nearly_the_average() -> None:
    # Four groups of five and one client on its own: as far from all of them, its row is nearly uniform.
    groups = torch.arange(21) // 5
    weights = weights_of(50 + noise(5)[groups] + 0.05 * noise(21, seed=1))
    assert near(weights[20], uniform(21)[20], 0.02) and 1 / weights[20].square().sum() > 20
    assert weights[:20, 20].max() < 1e-3  # and nobody else learns from it


# By hand


def judged(data: Tensor, val: Tensor | None, rate: float = 0.5) -> Turn:
    whole = turn(data, rate)
    examples = None if val is None else Split(val, torch.zeros(len(val), dtype=torch.int64))
    return whole._replace(data=Data(whole.data.train, examples))


def test_one_round_by_hand() -> None:
    method = Twin(tau=HALVING)
    server = holding(method, STAR)
    sent = method.download(server, torch.arange(3), 2, draws)
    assert sent.weights is not None and near(sent.weights, BY_HAND)
    # u_0 = mean + 0.4 (4, 3) + 0.4 (4, -3) + 0.2 (-8, 0) = mean + (1.6, 0); u_2 is the mean.
    assert near(sent.each["params"], torch.tensor([[11.6, 20], [11.6, 20], [10, 20]], dtype=torch.float64))  # type: ignore[arg-type]
    # Client 0 learns from (13.6, 20) at rate 1/2: w = u_0 + (1, 0).
    go = judged(vector(13.6, 20)[None], vector(13, 20)[None])
    state, upload = method.local(point(2), client_at(method, STAR[0]), sent.to(0), go)
    assert near(upload["params"], vector(12.6, 20)) and torch.equal(state["params"], upload["params"])
    after = method.aggregate(server, torch.tensor([0]), {k: v[None] for k, v in upload.items()}, 2)
    assert torch.equal(after["params"], torch.stack([upload["params"], STAR[1], STAR[2]]))


@pytest.mark.parametrize(("judge", "holds_cloud"), [(0.9, False), (0.5, False), (0.4, True), (-3.0, True)])
def test_the_better_model_on_validation_data_is_held_and_the_trained_one_uploaded(
    judge: float, holds_cloud: bool
) -> None:
    # u = 0, one example at 2, rate 1/2: w = 1. The example 0.5 is as far from both: a tie keeps w.
    method = Twin()
    down = {key: value[0] for key, value in message(vector(0)[None]).items()}
    go = judged(vector(2)[None], vector(judge)[None])
    state, upload = method.local(point(1), client_at(method, vector(7)), down, go)
    assert upload["params"].tolist() == [1.0] and set(upload) == {"params", "buffers", "counts"}
    assert state["params"].tolist() == [0.0 if holds_cloud else 1.0] and bool(state["cloud"]) == holds_cloud
    assert method.personal(point(1), state, None, go)["params"].tolist() == state["params"].tolist()
    # What is held has no part in the next round: training begins at the cloud model.
    other, again = method.local(point(1), {**state, "params": vector(-5)}, down, go)
    assert same(again, upload) and same(other, state)


@pytest.mark.parametrize("method", [Twin(keep="own"), Twin()], ids=str)
def test_the_trained_model_is_held_where_nothing_can_be_judged(method: Twin) -> None:
    down = {key: value[0] for key, value in message(vector(0)[None]).items()}
    val = vector(0)[None] if method.keep == "own" else None
    state, _ = method.local(point(1), client_at(method, vector(7)), down, judged(vector(2)[None], val))
    assert state["params"].tolist() == [1.0] and not state["cloud"]


def test_attraction_pulls_towards_the_cloud_model() -> None:
    # u = 0, example 2, rate 1/2, two steps: 1, then 1 + (2 - 1)/2 = 1.5 without, 1 + (1 - 0.5 * 1)/2 = 1.25 with pull.
    down = {key: value[0] for key, value in message(vector(0)[None]).items()}
    go = judged(vector(2)[None], None)._replace(epochs=2)
    for pull, want in [(0.0, 1.5), (0.5, 1.25)]:
        _, upload = Twin(attraction=pull).local(point(1), client_at(Twin(), vector(7)), down, go)
        assert near(upload["params"], vector(want))


def test_only_the_clients_asked_are_in_the_active_pool() -> None:
    # A fourth model would move the mean; absent, it does nothing. Two alone: halves. One alone: its own model.
    method = Twin(tau=HALVING)
    server = holding(method, torch.cat([STAR, vector(500, -300)[None]]))
    weights = method.download(server, torch.tensor([0, 1, 2]), 2, draws).weights
    assert weights is not None and near(weights, torch.cat([BY_HAND, torch.zeros(3, 1, dtype=torch.float64)], 1))
    pair = method.download(server, torch.tensor([1, 3]), 2, draws)
    assert pair.weights is not None and near(pair.weights, vector(0, 0.5, 0, 0.5).expand(2, 4))
    alone = method.download(server, torch.tensor([2]), 2, draws)
    assert alone.weights is not None and alone.weights.tolist() == [[0, 0, 1, 0]]
    assert alone.each["params"][0].tolist() == STAR[2].tolist()  # type: ignore[index]


def test_in_the_latest_pool_all_are_seen_from_the_mean_of_those_heard() -> None:
    # Client 3 was never heard: it sees the others from their mean, and changes nothing for them.
    method = Twin(tau=HALVING, pool="latest")
    server = holding(method, torch.cat([STAR, torch.zeros(1, 2, dtype=torch.float64)]), heard=torch.arange(3))
    server = {**server, "params": server["params"].index_copy(0, torch.tensor([3]), vector(12, 20)[None])}
    weights = method.download(server, torch.tensor([0, 3]), 2, draws).weights
    assert weights is not None and near(weights[0], torch.cat([BY_HAND[0], vector(0)]))
    # From the mean it lies at (2, 0): cosines 0.8, 0.8 and -1, so 0.8 to itself. The median of all is -0.8 and the
    # noise below it sqrt(2 * 0.04 / 6) = 0.12: chance is 0.
    twin = 2 ** (0.8 / 0.28)
    parts = vector(twin, twin, 1, twin)
    assert near(weights[1], parts / parts.sum())
    first = method.download(method.init_server(point(2), facts(4)), torch.tensor([1, 2]), 1, draws).weights
    assert first is not None and first.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]


def test_a_model_at_the_mean_resembles_nobody() -> None:
    w = torch.stack([vector(1, 0), vector(-1, 0), vector(0, 0), vector(0, 0)])
    for shift in (0.0, 1 / 3, 1e6 / 3):  # at the mean but for rounding
        weights = weights_of(w + shift, HALVING)
        assert near(weights, uniform(4))  # cosines are 0 or -1: nobody has a twin


def test_self_is_as_similar_as_the_nearest_twin() -> None:
    # Pairs 0.75, 0, -1, each twice: median 0, noise sqrt((1 + 1) / 3), so chance is cut at 1/2. What 0.75 has above it
    # is half of what it could have; tau = 2 log 2 makes that a factor 2.
    similar = torch.tensor([[1, 0.75, 0], [0.75, 1, -1], [0, -1, 1]], dtype=torch.float64)
    parts = torch.tensor([[2, 2, 1], [2, 2, 1], [1, 1, 1]], dtype=torch.float64)
    assert near(twin_shares(similar, 2 * math.log(2)), parts / parts.sum(1, keepdim=True))


def test_what_is_not_above_chance_does_not_count() -> None:
    # Six clients, cosines 0 but for a few: of 30 entries the median is 0, and the mean square of the 15 below it
    # 2 * 0.01 / 15, so chance is 3 times its root, 0.11: 0.05 says nothing, 0.3 does.
    similar = torch.eye(6, dtype=torch.float64)
    for i, j, cosine in ((0, 1, 0.3), (1, 2, 0.05), (2, 3, 0.05), (3, 4, 0.05), (4, 5, 0.05), (0, 3, -0.1)):
        similar[i, j] = similar[j, i] = cosine
    weights = twin_shares(similar, 10.0)
    chance = 3 * math.sqrt(2 * 0.01 / 15)
    factor = math.exp(10 * (0.3 - chance) / (1 - chance))
    for i in (0, 1):
        parts = torch.ones(6, dtype=torch.float64)
        parts[:2] = factor
        assert near(weights[i], parts / parts.sum())
    assert near(weights[2:], uniform(6)[2:])
    assert twin_shares(torch.ones(1, 1, dtype=torch.float64), 10.0).tolist() == [[1.0]]


# Whole runs, with validation data


def test_runs_with_validation_data_are_pure_and_hold_the_better_model() -> None:
    at, on = list(Silos(tuple(silos()), 3, "own", "own").with_validation(0.3, 1).silos), task(batchnorm)
    settings: dict[str, Any] = {"at": at, "on": on, "rounds": 4, "epochs": 2, "participation": 0.8}
    whole = run("twin", **settings)
    assert torch.equal(flat(whole[-1]), flat(run(laws.Watched(Twin()), **settings)[-1]))
    saved = laws.through_disk(whole[1].progress)
    assert laws.equal_runs(whole[2:], run("twin", start=saved, workers=2, **settings))
    # Training does not see what is held: uploads are those of keep = own, of which this is the better by validation.
    own = run("twin", settings={"keep": "own"}, **settings)
    seen = set()
    for one, other in zip(whole, own, strict=True):
        assert same(one.progress.server, other.progress.server)
        for i in one.took_part:
            held, trained = one.progress.clients[i], other.progress.clients[i]
            assert at[i].val is not None and not trained["cloud"]
            if held["cloud"]:
                assert on.evaluate(held, at[i].val).loss < on.evaluate(trained, at[i].val).loss
            else:
                assert same(held, trained)
            assert one.scores[i].loss == on.evaluate(held, at[i].test).loss
            seen.add(bool(held["cloud"]))
    assert seen == {True, False}


def test_the_record_says_which_model_each_silo_holds() -> None:
    rng = torch.Generator().manual_seed(0)
    arrays = {
        name: tuple(part for n in (40, 10) for part in (torch.randn(n, 3, generator=rng), torch.arange(n) % 3))
        for name in ("a", "b", "c")
    }
    for keep, words in (("validated", {"cloud", "trained"}), ("own", {"trained"})):
        result = execute(Run("twin", rounds=4, epochs=2, lr=0.1, settings={"keep": keep}), federation(arrays))  # type: ignore[arg-type]
        assert all(line["holds"].keys() == {"a", "b", "c"} for line in result.lines)
        assert {word for line in result.lines for word in line["holds"].values()} == words  # noise: both occur


def test_validation_data_are_set_aside_only_where_they_are_looked_at() -> None:
    x, y = torch.arange(40.0).view(20, 2), torch.arange(20) % 2
    data = federation({name: (x, y, x, y) for name in ("a", "b")})
    assert isinstance(Twin(), Validating)
    assert prepare(Run(method="twin"), data).silos.sizes == (17, 17)
    assert prepare(Run(method="twin", settings={"keep": "own"}), data).silos.sizes == (20, 20)
    with pytest.raises(InputError, match="twin needs validation data, got val_fraction 0"):
        prepare(Run(method="twin", val_fraction=0.0), data)


VARIANTS = [
    laws.Case("twin", {"keep": "own", "tau": 3.0, "attraction": 0.5}),
    laws.Case("twin", {"pool": "latest", "init": "independent"}),
]
LAWS = [
    laws.test_the_six_functions_are_pure,
    laws.test_state_keeps_keys_shapes_and_types,
    laws.test_com_6_rerun_is_bit_identical,
    laws.test_identical_clients_get_identical_models,
    laws.test_coupling_other_silos_labels_change_my_model,
    laws.test_com_3_mixture_of_equal_models_is_that_model,
    laws.test_com_3_nothing_moves_at_rate_zero,
    laws.test_com_5_bytes_equal_the_formula,
    laws.test_edge_one_active_client,
    laws.test_edge_zero_vector_models,
    laws.test_edge_all_models_equal,
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=str)
def test_other_settings_keep_the_laws(case: laws.Case, law: Any) -> None:
    law(case)


@pytest.mark.parametrize("case", VARIANTS, ids=str)
def test_other_settings_keep_the_laws_of_lots(case: laws.Case) -> None:
    laws.test_com_1_relabelling_permutes(case, laws.UNEVEN)
    laws.test_com_6_resume_equals_uninterrupted(case, laws.SOME)
    for phase in ("before", "after"):
        laws.test_com_4_absent_clients_are_unchanged(case, phase)
