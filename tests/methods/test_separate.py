"""Separate: what a silo learns is its own affair."""

import torch
from small import batchnorm, mlp, near, relabelled, run, same, scores_of, silo, silos, task
from torch import nn
from torch.nn import functional as F

from amity.contract import Solver, Split
from amity.federation.plan import federation_of
from amity.methods.separate import Separate

SGD = Solver("sgd", 0.1, momentum=0.9, batch=1000)  # one batch is all the data
ADAM = Solver("adam", 0.01, batch=4)


def test_sep_1_a_clients_result_does_not_depend_on_the_others_data() -> None:
    at = silos()
    others = [relabelled(at[1]), *silos(seed=9)[2:]]
    others[1] = others[1]._replace(train=Split(others[1].train.x[:2], others[1].train.y[:2]))  # other sizes too
    for make in (mlp, batchnorm):
        alone = run("separate", on=task(make), at=at[:1], solver=ADAM)
        before = run("separate", on=task(make), at=at, solver=ADAM)
        after = run("separate", on=task(make), at=[at[0], *others], solver=ADAM)
        for one, two, three in zip(before, after, alone, strict=True):
            assert same(one.clients[0], two.clients[0])
            assert same(one.clients[0], three.clients[0])
            assert torch.equal(one.each[0], two.each[0]) and scores_of(one)[0].loss == scores_of(two)[0].loss
        assert not same(before[-1].clients[1], after[-1].clients[1])


def test_it_is_ordinary_training_with_a_fresh_optimiser_every_round() -> None:
    at = silos()
    for solver, optimizer in (
        (SGD, lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9)),
        (SGD._replace(optimizer="adam", rate=0.01), lambda params: torch.optim.Adam(params, lr=0.01)),
    ):
        weights = {"weight": torch.randn(3, 3, generator=torch.Generator().manual_seed(3)), "bias": torch.ones(3)}
        reports = run("separate", on=task(start=weights), at=at, rounds=3, epochs=4, solver=solver)
        for client, one in enumerate(at):
            module = nn.Linear(3, 3).double()
            module.load_state_dict(weights)
            for report in reports:
                fresh = optimizer(module.parameters())
                for _ in range(4):
                    fresh.zero_grad()
                    F.cross_entropy(module(one.train.x), one.train.y).backward()
                    fresh.step()
                expected = nn.utils.parameters_to_vector(module.parameters()).detach()
                assert near(report.clients[client]["params"], expected)
                loss = F.cross_entropy(module(one.test.x), one.test.y, reduction="sum").item()
                assert abs(scores_of(report)[client].loss - loss) < 1e-9


def test_the_rate_decays_round_by_round() -> None:
    """x = 0 leaves the bias alone: its first gradient is softmax(b) - onehot, known without the code."""
    one = silo("ash", 2)
    one = one._replace(train=Split(torch.zeros(1, 3, dtype=torch.float64), torch.tensor([0])))
    weights = {"weight": torch.zeros(3, 3), "bias": torch.zeros(3)}
    reports = run(
        "separate", on=task(start=weights), at=[one], rounds=2, epochs=1, solver=Solver("sgd", 0.6, decay=0.5)
    )
    # b^1 = -0.6 (1/3 - 1, 1/3, 1/3) = (0.4, -0.2, -0.2)
    first = torch.tensor([0.4, -0.2, -0.2], dtype=torch.float64)
    assert near(reports[0].clients[0]["params"][9:], first)
    second = first - 0.3 * (first.softmax(0) - torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    assert near(reports[1].clients[0]["params"][9:], second)


def test_nothing_is_sent() -> None:
    for report in run("separate", participation=0.6, drop=0.3, drop_phase="after"):
        assert report.bytes_up == report.bytes_down == report.bytes_eval == 0
        assert report.progress.server == {}
        assert report.weights is None


def test_an_absent_client_keeps_its_model() -> None:
    reports = run("separate", rounds=6, participation=0.4)
    absent = 0
    for before, after in zip(reports, reports[1:], strict=False):
        for client in range(5):
            unchanged = same(before.clients[client], after.clients[client])
            assert unchanged == (client not in after.took_part)
            absent += unchanged
    assert absent == 5 * 3


def test_first_models_are_shared_or_each_its_own() -> None:
    at = silos()
    fed, on = federation_of(at, 1, 1), task()
    shared = [Separate().init_client(on, fed, client)["params"] for client in range(5)]
    own = [Separate(init="independent").init_client(on, fed, client)["params"] for client in range(5)]
    assert all(torch.equal(params, shared[0]) for params in shared)
    assert all(not torch.equal(own[i], own[j]) for i in range(5) for j in range(i))
