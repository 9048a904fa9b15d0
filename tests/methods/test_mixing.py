"""What the attention methods share: state, pools, mixing, buffers, the client's proximal step."""

import dataclasses
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from methods.points import (
    HALVING,
    TRIANGLE,
    ask,
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
from small import batchnorm, near, run, same, silos
from small import task as small_task
from torch import Tensor

from amity.contract import InputError, Method, Solver, State
from amity.federation.plan import federation_of
from amity.learn.task import Task
from amity.learn.train import train
from amity.methods import _mixing as cloud
from amity.methods.fedacs import FedACS
from amity.methods.fedamp import FedAMP
from amity.methods.heurfedamp import HeurFedAMP
from amity.methods.pfedatt import PFedAtt


def some_of(count: int, least: int = 0) -> st.SearchStrategy[Tensor]:
    chosen = st.sets(st.integers(0, count - 1), min_size=least).map(sorted)
    return chosen.map(lambda positions: torch.tensor(positions, dtype=torch.int64))


ATTENTIVE: dict[str, Method] = {
    "fedamp": FedAMP(sigma=1.0),
    "fedamp-half": FedAMP(sigma=1.0, self_weight=0.5),
    "fedamp-theory": FedAMP(mode="theory", sigma=1.0, alpha=2.0),
    "fedamp-raw": FedAMP(mode="theory", sigma=1.0, alpha=20.0, on_negative="raw"),
    "heurfedamp": HeurFedAMP(sigma=2.0),
    "pfedatt": PFedAtt(k=2, sigma=2.0),
    "pfedatt-softmax": PFedAtt(k=2, sigma=2.0, self_weight="softmax"),
    "pfedatt-step": PFedAtt(k=3, sigma=1.0, mode="step", kernel="euclidean", alpha=2.0),
    "fedacs": FedACS(p=0.3),
}
CLIENTS = 5
each_method = pytest.mark.parametrize("name", ATTENTIVE)
each_pool = pytest.mark.parametrize("pool", ["active", "latest"])


def variant(name: str, **changes: object) -> Method:
    return dataclasses.replace(ATTENTIVE[name], **changes)  # type: ignore[type-var]


@each_method
@given(data=st.data())
def test_recorded_weights_are_what_was_mixed(name: str, data: st.DataObject) -> None:
    pool = data.draw(st.sampled_from(["active", "latest"]))
    method = variant(name, pool=pool, init="independent")
    heard = data.draw(some_of(CLIENTS), "heard")
    who = data.draw(some_of(CLIENTS, least=1), "who")
    server = holding(method, data.draw(models(CLIENTS, CLIENTS)), heard=heard)
    sent = sent_by(method, server, who, 1)
    assert sent.weights.shape == (len(who), CLIENTS)
    assert near(sent.each["params"], sent.weights @ server["params"])
    assert near(sent.weights.sum(1), torch.ones(len(who), dtype=torch.float64))
    pooled = set((who if pool == "active" else heard).tolist())
    for client, row in zip(who.tolist(), sent.weights, strict=True):
        assert set(row.nonzero()[:, 0].tolist()) <= pooled | {client}


@each_method
def test_with_an_active_pool_the_models_of_absent_clients_do_not_matter(name: str) -> None:
    method = variant(name)
    here, one = torch.tensor([0, 2, 3]), torch.randn(CLIENTS, 3, generator=draws("a", 0), dtype=torch.float64)
    other = one.clone()
    other[[1, 4]] = 7.0
    sent, again = (sent_by(method, holding(method, w), here, 1) for w in (one, other))
    assert torch.equal(sent.each["params"], again.each["params"])
    assert near(sent.each["params"], ask(method, one[here]).each["params"])


def test_a_latest_pool_mixes_the_last_models_of_absent_clients_by_hand() -> None:
    # Client 0 alone is asked. Weights go as 2^-d^2 over itself, d^2 = 1 and 4: 16, 8 and 1 parts of 25.
    method = FedAMP(sigma=HALVING, pool="latest")
    sent = sent_by(method, holding(method, TRIANGLE), torch.tensor([0]), 2)
    assert near(sent.weights, vector(16, 8, 1)[None] / 25)
    assert near(sent.each["params"], vector(8 / 25, 2 / 25)[None])


@each_method
def test_a_client_never_heard_sees_the_pool_and_itself_and_nobody_sees_it(name: str) -> None:
    method = variant(name, pool="latest", init="independent")
    heard, who = torch.tensor([0, 1, 4]), torch.tensor([1, 2, 3])
    server = holding(method, torch.randn(CLIENTS, 3, generator=draws("b", 0), dtype=torch.float64), heard=heard)
    weights = sent_by(method, server, who, 2).weights
    for row, view in zip(weights, ([0, 1, 4], [0, 1, 4, 2], [0, 1, 4, 3]), strict=True):
        # Those it sees, as a federation of their own; the row of client 1, or the newcomer's, which stands last.
        alone = ask(method, server["params"][view]).weights[1 if len(view) == 3 else -1]
        assert near(row[view], alone)
        assert row.count_nonzero() == alone.count_nonzero()


@each_method
@each_pool
def test_a_pool_of_one_leaves_the_model_as_it_is(name: str, pool: str) -> None:
    method = variant(name, pool=pool, init="independent")
    heard = torch.arange(CLIENTS) if pool == "active" else torch.tensor([], dtype=torch.int64)
    server = holding(method, torch.randn(CLIENTS, 3, generator=draws("c", 0), dtype=torch.float64), heard=heard)
    who = torch.tensor([2]) if pool == "active" else torch.tensor([1, 2, 4])
    sent = sent_by(method, server, who, 1)
    assert torch.equal(sent.each["params"], server["params"][who])
    assert torch.equal(sent.weights, torch.eye(CLIENTS, dtype=torch.float64)[who])


@each_method
def test_equal_models_stay_what_they_are(name: str) -> None:
    w = torch.randn(1, 50, generator=draws("d", 0), dtype=torch.float64)
    assert near(ask(variant(name), w.repeat(9, 1)).each["params"], w.repeat(9, 1))


@each_method
@each_pool
def test_rounds_of_the_engine_mix_by_the_recorded_weights(name: str, pool: str) -> None:
    # With rate 0 a client uploads exactly the cloud model it was sent.
    method = variant(name, pool=pool, init="independent")
    fed = federation_of(silos(), rounds=6, seed=1)
    before = method.init_server(small_task(), fed)["params"].clone()
    solver = Solver("sgd", 0.0)
    for report in run(method, rounds=6, solver=solver, epochs=1, participation=0.8, drop=0.25, drop_phase="after"):
        assert report.weights is not None
        asked = ~report.weights.isnan().any(1)
        assert asked.sum() == 4 and len(report.took_part) == 3
        expected = before.clone()
        expected[report.took_part] = report.weights[report.took_part] @ before
        before = report.progress.server["params"]
        assert near(before, expected)


def normalising(count: int) -> tuple[Task, State]:
    """Uploads of models with BatchNorm buffers and counters, no two alike."""
    on, rng = small_task(batchnorm), draws("e", 0)
    first = on.init(rng)
    width = {key: (count, len(value)) for key, value in first.items()}
    return on, {
        "params": torch.randn(*width["params"], generator=rng, dtype=torch.float64),
        "buffers": torch.rand(*width["buffers"], generator=rng, dtype=torch.float64),
        "counts": torch.randint(1, 100, width["counts"], generator=rng),
    }


@pytest.mark.parametrize(
    "name", [name for name in ATTENTIVE if name not in ("fedamp-theory", "fedamp-raw", "pfedatt-step")]
)
def test_convex_rows_mix_buffers_like_parameters_and_take_the_largest_counter(name: str) -> None:
    on, uploads = normalising(CLIENTS)
    method = variant(name)
    who = torch.tensor([0, 2, 3, 4])
    server = method.aggregate(method.init_server(on, facts(CLIENTS)), torch.arange(CLIENTS), uploads, 1)
    sent = sent_by(method, server, who, 1)
    assert near(sent.each["buffers"], sent.weights @ uploads["buffers"])
    for row, counts in zip(sent.weights, sent.each["counts"], strict=True):
        assert torch.equal(counts, uploads["counts"][row > 0].amax(0))
    assert sent.notes == ()


def test_buffers_stay_local_where_a_row_has_negative_weights() -> None:
    # Weights 4 * 2^-d^2: 2, 1/4 and 1/8 between the three. Self weights 1 - 9/4, 1 - 17/8 and 1 - 3/8: only the
    # third row is convex.
    on, uploads = normalising(3)
    uploads["params"] = torch.zeros_like(uploads["params"])
    uploads["params"][:, :2] = TRIANGLE
    method = FedAMP(mode="theory", sigma=HALVING, alpha=4 * HALVING, on_negative="raw")
    server = method.aggregate(method.init_server(on, facts(3)), torch.arange(3), uploads, 1)
    sent = sent_by(method, server, torch.arange(3), 1)
    assert near(sent.weights, torch.stack([vector(-10, 16, 2), vector(16, -9, 1), vector(2, 1, 5)]) / 8)
    assert torch.equal(sent.each["buffers"][:2], uploads["buffers"][:2])
    assert near(sent.each["buffers"][2], vector(0.25, 0.125, 0.625) @ uploads["buffers"])
    assert sent.notes == ("negative weights: buffers stay local",)


def test_the_server_keeps_last_uploads_and_who_was_heard() -> None:
    method = FedAMP(init="independent")
    server = method.init_server(point(2), facts(3))
    before = {key: value.clone() for key, value in server.items()}
    after = method.aggregate(server, torch.tensor([0, 2]), message(TRIANGLE[[0, 2]]), 1)
    assert torch.equal(after["params"][[0, 2]], TRIANGLE[[0, 2]])
    assert torch.equal(after["params"][1], server["params"][1])
    assert after["heard"].tolist() == [True, False, True]
    assert same(server, before)


@each_method
@given(data=st.data())
def test_similarities_that_are_kept_are_those_of_the_models(name: str, data: st.DataObject) -> None:
    """Round after round some models change; what the server then sends is what it would send if it had kept none."""
    method = variant(name, pool="latest", init="independent")
    server = method.init_server(point(3), facts(CLIENTS))
    for round in range(1, 5):
        who = data.draw(some_of(CLIENTS, least=1), "who")
        fresh = torch.randn(len(who), 3, generator=draws(f"new {round}", 0), dtype=torch.float64)
        server = method.aggregate(server, who, message(fresh), round)
        assert torch.equal(server["pairs"], server["pairs"].T)
        asked = data.draw(some_of(CLIENTS, least=1), "asked")
        forgetful = {key: value for key, value in server.items() if key != "pairs"}
        sent, again = (sent_by(method, state, asked, round) for state in (server, forgetful))
        assert near(sent.weights, again.weights)


@each_method
def test_only_similarities_of_changed_models_are_computed(name: str) -> None:
    method = variant(name, pool="latest")
    server = holding(method, torch.randn(CLIENTS, 3, generator=draws("h", 0), dtype=torch.float64))
    marked = {**server, "pairs": torch.full_like(server["pairs"], 0.123)}
    who = torch.tensor([1, 3])
    pairs = method.aggregate(marked, who, message(torch.ones(2, 3, dtype=torch.float64)), 2)["pairs"]
    old = torch.tensor([0, 2, 4])
    assert (pairs[old[:, None], old] == 0.123).all()
    assert (pairs[who] != 0.123).all() and (pairs[:, who] != 0.123).all()
    assert (marked["pairs"] == 0.123).all()


@pytest.mark.parametrize("name", ["fedamp", "heurfedamp", "pfedatt", "fedacs"])
def test_with_an_active_pool_no_similarities_are_kept(name: str) -> None:
    assert "pairs" not in variant(name).init_server(point(2), facts(3))


def test_close_models_far_from_their_start_keep_their_distance_over_rounds() -> None:
    """1e-6 apart, 1e4 away from where they began: a Gram matrix about their start could not tell them apart."""
    method = FedAMP(pool="latest")
    far = torch.full((3, 3), 1e4, dtype=torch.float64)
    server = holding(method, far)
    far[1, 0] += 1e-6
    far[2, 1] -= 2e-6
    for client in (1, 2):
        server = method.aggregate(server, torch.tensor([client]), message(far[[client]]), client)
    want = [[float((a - b) @ (a - b)) for b in far] for a in far]
    torch.testing.assert_close(server["pairs"], torch.tensor(want, dtype=torch.float64), rtol=1e-4, atol=0)


@each_method
@pytest.mark.parametrize("init", ["shared", "independent"])
def test_server_and_clients_begin_with_the_same_models(name: str, init: str) -> None:
    method, fed = variant(name, init=init), facts(3)
    server = method.init_server(point(4), fed)
    rows = torch.stack([method.init_client(point(4), fed, i)["params"] for i in range(3)])
    assert torch.equal(server["params"], rows)
    assert len(rows.unique(dim=0)) == (1 if init == "shared" else 3)


@pytest.mark.parametrize(
    ("rounds", "steps"),
    [
        (90, {1: 1e4, 30: 1e4, 31: 1e3, 60: 1e3, 61: 1e2, 90: 1e2}),
        (3, {1: 1e4, 2: 1e3, 3: 1e2}),
        (1, {1: 1e4}),
        (10, {4: 1e4, 5: 1e3, 7: 1e3, 8: 1e2, 10: 1e2}),  # the thirds end at 3.3 and 6.7 rounds
    ],
)
def test_the_step_size_falls_after_each_third_of_the_rounds(rounds: int, steps: dict[int, float]) -> None:
    for round, expected in steps.items():
        assert cloud.step_size(1e4, round, rounds) == pytest.approx(expected, rel=1e-12)


def test_proximal_step_by_hand() -> None:
    # F(w) = (w - 3)^2 / 2, centre u = 1, own model w = -1, pull 1/2, two full steps of rate 0.1.
    # From the cloud: w' = 1 + 0.1 * 2 = 1.2 (no pull at the centre), w'' = 1.2 + 0.1 (1.8 - 0.5 * 0.2) = 1.37.
    # From its own:   w' = -1 + 0.1 (4 + 0.5 * 2) = -0.5,             w'' = -0.5 + 0.1 (3.5 + 0.5 * 1.5) = -0.075.
    client, down = message(vector(-1)[None]), message(vector(1)[None])
    client, down = ({key: value[0] for key, value in state.items()} for state in (client, down))
    go = turn(vector(2, 4)[:, None], 0.1, epochs=2)
    found: dict[Literal["cloud", "own"], float] = {"cloud": 1.37, "own": -0.075}
    for start, expected in found.items():
        state, upload = cloud.proximal_step(point(1), {**client, "kept": vector(5)}, down, go, pull=0.5, start=start)
        assert near(upload["params"], vector(expected))
        assert torch.equal(state["params"], upload["params"]) and torch.equal(state["kept"], vector(5))


def test_without_pull_the_client_trains_plainly_from_its_start() -> None:
    down = {key: value[0] for key, value in message(vector(1, -2)[None]).items()}
    go = turn(torch.randn(7, 2, generator=draws("f", 0), dtype=torch.float64), 0.1, epochs=3, batch=2)
    _, upload = cloud.proximal_step(point(2), down, down, go, pull=0.0, start="cloud")
    assert torch.equal(upload["params"], train(point(2), down, go)["params"])


def test_group_self_weights_need_groups() -> None:
    for method in (FedAMP(self_weight="group"), HeurFedAMP(self_weight="group")):
        with pytest.raises(InputError, match="self_weight=group needs .* group"):
            method.init_server(point(2), facts(3))


def test_group_self_weights_count_the_pool_only() -> None:
    # Groups of 3 and 2 clients; of the first group only two are there.
    method = FedAMP(self_weight="group")
    server = holding(
        method, torch.randn(5, 2, generator=draws("g", 0), dtype=torch.float64), fed=facts(5, groups=[0, 0, 0, 1, 1])
    )
    who = torch.tensor([0, 2, 4])
    weights = sent_by(method, server, who, 1).weights
    assert torch.equal(weights[torch.arange(3), who], vector(1 / 2, 1 / 2, 1))
