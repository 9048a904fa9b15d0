"""FedFomo: the invariants FOM-1 to FOM-6 of the specification, one round by hand, what the server sends.

Models are points and losses half the squared distance to the data, summed over validation examples.
"""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from methods.points import draws, facts, half_square, message, point, turn, vector
from methods.tables import sends_what_the_formula_says, trains_alone
from small import batchnorm, copied, flat, near, run, same, silos, solver_of, task, turn_of
from torch import Tensor

from amity.contract import Data, Download, InputError, Relational, Silo, Split, State, Turn, Validating
from amity.data import Silos
from amity.federation.plan import federation_of
from amity.learn.streams import stream
from amity.learn.task import Task
from amity.learn.train import train
from amity.methods.fedfomo import FedFomo, gains_per_distance, shares_of_gains
from amity.testing import LAWS, check_law
from amity.testing.cases import Case, check_equal
from amity.testing.laws_state import through_disk
from amity.testing.watched import Watched


def validated(fraction: float = 0.2) -> list[Silo]:
    return list(Silos(tuple(silos()), 3, "own", "own").with_validation(fraction, 1).silos)


def rows_of(*numbers: float) -> Tensor:
    """Models of one number each.  # [n, 1]"""
    return vector(*numbers)[:, None]


def ids_of(down: Download) -> Tensor:
    """Whose models the receivers get.  # [who, M]"""
    ids = down.each["ids"]
    assert isinstance(ids, Tensor)
    return ids


def judged(train: list[float], val: list[float], rate: float = 0.5) -> Turn:
    """A turn of one full-batch step with points on a line to learn from and to judge by."""
    examples = Split(rows_of(*val), torch.zeros(len(val), dtype=torch.int64))
    whole = turn(rows_of(*train), rate)
    return whole._replace(data=Data(whole.data.train, examples))


def client(method: FedFomo, own: float, baseline: float, place: int = 1, clients: int = 5) -> State:
    first = method.init_client(point(1), facts(clients), place)
    return {**first, "params": vector(own), "baseline_params": vector(baseline)}


def sent(ids: list[int], *models: float) -> State:
    return {**message(rows_of(*models)), "ids": torch.tensor(ids)}


def test_one_round_by_hand() -> None:
    # Validation example 0: V(w) = w^2 / 2. The last training began at b = 4 (V = 8) and ended at w = 2 (V = 2).
    #   own 2: (8 - 2) / 2 = 3;   0: (8 - 0) / 4 = 2;   6: (8 - 18) / 2 = -5;   4 = b: 0
    # u = (3 * 2 + 2 * 0) / 5 = 1.2. Training example 0.2, rate 0.5: w = 1.2 - 0.5 (1.2 - 0.2) = 0.7.
    method = FedFomo()
    state, upload = method.local(point(1), client(method, 2, 4), sent([0, 3, 4], 0, 6, 4), judged([0.2], [0]))
    assert near(state["baseline_params"], vector(1.2)) and near(state["params"], vector(0.7))
    assert near(upload["params"], vector(0.7)) and upload["ids"].tolist() == [0, 3, 4]
    assert near(upload["scores"], vector(3, 2, -5, 0))
    assert near(method.relations(state), vector(0.4, 0.6, 0, 0, 0))
    personal = method.personal(point(1), state, None, None)  # type: ignore[arg-type]
    assert torch.equal(personal["params"], state["params"])
    # The server adds the scores to row 1 of the identity, and nothing to the others.
    server = method.init_server(point(1), facts(5))
    uploads = {key: value[None] for key, value in upload.items()}
    after = method.aggregate(server, torch.tensor([1]), uploads, 1)
    want = torch.eye(5, dtype=torch.float64)
    want[1] = vector(2, 4, 0, -5, 0)
    assert near(after["affinity"], want)
    assert torch.equal(after["params"][1], upload["params"]) and torch.equal(after["params"][2], server["params"][2])
    twice = method.aggregate(after, torch.tensor([1]), uploads, 2)
    assert near(twice["affinity"][1], vector(4, 7, 0, -10, 0))


def test_the_baseline_of_the_next_round_is_where_this_one_began() -> None:
    # u = 1.2 and w = 0.7 from above. Now V(b) = 0.72, V(own) = 0.245, distance 0.5: 0.95. Model 0: 0.72/1.2 = 0.6.
    method = FedFomo()
    go = judged([0.2], [0])
    state, _ = method.local(point(1), client(method, 2, 4), sent([0, 3, 4], 0, 6, 4), go)
    _, upload = method.local(point(1), state, sent([0], 0), go)
    assert near(upload["scores"], vector(0.95, 0.6))
    assert near(upload["params"], vector(0.5 * (0.95 * 0.7 / 1.55) + 0.1))


scores = st.lists(st.one_of(st.just(0.0), st.floats(-1e300, 1e300)), min_size=1, max_size=6).map(lambda s: vector(*s))


@given(scores)
def test_fom_1_weights_are_not_negative_and_sum_to_one(s: Tensor) -> None:
    weights = shares_of_gains(s)
    assert (weights >= 0).all() and near(weights.sum(), vector(1)[0])
    assert (weights[s <= 0] == 0).all() or not (s > 0).any()
    if not (s > 0).any():
        assert weights.tolist() == [1.0] + [0.0] * (len(s) - 1)


@pytest.mark.parametrize("baseline", [2.0, 1.0])
def test_fom_2_without_a_gain_the_own_model_stays(baseline: float) -> None:
    # V(w) = w^2 / 2: all candidates are farther from 0 than the baseline; at 2 the own model is the baseline itself.
    method = FedFomo()
    go = judged([0.2], [0], rate=1e-300)
    state, _ = method.local(point(1), client(method, 2, baseline), sent([0, 3], 5, -7), go)
    assert torch.equal(state["baseline_params"], vector(2))
    assert method.relations(state).tolist() == [0, 1, 0, 0, 0]


def test_fom_3_the_baseline_cancels() -> None:
    # b + sum_n a_n (w_n - b) = sum_n a_n w_n, as the paper writes its update.
    method, go = FedFomo(), judged([0.2], [0.3, -0.1])
    for own, b, other in itertools.product((2.0, -1.0), (4.0, 0.5), (0.0, 3.0)):
        before = client(method, own, b)
        state, _ = method.local(point(1), before, sent([0, 3], other, 1), go)
        weights = method.relations(state)[[1, 0, 3]]
        moved = b + (weights * (vector(own, other, 1) - b)).sum()
        assert near(state["baseline_params"][0], moved)


@given(st.integers(-9, 9), st.integers(-9, 9))
def test_fom_4_a_model_equal_to_the_baseline_has_no_weight(own: int, b: int) -> None:
    method = FedFomo()
    state, upload = method.local(point(1), client(method, own, b), sent([0, 3], b, 0), judged([0.2], [0]))
    assert upload["scores"][1] == 0 and method.relations(state)[0] == 0


@pytest.mark.parametrize("make", [None, batchnorm])
def test_fom_5_nobody_to_download_from_is_separate_on_the_training_part(make: Any) -> None:
    at, on = validated(), task(make) if make else task()
    assert all(
        one.val is not None and len(one.train.y) < len(whole.train.y) for one, whole in zip(at, silos(), strict=True)
    )
    solver = solver_of(FedFomo())
    alone = run("separate", at=at, on=on, solver=solver, rounds=6, participation=0.2)  # one silo per round
    for one, other in zip(alone, run("fedfomo", at=at, on=on, solver=solver, rounds=6, participation=0.2), strict=True):
        assert torch.equal(flat(other), flat(one)) and other.bytes_down == 0


@pytest.mark.parametrize("factor", [0.125, 1000.0])
def test_fom_6_the_scale_of_the_loss_changes_no_weight(factor: float) -> None:
    scaled = Task(point(1).make, (1,), 1, loss=lambda s, y: factor * half_square(s, y), dtype=torch.float64)
    method, down = FedFomo(), sent([0, 3, 4], 0, 3, 4)
    one, _ = method.local(point(1), client(method, 2, 5), down, judged([0.2], [0, 0.5]))
    other, _ = method.local(scaled, client(method, 2, 5), down, judged([0.2], [0, 0.5]))
    more, _ = method.local(point(1), client(method, 2, 5), down, judged([0.2], [0, 0.5] * 3))  # sums, not means
    assert method.relations(one).count_nonzero() == 4
    assert near(method.relations(other), method.relations(one)) and near(method.relations(more), method.relations(one))


def test_distance_is_euclidean_over_parameters() -> None:
    models, base = (
        message(torch.stack([vector(3, 4), vector(0, 1)])),
        {k: v[0] for k, v in message(vector(0, 0)[None]).items()},
    )
    judge = Split(vector(3, 4)[None], torch.zeros(1, dtype=torch.int64))
    # V(b) = 12.5; V = 0 at distance 5; V = (9 + 9) / 2 = 9 at distance 1.
    assert near(gains_per_distance(point(2), base, models, judge), vector(2.5, 3.5))


@pytest.mark.parametrize("bad", [1e200, -1e200])
def test_a_loss_that_overflows_gains_nothing(bad: float) -> None:
    method = FedFomo()
    state, upload = method.local(point(1), client(method, 2, 4), sent([0, 3], bad, 0), judged([0.2], [0]))
    assert upload["scores"].tolist() == [3, 0, 2] and torch.isfinite(state["params"]).all()
    state, upload = method.local(point(1), client(method, 2, bad), sent([0, 3], 1, 0), judged([0.2], [0]))
    assert upload["scores"].tolist() == [0, 0, 0] and torch.equal(state["baseline_params"], vector(2))


def test_buffers_follow_the_weights_and_counters_the_largest() -> None:
    at, on, method = validated(), task(batchnorm), FedFomo(budget="all")
    solver = solver_of(method)
    _, two, three = run(method, at=at, on=on, rounds=3, epochs=1, solver=solver)
    held = two.clients
    assert max(int((method.relations(c) > 0).sum()) for c in three.clients) > 1
    for i in range(5):
        weights = method.relations(three.clients[i])
        buffers = torch.stack([h["buffers"] for h in held])
        assert near(three.clients[i]["baseline_buffers"], weights @ buffers)
        counts = torch.stack([h["counts"] for h in held])[weights > 0].amax(0)
        assert torch.equal(three.clients[i]["baseline_counts"], counts)


# What the server sends


def at_server(method: FedFomo, affinity: Tensor, heard: list[int] | None = None) -> State:
    server = method.init_server(point(1), facts(len(affinity)))
    known = torch.zeros(len(affinity), dtype=torch.bool)
    known[list(range(len(affinity))) if heard is None else heard] = True
    return {**server, **message(torch.arange(len(affinity)).double()[:, None]), "affinity": affinity, "heard": known}


def of_round(round: int) -> Any:
    return lambda role, key: stream(0, role, key, round)


LIKES = torch.tensor(
    [[99, 3, 2, 1, -1], [5, 99, 7, -2, 6], [0, -1, 99, -3, -2], [1, 2, 3, 99, 4], [4, 3, 2, 1, 99]],
    dtype=torch.float64,
)


def test_the_most_liked_others_are_sent() -> None:
    method = FedFomo(budget=2, epsilon=0.0)
    down = method.download(at_server(method, LIKES), torch.arange(5), 1, draws)
    assert ids_of(down).tolist() == [[1, 2], [2, 4], [0, 1], [2, 4], [0, 1]]
    assert down.to(1)["params"].tolist() == [[2.0], [4.0]] and down.to(1)["ids"].tolist() == [2, 4]
    assert down.weights is None and not down.shared


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("who", [[0, 1, 2, 3, 4], [1, 2, 4], [0, 3], [2]])
def test_slots_are_filled_by_different_others_of_the_pool(who: list[int], epsilon: float) -> None:
    for budget in (1, 3, 50, "all"):
        method = FedFomo(budget=budget, epsilon=epsilon, epsilon_decay=0.0)
        for round in range(1, 9):
            ids = ids_of(method.download(at_server(method, LIKES), torch.tensor(who), round, of_round(round)))
            assert ids.shape == (len(who), min(len(who) - 1, 99 if budget == "all" else budget))
            for me, row in zip(who, ids.tolist(), strict=True):
                assert set(row) <= set(who) - {me} and len(set(row)) == len(row)


def test_the_latest_pool_is_everybody_ever_heard() -> None:
    method = FedFomo(budget="all", epsilon=0.0, pool="latest")
    ids = ids_of(method.download(at_server(method, LIKES, heard=[0, 2, 3]), torch.tensor([1, 2]), 2, draws))
    assert ids.tolist() == [[0, 2], [0, 3]]  # both get two; 1 was never heard and leaves out 3, which it likes least
    for round, heard in ((1, []), (2, [4])):
        down = method.download(at_server(method, LIKES, heard=heard), torch.arange(5), round, draws)
        assert ids_of(down).shape == (5, 0)


MANY = 300


def share_not_liked_best(method: FedFomo, round: int) -> float:
    """Of many clients that like client 0 or 1 best, how many are sent another one."""
    affinity = -torch.arange(MANY, dtype=torch.float64).expand(MANY, -1)
    chosen = ids_of(method.download(at_server(method, affinity), torch.arange(MANY), round, of_round(round)))
    best = torch.zeros(MANY, dtype=torch.int64)
    best[0] = 1
    return (chosen[:, 0] != best).double().mean().item()


@pytest.mark.parametrize(("round", "chance"), [(1, 0.3), (4, 0.15), (7, 0.0), (8, 0.0), (90, 0.0)])
def test_chance_fades_by_a_twentieth_per_round(round: int, chance: float) -> None:
    # 4 standard deviations of 300 draws; exactly nobody once the chance is gone.
    slack = 4 * (chance * (1 - chance) / MANY) ** 0.5
    assert abs(share_not_liked_best(FedFomo(budget=1), round) - chance) <= slack + chance / MANY


def test_random_slots_and_ties_are_uniform() -> None:
    ties = torch.zeros(6, 6, dtype=torch.float64)
    liked = torch.arange(36, dtype=torch.float64).view(6, 6)
    for method, affinity in [(FedFomo(budget=2, epsilon=0.0), ties), (FedFomo(2, 1.0, 0.0), liked)]:
        server = at_server(method, affinity)
        hits = torch.zeros(6, 6)
        for round in range(1, 301):
            ids = ids_of(method.download(server, torch.arange(6), round, of_round(round)))
            hits.scatter_add_(1, ids, torch.ones(ids.shape))
        assert (hits.diagonal() == 0).all() and (hits.sum(1) == 600).all()
        others = hits[~torch.eye(6, dtype=torch.bool)]  # 2 of 5 each, in 300 rounds: 120, standard deviation 8.5
        assert (others - 120).abs().max() < 4.5 * 8.5


def test_draws_follow_keys_not_places() -> None:
    order = torch.tensor([3, 0, 4, 1, 2])  # new place -> old place
    method = FedFomo(budget=2, epsilon=0.5, epsilon_decay=0.0)
    server = at_server(method, LIKES.round(decimals=-1))  # ties too
    moved = {**server, "keys": server["keys"][order], "affinity": server["affinity"][order][:, order]}
    for round in range(1, 9):
        ids = ids_of(method.download(server, torch.arange(5), round, of_round(round)))
        other = ids_of(method.download(moved, torch.arange(5), round, of_round(round)))
        assert torch.equal(order[other].sort(1).values, ids[order])


# Whole runs, with validation data


@pytest.mark.parametrize(
    "settings", [{}, {"budget": 1}, {"budget": 2, "pool": "latest", "init": "independent"}], ids=str
)
def test_a_run_by_its_equations(settings: dict[str, Any]) -> None:
    """Every turn recomputed from the states before it; clients that are absent or lose their upload included."""
    at, on, method = validated(), task(), FedFomo(**settings)
    fed, solver = federation_of(at, 6, 1), solver_of(method)
    lossy: dict[str, Any] = {"participation": 0.8, "drop": 0.25, "drop_phase": "after"}
    reports = run(method, at=at, on=on, rounds=6, epochs=2, solver=solver, **lossy)
    server = method.init_server(on, fed)
    clients = [method.init_client(on, fed, i) for i in range(5)]
    affinity, mixed = torch.eye(5, dtype=torch.float64), 0
    for report in reports:
        for i in report.epochs:
            new, old, val = report.clients[i], clients[i], at[i].val
            assert val is not None
            ids = [j for j in range(5) if j != i and new["relations"][j] > 0]
            base = {key: old[f"baseline_{key}"] for key in ("params", "buffers", "counts")}

            def gain(w: Tensor, base: State = base, val: Split = val) -> float:
                away = (w - base["params"]).norm().item()
                drop = on.evaluate(base, val).loss - on.evaluate({**base, "params": w}, val).loss
                return 0.0 if away < 1e-12 else drop / away

            own, others = max(0.0, gain(old["params"])), {j: gain(server["params"][j]) for j in ids}
            assert all(value > 0 for value in others.values())
            total = own + sum(others.values())
            if total == 0:
                u = old["params"]
            else:
                u = (own * old["params"] + sum(others[j] * server["params"][j] for j in ids)) / total
                assert near(new["relations"].sum(), vector(1)[0])
            mixed += len(ids)
            assert near(new["baseline_params"], u)
            again = train(
                on,
                {**base, "params": new["baseline_params"]},
                turn_of(fed, at, i, solver, round=report.round, epochs=2),
            )
            assert torch.equal(new["params"], again["params"])
        after = report.progress.server
        for i in range(5):
            took_part = i in report.took_part
            assert torch.equal(after["params"][i], report.clients[i]["params"] if took_part else server["params"][i])
            assert took_part or torch.equal(after["affinity"][i], affinity[i])
            assert took_part or i in report.dropped or same(report.clients[i], clients[i])
        assert report.weights is not None
        assert torch.equal(report.weights, torch.stack([c["relations"] for c in report.clients]))
        server, clients, affinity = after, report.clients, after["affinity"]
    assert mixed > 5 and (affinity != torch.eye(5)).any()


def test_runs_with_validation_data_are_pure_and_resume() -> None:
    at, on = validated(), task(batchnorm)
    whole = run("fedfomo", settings={"budget": 2}, at=at, on=on, rounds=4, epochs=1, participation=0.8)
    again = run(Watched(FedFomo(budget=2)), engine="memory", at=at, on=on, rounds=4, epochs=1, participation=0.8)
    assert torch.equal(flat(whole[-1]), flat(again[-1]))
    saved = through_disk(whole[1].saved)
    how: dict[str, Any] = {"at": at, "on": on, "rounds": 4, "epochs": 1, "participation": 0.8, "workers": 2}
    check_equal(whole[2:], run("fedfomo", settings={"budget": 2}, start=saved, **how))


VARIANTS = [Case("fedfomo", {"budget": 2}), Case("fedfomo", {"pool": "latest", "init": "independent"})]


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if law.variants])
@pytest.mark.parametrize("case", VARIANTS, ids=str)
def test_other_settings_keep_the_laws(case: Case, name: str) -> None:
    check_law(name, case, LAWS[name].over[0])


@pytest.mark.parametrize("case", VARIANTS, ids=str)
def test_one_silo_trains_alone(case: Case) -> None:
    trains_alone(case)


def test_a_budget_is_what_is_sent() -> None:
    sends_what_the_formula_says(VARIANTS[0])


def test_it_asks_for_validation_data_and_shows_its_relations() -> None:
    method = FedFomo()
    assert isinstance(method, Validating) and method.validation == 0.2 and isinstance(method, Relational)
    with pytest.raises(InputError, match="budget to be a whole number >= 1 or one of all, got 0"):
        FedFomo(budget=0)  # nobody to download from is separate


def test_arguments_are_not_changed() -> None:
    method, down = FedFomo(), sent([0, 3, 4], 0, 6, 4)
    before, kept = client(method, 2, 4), copied(down)
    old = copied(before)
    method.local(point(1), before, down, judged([0.2], [0]))
    assert same(before, old) and same(down, kept)
