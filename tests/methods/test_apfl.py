"""APFL: two rounds by hand, the learnt alpha, and its exact limits."""

from collections.abc import Callable
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
    silos,
    task,
    turn_of,
)
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from amity.contract import InputError, Particular, Silo, Solver, Split
from amity.federation.plan import federation_of
from amity.federation.reports import Round
from amity.methods.apfl import APFL

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, batch=4, decay=0.9)
SOME: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "drop_phase": "after"}
MODELS: list[Callable[[], nn.Module]] = [mlp, batchnorm, dropout]


def two_points(first: int, second: int) -> list[Silo]:
    """F_a' = w - first, F_b' = w - second."""
    one = torch.ones(1, 1, dtype=torch.float64)
    return [own("a", one, torch.tensor([first])), own("b", one, torch.tensor([second]))]


def test_two_rounds_by_hand() -> None:
    # F_a' = w - 8, F_b' = w - 16; alpha = 1/2, eta = 1/2, two steps per round, everything from 0.
    # Round 1, a:  w = 4,  vbar = 2,     gbar = -6,     v = 6/4 = 1.5
    #              w = 6,  vbar = 3.75,  gbar = -4.25,  v = 1.5 + 4.25/4 = 2.5625;   vbar = 1.28125 + 3 = 4.28125
    #          b is twice a: w = 12, v = 5.125, vbar = 8.5625.                         mean of w: 9
    # Round 2, a from w = 9, v = 2.5625:
    #              w = 8.5,   vbar = 5.53125,     gbar = -2.46875,     v = 3.1796875
    #              w = 8.25,  vbar = 5.71484375,  gbar = -2.28515625,  v = 3.7509765625;  vbar = 6.00048828125
    #          b from w = 9, v = 5.125:
    #              w = 12.5,  vbar = 8.8125,      gbar = -7.1875,      v = 6.921875
    #              w = 14.25, vbar = 10.5859375,  gbar = -5.4140625,   v = 8.275390625;   vbar = 11.2626953125
    #          mean of w: 11.25
    solver = FULL._replace(rate=0.5)
    one, two = run(APFL(alpha=0.5), on=quadratic(1), at=two_points(8, 16), rounds=2, epochs=2, solver=solver)

    def found(report: Any) -> list[float]:
        a, b = report.clients
        numbers = [report.progress.server["params"], a["copy"], a["params"], b["copy"], b["params"], *flat(report)]
        return torch.cat(numbers).tolist()

    assert found(one) == pytest.approx([9, 6, 2.5625, 12, 5.125, 4.28125, 8.5625], abs=1e-10)
    second = [11.25, 8.25, 3.7509765625, 14.25, 8.275390625, 6.00048828125, 11.2626953125]
    assert found(two) == pytest.approx(second, abs=1e-10)
    # Evaluated with the copy it trained, not with the mean: (vbar - 8)^2 / 2.
    assert scores_of(one)[0].loss == pytest.approx((4.28125 - 8) ** 2 / 2, abs=1e-10)


def test_a_learnt_alpha_by_hand() -> None:
    # F' = w - 2, eta = 1/8, alpha = 1/2, v = w = 0, two steps.
    # 1: w = 0.25, vbar = 0.125, gbar = -1.875, v = 1.875/16 = 0.1171875
    #    slope = gbar (v - w) = -1.875 (0 - 0.25) = 0.46875, alpha = 1/2 - 0.46875/8 = 0.44140625
    # 2: w = 0.46875, gbar = vbar - 2, v moves by alpha/8 of it; alpha stays.
    solver = FULL._replace(rate=0.125)
    [report] = run(
        APFL(alpha=0.5, adaptive=True), on=quadratic(1), at=two_points(2, 2), rounds=1, epochs=2, solver=solver
    )
    alpha = 0.44140625
    v = 0.1171875 - alpha / 8 * (alpha * 0.1171875 + (1 - alpha) * 0.46875 - 2)
    client = report.clients[0]
    assert client["alpha"].item() == pytest.approx(alpha, abs=1e-12)
    assert client["copy"].item() == pytest.approx(0.46875, abs=1e-12)
    assert client["params"].item() == pytest.approx(v, abs=1e-12)
    assert report.personal(0)["params"].item() == pytest.approx(alpha * v + (1 - alpha) * 0.46875, abs=1e-12)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("settings", [{"alpha": 0.0}, {"alpha": 0.6}, {"alpha": 1.0}, {"alpha": 0.5, "adaptive": True}])
def test_apfl_1_the_path_of_w_is_fedavgs_to_the_last_bit(make: Any, settings: dict[str, Any]) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": BATCHES, **SOME}
    average = run("fedavg", settings={"weighting": "uniform"}, **setting)
    mixed = run(APFL(**settings), **setting)
    assert all(same(a.progress.server, b.progress.server) for a, b in zip(average, mixed, strict=True))


def test_apfl_1_by_samples_too() -> None:
    setting: dict[str, Any] = {"on": task(mlp), "solver": BATCHES, **SOME}
    average, mixed = run("fedavg", **setting), run(APFL(weighting="samples"), **setting)
    assert all(same(a.progress.server, b.progress.server) for a, b in zip(average, mixed, strict=True))


def test_apfl_2_alpha_0_is_the_trained_copy_of_fedavg() -> None:
    for make in MODELS:
        on = task(make)
        setting: dict[str, Any] = {"on": on, "solver": BATCHES, **SOME}
        copies = run("fedavg-local", settings={"weighting": "uniform"}, **setting)
        mixed = run(APFL(alpha=0.0), **setting)
        first = on.initial(federation_of(silos(), 3, 1))["params"]
        for one, two in zip(copies, mixed, strict=True):
            assert torch.equal(flat(one), flat(two))
            assert all(torch.equal(client["params"], first) for client in two.clients)  # v never moves
            if make is not batchnorm:  # whose statistics stay at the client
                assert [score.loss for score in scores_of(one)] == [score.loss for score in scores_of(two)]


@pytest.mark.parametrize("make", MODELS)
def test_apfl_3_alpha_1_is_separate_to_the_last_bit(make: Any) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": BATCHES, **SOME}
    for one, two in zip(run("separate", **setting), run(APFL(alpha=1.0), **setting), strict=True):
        assert all(same(a, b) for a, b in zip(one.models, two.models, strict=True))  # statistics too
        for a, b in zip(one.clients, two.clients, strict=True):
            assert same(a, {key: b[key] for key in a})


def test_apfl_4_alpha_stays_between_0_and_1() -> None:
    method = APFL(alpha=0.5, adaptive=True)
    seen = []
    for rate in (0.05, 1.0, 8.0):
        for report in run(method, on=task(mlp), rounds=6, solver=BATCHES._replace(rate=rate)):
            seen += [client["alpha"].item() for client in report.clients]
    assert all(0 <= alpha <= 1 for alpha in seen) and {0.0, 1.0} <= set(seen) and len(set(seen)) > 20


def loss_at(params: Tensor, data: Split) -> Tensor:
    """The mean loss of an ordinary network with these parameters."""
    module = mlp().double()
    slots = list(module.named_parameters())
    parts = params.split([p.numel() for _, p in slots])
    weights = {name: part.view(p.shape) for (name, p), part in zip(slots, parts, strict=True)}
    return F.cross_entropy(functional_call(module, weights, (data.x,)), data.y)


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.8])
def test_apfl_5_alpha_descends_the_loss_of_the_mixture(alpha: float) -> None:
    at, on, method = silos(), task(mlp), APFL(adaptive=True)
    fed, rate, h = federation_of(at, 1, 1), 0.01, 1e-5
    v, w = 0.3 * randn(on.size, seed=1), 0.3 * randn(on.size, seed=2)
    client = {**method.init_client(on, fed, 1), "params": v, "alpha": torch.tensor(alpha, dtype=torch.float64)}
    turn = turn_of(fed, at, 1, FULL._replace(rate=rate))
    after, upload = method.local(on, client, {**on.initial(fed), "params": w}, turn)
    slope = (alpha - after["alpha"].item()) / rate

    def mixture(weight: float) -> float:
        return loss_at(weight * v + (1 - weight) * upload["params"], at[1].train).item()

    assert slope == pytest.approx((mixture(alpha + h) - mixture(alpha - h)) / (2 * h), abs=1e-8)
    assert abs(slope) > 1e-2
    # and v descends the same loss: alpha times its gradient
    point = (alpha * v + (1 - alpha) * upload["params"]).requires_grad_()
    (gradient,) = torch.autograd.grad(loss_at(point, at[1].train), point)
    assert near(after["params"], v - rate * alpha * gradient)


def test_alpha_moves_once_per_round_on_the_first_batch() -> None:
    """A second epoch and its batches do not touch it."""
    found = []
    for epochs in (1, 4):
        [report] = run(APFL(adaptive=True), on=task(mlp), rounds=1, epochs=epochs, solver=BATCHES)
        found.append([client["alpha"].item() for client in report.clients])
    assert found[0] == found[1] and 0.25 not in found[0]


def design(seed: int) -> Tensor:
    """Twenty examples whose H = X'X/20 has the eigenvalues 1, 1.21 and 1.44.  # [20, 3]"""
    left, right = torch.linalg.qr(randn(20, 3, seed=seed)).Q, torch.linalg.qr(randn(3, 3, seed=seed + 50)).Q
    out: Tensor = 20**0.5 * left @ torch.diag(torch.tensor([1.0, 1.1, 1.2], dtype=torch.float64)) @ right
    return out


@pytest.mark.parametrize("alpha", [0.7, 0.9])
def test_on_quadratics_the_mixture_reaches_the_clients_own_optimum(alpha: float) -> None:
    """v is free, so vbar -> argmin F_i for every alpha > 0, while w -> argmin of the mean of F_i."""
    at = [own(f"s{i}", design(i), 3 * torch.arange(20) % (i + 5)) for i in range(3)]
    hessians = [one.train.x.T @ one.train.x / 20 for one in at]
    slopes = [one.train.x.T @ one.train.y.double() / 20 for one in at]
    reports = run(APFL(alpha=alpha), on=quadratic(3), at=at, rounds=70, epochs=1, solver=FULL._replace(rate=0.8))
    last = reports[-1]
    assert near(last.progress.server["params"], torch.linalg.solve(sum(hessians), sum(slopes)))
    for found, hessian, slope in zip(flat(last), hessians, slopes, strict=True):
        assert near(found, torch.linalg.solve(hessian, slope))


def absent(report: Round) -> set[int]:
    return set(range(len(scores_of(report)))) - set(report.epochs)


def test_absent_clients_keep_everything_and_lost_ones_their_training() -> None:
    before = None
    for report in run(APFL(adaptive=True), on=task(batchnorm), rounds=5, solver=BATCHES, **SOME):
        if before is not None:
            old, new = before.clients, report.clients
            assert all(same(old[i], new[i]) for i in absent(report))
            assert all(not torch.equal(old[i]["copy"], new[i]["copy"]) for i in report.epochs)  # lost uploads too
        before = report


def test_momentum_is_refused() -> None:
    method = APFL()
    assert isinstance(method, Particular) and method.optimizers == ("sgd",)
    method.accept(method.solver)
    with pytest.raises(InputError, match="^apfl needs plain sgd, got momentum 0.9: "):
        method.accept(FULL._replace(momentum=0.9))
