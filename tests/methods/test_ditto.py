"""Ditto: two rounds by hand, closed forms on quadratics, and its exact limits."""

from typing import Any

import pytest
import torch
from small import (
    batchnorm,
    dropout,
    flat,
    mlp,
    near,
    own,
    quadratic,
    randn,
    run,
    same,
    scores_of,
    silo,
    silos,
    task,
    turn_of,
)
from torch import Tensor
from torch.nn import functional as F

from amity.contract import InputError, Particular, Silo, Solver, State, Turn
from amity.federation.plan import federation_of
from amity.learn.task import Task
from amity.learn.train import train
from amity.methods.ditto import Ditto
from amity.methods.separate import Separate

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, momentum=0.5, batch=4, decay=0.9)
ADAM = Solver("adam", 0.01, batch=4)
SOME: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "drop_phase": "after"}
CHOICES = [(mlp, ADAM), (batchnorm, BATCHES), (dropout, BATCHES)]


def test_two_rounds_by_hand() -> None:
    # F_a' = w - 8, F_b' = w - 16; lambda = 1/2, eta = eta_p = 1/2, two steps, everything from 0.
    # Round 1: w_a = 4, 6;  w_b = 8, 12;  mean 9.
    #   v_a: g = -8, v = 4;    g = -4 + (4 - 0)/2 = -2, v = 5.     v_b is twice that: 10.
    # Round 2, centre 9, the mean received: w_a = 8.5, 8.25;  w_b = 12.5, 14.25;  mean 11.25.
    #   v_a: g = -3 + (5 - 9)/2 = -5, v = 7.5;      g = -0.5 - 1.5/2 = -1.25, v = 8.125.
    #   v_b: g = -6 + (10 - 9)/2 = -5.5, v = 12.75; g = -3.25 + 3.75/2 = -1.375, v = 13.4375.
    one = torch.ones(1, 1, dtype=torch.float64)
    at = [own("a", one, torch.tensor([8])), own("b", one, torch.tensor([16]))]
    solver = FULL._replace(rate=0.5)
    reports = run(Ditto(attraction=0.5), on=quadratic(1), at=at, rounds=2, epochs=2, solver=solver)
    found = [[*report.progress.server["params"], *flat(report)[:, 0]] for report in reports]
    assert found[0] == pytest.approx([9, 5, 10], abs=1e-10)
    assert found[1] == pytest.approx([11.25, 8.125, 13.4375], abs=1e-10)
    assert scores_of(reports[0])[0].loss == pytest.approx((5 - 8) ** 2 / 2, abs=1e-10)
    # The same with three steps of rate 1/4 for v: 2, 3.25, 4.03125 = 3.25 - (3.25 - 8 + 3.25/2)/4.
    method = Ditto(attraction=0.5, personal_epochs=3, personal_lr=0.25)
    [report] = run(method, on=quadratic(1), at=at, rounds=1, epochs=2, solver=solver)
    assert report.progress.server["params"].item() == pytest.approx(9, abs=1e-10)
    assert flat(report)[:, 0].tolist() == pytest.approx([4.03125, 8.0625], abs=1e-10)


@pytest.mark.parametrize(("make", "solver"), CHOICES)
@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_dit_1_the_global_path_is_fedavgs_to_the_last_bit(make: Any, solver: Solver, weighting: Any) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": solver, **SOME}
    average = run("fedavg", settings={"weighting": weighting}, **setting)
    personal: dict[str, Any] = {"attraction": 5.0, "personal_epochs": 3, "personal_lr": 0.02}
    for more in ({}, {"attraction": 0.0}, personal):
        ditto = run(Ditto(weighting=weighting, **more), **setting)
        assert all(same(a.progress.server, b.progress.server) for a, b in zip(average, ditto, strict=True))


class Aside(Separate):
    """Separate on the stream of the personal models."""

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        return train(task, client, turn, role="personal"), {}


@pytest.mark.parametrize(("make", "solver"), CHOICES)
def test_dit_2_lambda_0_is_separate_to_the_last_bit(make: Any, solver: Solver) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": solver, "rounds": 4, **SOME}
    alone, ditto, pulled = (run(m, **setting) for m in (Aside(), Ditto(attraction=0.0), Ditto(attraction=0.1)))
    for one, two in zip(alone, ditto, strict=True):
        assert one.epochs == two.epochs  # the same clients train
        assert all(same(a, b) for a, b in zip(one.clients, two.clients, strict=True))
        assert [a.loss for a in scores_of(one)] == [b.loss for b in scores_of(two)]
    assert not near(flat(ditto[-1]), flat(pulled[-1]))


def test_dit_3_at_rate_lambda_1_one_step_leaves_from_the_global_model() -> None:
    at, on = silos(), task(mlp)
    fed = federation_of(at, 1, 1)
    first = on.initial(fed)
    v, w = {**first, "params": randn(on.size, seed=1)}, {**first, "params": randn(on.size, seed=2)}
    after, _ = Ditto(attraction=10.0).local(on, v, w, turn_of(fed, at, 2, FULL))  # rate 0.1
    module = on.module(v)
    F.cross_entropy(module(at[2].train.x), at[2].train.y).backward()
    gradient = torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])
    assert near(after["params"], w["params"] - 0.1 * gradient)


def test_dit_4_sgd_needs_rate_lambda_below_2() -> None:
    assert isinstance(Ditto(), Particular)
    Ditto().accept(Ditto.solver)
    Ditto(attraction=19.99).accept(FULL)
    Ditto(attraction=1e6).accept(ADAM)  # its steps do not grow with the gradient
    Ditto(attraction=100.0, personal_lr=0.01).accept(FULL)
    for method in (Ditto(attraction=20.0), Ditto(attraction=4.0, personal_lr=0.5)):
        with pytest.raises(InputError, match=r"^ditto needs rate x attraction < 2 with sgd, got [\d.]+ x ") as error:
            method.accept(FULL)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(("product", "shrinks"), [(1.9, True), (2.1, False)])
def test_dit_4_the_bound_is_that_of_the_pull(product: float, shrinks: bool) -> None:
    """Where the loss is flat, each step multiplies v - w by 1 - eta_p lambda."""
    at = [own("a", torch.zeros(1, 2, dtype=torch.float64), torch.tensor([1]))]
    on = quadratic(2)
    fed = federation_of(at, 1, 1)
    first = on.initial(fed)
    v, w = {**first, "params": randn(2, seed=1)}, {**first, "params": randn(2, seed=2)}
    after, _ = Ditto(attraction=10 * product).local(on, v, w, turn_of(fed, at, 0, FULL, epochs=6))
    gap, before = after["params"] - w["params"], v["params"] - w["params"]
    assert near(gap, (1 - product) ** 6 * before)
    assert (gap.norm() < before.norm()).item() is shrinks


def design(seed: int) -> Tensor:
    """Twenty examples whose H = X'X/20 has the eigenvalues 1, 1.21 and 1.44.  # [20, 3]"""
    left, right = torch.linalg.qr(randn(20, 3, seed=seed)).Q, torch.linalg.qr(randn(3, 3, seed=seed + 50)).Q
    out: Tensor = 20**0.5 * left @ torch.diag(torch.tensor([1.0, 1.1, 1.2], dtype=torch.float64)) @ right
    return out


def problem() -> tuple[list[Silo], list[Tensor], list[Tensor]]:
    """Three quadratics F_i = w'H w/2 - b'w + const."""
    at = [own(f"s{i}", design(i), 3 * torch.arange(20) % (i + 5)) for i in range(3)]
    hessians = [one.train.x.T @ one.train.x / 20 for one in at]
    return at, hessians, [one.train.x.T @ one.train.y.double() / 20 for one in at]


@pytest.mark.parametrize("attraction", [0.1, 1.0, 10.0])
def test_dit_5_on_a_quadratic_the_exact_step_is_the_proximal_point(attraction: float) -> None:
    at, hessians, slopes = problem()
    on, eye = quadratic(3), torch.eye(3, dtype=torch.float64)
    fed = federation_of(at, 1, 1)
    first = on.initial(fed)
    v, w = {**first, "params": randn(3, seed=8)}, {**first, "params": randn(3, seed=9)}
    for client, (hessian, slope) in enumerate(zip(hessians, slopes, strict=True)):
        solver = FULL._replace(rate=1 / (float(torch.linalg.eigvalsh(hessian)[-1]) + attraction))
        after, _ = Ditto(attraction=attraction).local(on, v, w, turn_of(fed, at, client, solver, epochs=200))
        exact = torch.linalg.solve(hessian + attraction * eye, slope + attraction * w["params"])
        assert near(after["params"], exact)


def test_dit_5_a_whole_federation_reaches_its_closed_form() -> None:
    """One step per round: w -> argmin of the mean of F_i, and v_i -> (H_i + lambda)^-1 (b_i + lambda w)."""
    at, hessians, slopes = problem()
    eye = torch.eye(3, dtype=torch.float64)
    method = Ditto(attraction=0.5, personal_lr=0.4)
    last = run(method, on=quadratic(3), at=at, rounds=45, epochs=1, solver=FULL._replace(rate=0.7))[-1]
    w = torch.linalg.solve(sum(hessians), sum(slopes))
    assert near(last.progress.server["params"], w)
    for found, hessian, slope in zip(flat(last), hessians, slopes, strict=True):
        assert near(found, torch.linalg.solve(hessian + 0.5 * eye, slope + 0.5 * w))


def test_eval_model_changes_what_is_evaluated_and_nothing_else() -> None:
    setting: dict[str, Any] = {"on": task(batchnorm), "solver": BATCHES, **SOME}
    average = run("fedavg", settings={"weighting": "uniform"}, **setting)
    personal, common = run(Ditto(), **setting), run(Ditto(eval_model="global"), **setting)
    for a, p, c in zip(average, personal, common, strict=True):
        assert [score.loss for score in scores_of(c)] == [score.loss for score in scores_of(a)]
        assert (c.bytes_up, c.bytes_down, c.bytes_eval) == (a.bytes_up, a.bytes_down, a.bytes_eval)
        assert p.bytes_eval == 0 and [s.loss for s in scores_of(p)] != [s.loss for s in scores_of(c)]
        for one, two in zip(p.clients, c.clients, strict=True):
            assert same(one, two)


def test_with_silos_of_one_size_the_common_model_is_fedavgs_with_the_defaults_of_both() -> None:
    """FedACS' Table 1 takes FedAvg's run for Ditto-G."""
    setting: dict[str, Any] = {
        "on": task(batchnorm),
        "at": [silo(f"s{i}", 12, i % 2) for i in range(5)],
        "solver": BATCHES,
        **SOME,
    }
    for a, d in zip(run("fedavg", **setting), run("ditto", settings={"eval_model": "global"}, **setting), strict=True):
        assert same(a.progress.server, d.progress.server)
        assert [score.loss for score in scores_of(a)] == [score.loss for score in scores_of(d)]


def test_personal_models_of_absent_clients_stay_and_those_of_lost_uploads_move() -> None:
    before = None
    for report in run(Ditto(), on=task(batchnorm), rounds=5, solver=BATCHES, **SOME):
        if before is not None:
            for i, (old, new) in enumerate(zip(before.clients, report.clients, strict=True)):
                assert same(old, new) == (i not in report.epochs)
        before = report


def test_statistics_of_personal_models_never_leave_the_client() -> None:
    """Another lambda changes v_i, its statistics, and nothing that is sent."""
    one, two = (run(Ditto(attraction=x), on=task(batchnorm), solver=FULL) for x in (0.1, 3.0))
    assert same(one[-1].progress.server, two[-1].progress.server)
    for a, b in zip(one[-1].clients, two[-1].clients, strict=True):
        assert not torch.equal(a["buffers"], b["buffers"])
        assert not near(a["buffers"], one[-1].progress.server["buffers"])
