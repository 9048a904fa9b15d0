"""Per-FedAvg: a round by hand, a turn by ordinary autograd, closed forms on quadratics, and its exact limits."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from small import (
    batchnorm,
    dropout,
    flat,
    half_square,
    mlp,
    near,
    own,
    randn,
    run,
    same,
    scores_of,
    silo,
    silos,
    task,
    turn_of,
)
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from amity.contract import InputError, Particular, Silo, Solver, Split, Turn
from amity.federation.plan import federation_of
from amity.learn.streams import order
from amity.learn.task import Task
from amity.methods.perfedavg import PerFedAvg

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, batch=4, decay=0.9)
VARIANTS: list[Any] = ["FO", "HF"]


def slope_only(out: Tensor, y: Tensor) -> Tensor:
    """Linear in the model: its Hessian is 0."""
    return (out[:, 0] * y).mean()


def line(features: int, loss: Any = half_square) -> Task:
    """F_i(w) = |X w - y|^2 / (2 n), from 0."""
    start: dict[str, Any] = {"weight": torch.zeros(1, features)}
    shape = (features,)
    return Task(lambda: nn.Linear(features, 1, bias=False), shape, 1, loss=loss, dtype=torch.float64, start=start)


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


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        # F_a' = w - 8, F_b' = w - 16; a = 1/2, beta = 1/2, two steps from 0; b is twice a.
        # FO, a: wt = 4, g = -4, w = 2;  wt = 5, g = -3, w = 3.5.           mean 5.25
        #    after one step: 5.25 + 2.75/2 = 6.625 and 5.25 + 10.75/2 = 10.625
        ("FO", [5.25, 6.625, 10.625]),
        # HF, a: q = g, so g - q/2: g = -4, w = 1;  wt = 4.5, g = -3.5, w = 1.875.    mean 2.8125
        #    after one step: 2.8125 + 5.1875/2 = 5.40625 and 2.8125 + 13.1875/2 = 9.40625
        ("HF", [2.8125, 5.40625, 9.40625]),
    ],
)
def test_a_round_by_hand(variant: Any, expected: list[float]) -> None:
    one = torch.ones(1, 1, dtype=torch.float64)
    at = [own("a", one, torch.tensor([8])), own("b", one, torch.tensor([16]))]
    solver = FULL._replace(rate=0.5)
    method = PerFedAvg(variant=variant, adapt_lr=0.5)
    [report] = run(method, on=line(1), at=at, rounds=1, epochs=2, solver=solver)
    found = [*report.progress.server["params"], *flat(report)[:, 0]]
    assert found == pytest.approx(expected, abs=1e-10)
    assert scores_of(report)[0].loss == pytest.approx((expected[1] - 8) ** 2 / 2, abs=1e-10)
    common = PerFedAvg(variant=variant, adapt_lr=0.5, eval_model="global")
    [report] = run(common, on=line(1), at=at, rounds=1, epochs=2, solver=solver)
    assert flat(report)[:, 0].tolist() == pytest.approx(expected[:1] * 2, abs=1e-10)


def drawn(turn: Turn, role: str) -> Iterator[Split]:
    x, y = turn.data.train
    for epoch in range(1, turn.epochs + 1):
        for chosen in order(turn.seed(role, epoch), len(y)).split(turn.solver.batch):
            yield Split(x[chosen], y[chosen])


def loss_at(params: Tensor, data: Split) -> Tensor:
    """The mean loss of an ordinary network with these parameters, differentiable in them."""
    module = mlp().double()
    slots = list(module.named_parameters())
    parts = params.split([p.numel() for _, p in slots])
    weights = {name: part.view(p.shape) for (name, p), part in zip(slots, parts, strict=True)}
    return F.cross_entropy(functional_call(module, weights, (data.x,)), data.y)


def gradient(params: Tensor, data: Split) -> Tensor:
    point = params.detach().requires_grad_()
    return torch.autograd.grad(loss_at(point, data), point)[0]


def exact_bend(params: Tensor, data: Split, direction: Tensor) -> Tensor:
    """The Hessian times the direction, by differentiating twice."""
    product: Tensor = torch.autograd.functional.hvp(lambda at: loss_at(at, data), params, direction)[1]
    return product


def reference(start: Tensor, turn: Turn, adapt: float, bend: Any) -> Tensor:
    """The local steps as the paper writes them."""
    w, beta = start, turn.solver.rate_at(turn.round)
    for b1, b2, b3 in zip(*(drawn(turn, role) for role in ("adapt", "train", "curvature")), strict=True):
        g = gradient(w - adapt * gradient(w, b1), b2)
        w = w - beta * (g - adapt * bend(w, b3, g))
    return w


def test_a_turn_by_ordinary_autograd() -> None:
    at, on = silos(), task(mlp)
    fed = federation_of(at, 5, 1)
    turn = turn_of(fed, at, 1, BATCHES, round=3, epochs=2)
    down = {**on.initial(fed), "params": randn(on.size, seed=2)}
    a, delta = 0.3, 1e-2

    def quotient(w: Tensor, batch: Split, g: Tensor) -> Tensor:
        return (gradient(w + delta * g, batch) - gradient(w - delta * g, batch)) / (2 * delta)

    _, first_order = PerFedAvg(adapt_lr=a).local(on, {}, down, turn)
    assert near(first_order["params"], reference(down["params"], turn, a, lambda w, b, g: 0 * g))
    _, free = PerFedAvg(variant="HF", adapt_lr=a, delta=delta).local(on, {}, down, turn)
    assert near(free["params"], reference(down["params"], turn, a, quotient))
    # The quotient is the Hessian up to O(delta^2), and so is where it leads.
    exact = reference(down["params"], turn, a, exact_bend)
    errors = []
    for length in (0.2, 0.1):
        _, free = PerFedAvg(variant="HF", adapt_lr=a, delta=length).local(on, {}, down, turn)
        errors.append(float((free["params"] - exact).norm()))
    assert 3.5 < errors[0] / errors[1] < 4.5
    assert (first_order["params"] - exact).norm() > 50 * errors[1]


@pytest.mark.parametrize("make", [mlp, dropout, batchnorm])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_per_1_without_adaptation_it_is_fedavg_to_the_last_bit(make: Any, variant: Any, weighting: Any) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": BATCHES, "participation": 0.8, "drop": 0.3}
    average = run("fedavg", settings={"weighting": weighting}, **setting)
    method = PerFedAvg(variant=variant, adapt_lr=0.0, weighting=weighting)
    for one, two in zip(average, run(method, **setting), strict=True):
        assert torch.equal(one.progress.server["params"], two.progress.server["params"])
        assert torch.equal(flat(one), flat(two))
        if make is not batchnorm:  # whose statistics are of b1, FedAvg's of b2
            assert same(one.progress.server, two.progress.server)
            assert [score.loss for score in scores_of(one)] == [score.loss for score in scores_of(two)]


@pytest.mark.parametrize("delta", [1e-3, 1.0, 100.0])
def test_per_2_hessian_free_is_exact_on_quadratics(delta: float) -> None:
    at, _, _ = problem()
    on = line(3)
    fed = federation_of(at, 1, 1)
    turn = turn_of(fed, at, 1, BATCHES._replace(batch=6), epochs=2)
    down = {**on.initial(fed), "params": randn(3, seed=9)}
    a, w = 0.2, down["params"]
    for b1, b2, b3 in zip(*(drawn(turn, role) for role in ("adapt", "train", "curvature")), strict=True):
        there = w - a * b1.x.T @ (b1.x @ w - b1.y) / len(b1.y)
        g = b2.x.T @ (b2.x @ there - b2.y) / len(b2.y)
        w = w - 0.1 * (g - a * b3.x.T @ (b3.x @ g) / len(b3.y))
    _, upload = PerFedAvg(variant="HF", adapt_lr=a, delta=delta).local(on, {}, down, turn)
    _, first_order = PerFedAvg(adapt_lr=a).local(on, {}, down, turn)
    assert near(upload["params"], w) and not near(first_order["params"], w, 1e-3)


def test_per_3_first_order_is_exact_where_the_hessian_is_0() -> None:
    at, _, _ = problem()
    setting: dict[str, Any] = {"on": line(3, slope_only), "at": at, "solver": BATCHES}
    first, free = (run(PerFedAvg(variant=variant, adapt_lr=0.5), **setting) for variant in VARIANTS)
    assert near(first[-1].progress.server["params"], free[-1].progress.server["params"])
    # Each step is -beta mean(x y) over b2: with one batch, -beta times the mean over all.
    [report] = run(PerFedAvg(adapt_lr=0.5), on=line(3, slope_only), at=at[:1], rounds=1, epochs=1, solver=FULL)
    assert near(report.progress.server["params"], -0.1 * (at[0].train.x.T @ at[0].train.y.double()) / 20)


@pytest.mark.parametrize("variant", VARIANTS)
def test_per_4_statistics_see_the_model_itself_and_no_other_point(variant: Any) -> None:
    at, on = silos(), task(batchnorm)
    fed = federation_of(at, 1, 1)
    down = on.initial(fed)
    turn = turn_of(fed, at, 1, FULL)
    _, upload = PerFedAvg(variant=variant, adapt_lr=0.5, delta=10.0).local(on, {}, down, turn)
    module = on.module(down).train()
    module(at[1].train.x)
    stats = on.layout.tensors(upload)
    for name, value in module.named_buffers():
        assert near(stats[name].double(), value.double()), name
    # The parameters do not depend on statistics at all, nor do trial points advance the counter.
    shifted = {**down, "buffers": down["buffers"] + 1, "counts": down["counts"] + 5}
    turn = turn_of(fed, at, 1, BATCHES, epochs=3)
    _, one = PerFedAvg(variant=variant).local(on, {}, down, turn)
    _, two = PerFedAvg(variant=variant).local(on, {}, shifted, turn)
    assert torch.equal(one["params"], two["params"])
    assert (one["counts"] == 12).all() and (two["counts"] == 17).all()  # 15 examples: 4 batches an epoch


def test_per_4_the_adapted_model_keeps_the_statistics_of_the_global_one() -> None:
    for report in run(PerFedAvg(adapt_lr=0.5), on=task(batchnorm), solver=BATCHES):
        for model in report.models:
            assert torch.equal(model["buffers"], report.progress.server["buffers"])
            assert torch.equal(model["counts"], report.progress.server["counts"])
            assert not near(model["params"], report.progress.server["params"])


def test_trial_points_are_seen_under_the_same_dropout() -> None:
    """Under another mask the quotient would be noise over delta."""
    at, on = silos(), task(dropout)
    fed = federation_of(at, 1, 1)
    turn = turn_of(fed, at, 1, BATCHES)
    uploads = [
        PerFedAvg(variant="HF", adapt_lr=0.1, delta=delta).local(on, {}, on.initial(fed), turn)[1]["params"]
        for delta in (1e-4, 1e-5)
    ]
    assert near(uploads[0], uploads[1], 1e-6)


@pytest.mark.parametrize("size", [15, 1000, 2300])
def test_evaluated_after_one_step_on_all_training_data(size: int) -> None:
    at = [silo("ash", size)]
    on, method = task(mlp), PerFedAvg(adapt_lr=0.5)
    [report] = run(method, on=on, at=at, rounds=1, epochs=1, solver=BATCHES._replace(batch=500))
    w = report.progress.server["params"]
    assert near(report.personal(0)["params"], w - 0.5 * gradient(w, at[0].train))


def test_test_data_play_no_part() -> None:
    at = silos()
    other = [one._replace(test=Split(one.test.x + 1, one.test.y)) for one in at]
    assert torch.equal(flat(run(PerFedAvg(), at=at)[-1]), flat(run(PerFedAvg(), at=other)[-1]))


@pytest.mark.parametrize(("variant", "power"), [("FO", 1), ("HF", 2)])
def test_on_quadratics_the_federation_reaches_its_closed_form(variant: Any, power: int) -> None:
    """With all data in a batch g = (I - a H)(H w - b), and HF multiplies once more: the sum over clients is 0."""
    at, hessians, slopes = problem()
    a = 0.2
    factors = [torch.linalg.matrix_power(torch.eye(3, dtype=torch.float64) - a * h, power) for h in hessians]
    w = torch.linalg.solve(
        sum(factor @ hessian for factor, hessian in zip(factors, hessians, strict=True)),
        sum(factor @ slope for factor, slope in zip(factors, slopes, strict=True)),
    )
    method = PerFedAvg(variant=variant, adapt_lr=a)
    last = run(method, on=line(3), at=at, rounds=45, epochs=1, solver=FULL._replace(rate=0.9))[-1]
    assert near(last.progress.server["params"], w)
    for found, hessian, slope in zip(flat(last), hessians, slopes, strict=True):
        assert near(found, w - a * (hessian @ w - slope))


def test_absent_clients_are_evaluated_with_the_current_model() -> None:
    """It is a global method: nothing is kept at a client."""
    for report in run(PerFedAvg(), on=task(mlp), participation=0.4, solver=BATCHES):
        assert all(client == {} for client in report.clients)
        w = report.progress.server["params"]
        for model, one in zip(report.models, silos(), strict=True):
            assert near(model["params"], w - 0.01 * gradient(w, one.train))


def test_momentum_is_refused() -> None:
    method = PerFedAvg()
    assert isinstance(method, Particular) and method.optimizers == ("sgd",)
    method.accept(method.solver)
    with pytest.raises(InputError, match="^perfedavg needs plain sgd, got momentum 0.9: "):
        method.accept(FULL._replace(momentum=0.9))
