"""pFedMe: two rounds by hand, a turn by ordinary autograd, closed forms on quadratics, and its exact limits."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from small import batchnorm, flat, mlp, near, own, quadratic, randn, run, same, scores_of, silos, task, turn_of
from torch import Tensor, nn
from torch.nn import functional as F

from amity.contract import InputError, Particular, Silo, Solver, Split, State, Turn
from amity.federation.plan import federation_of
from amity.learn.streams import order
from amity.learn.task import Task
from amity.methods.pfedme import PFedMe

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.05, batch=4, decay=0.9)
SOME: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "drop_phase": "after"}


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


def test_two_rounds_by_hand() -> None:
    # F_a' = w - 8, F_b' = w - 16; lambda = 1, eta_p = 1/4, eta = 1/2, R = 2 steps of K = 2, everything from 0.
    # Round 1, a: r = 1: theta = 2;  g = -6 + 2 = -4, theta = 3;                         w = 0 + 3/2 = 1.5
    #             r = 2: g = -5 + 1.5 = -3.5, theta = 3.875;  g = -4.125 + 2.375, theta = 4.3125
    #                    w = 1.5 + 2.8125/2 = 2.90625
    #          b is twice a: theta = 8.625, w = 5.8125.   Mean 4.359375; with beta = 2 the server goes to 8.71875.
    # Round 2, a from theta = w = 4.359375:
    #             r = 1: g = -3.640625, theta = 5.26953125;  g = -2.73046875 + 0.91015625, theta = 5.724609375
    #                    w = 4.359375 + 1.365234375/2 = 5.0419921875
    #             r = 2: g = -2.275390625 + 0.6826171875, theta = 6.122802734375
    #                    g = -1.877197265625 + 1.080810546875, theta = 6.3218994140625
    #                    w = 5.0419921875 + 1.2799072265625/2 = 5.68194580078125
    #          b: r = 1: g = -11.640625, theta = 7.26953125;  g = -8.73046875 + 2.91015625, theta = 8.724609375
    #                    w = 4.359375 + 4.365234375/2 = 6.5419921875
    #             r = 2: g = -7.275390625 + 2.1826171875, theta = 9.997802734375
    #                    g = -6.002197265625 + 3.455810546875, theta = 10.6343994140625
    #                    w = 6.5419921875 + 4.0924072265625/2 = 8.58819580078125
    #          mean 7.13507080078125
    one = torch.ones(1, 1, dtype=torch.float64)
    at = [own("a", one, torch.tensor([8])), own("b", one, torch.tensor([16]))]
    settings: dict[str, Any] = {"attraction": 1.0, "steps": 2, "inner_steps": 2, "eta": 0.5}
    setting: dict[str, Any] = {
        "on": quadratic(1),
        "at": at,
        "rounds": 2,
        "epochs": 1,
        "solver": FULL._replace(rate=0.25),
    }
    first, second = run(PFedMe(**settings), **setting)
    assert [*first.progress.server["params"], *flat(first)[:, 0]] == pytest.approx([4.359375, 4.3125, 8.625], abs=1e-10)
    expected = [7.13507080078125, 6.3218994140625, 10.6343994140625]
    assert [*second.progress.server["params"], *flat(second)[:, 0]] == pytest.approx(expected, abs=1e-10)
    # Evaluated is theta, not w: (4.3125 - 8)^2 / 2.
    assert scores_of(first)[0].loss == pytest.approx(3.6875**2 / 2, abs=1e-10)
    bold = run(PFedMe(beta=2.0, **settings), **setting)[0]
    assert bold.progress.server["params"].item() == pytest.approx(8.71875, abs=1e-10)


def endless(turn: Turn) -> Iterator[Split]:
    """The batches of epoch 1, then of epoch 2, and on."""
    x, y = turn.data.train
    epoch = 1
    while True:
        for chosen in order(turn.seed("train", epoch), len(y)).split(turn.solver.batch):
            yield Split(x[chosen], y[chosen])
        epoch += 1


@pytest.mark.parametrize(("steps", "epochs"), [(1, 1), (3, 3), (4, 2), (11, 1)])
def test_a_turn_by_ordinary_autograd(steps: int, epochs: int) -> None:
    """15 examples in batches of 4: R steps leave an epoch early, or go on into epochs the turn does not have."""
    at, on = silos(), task(mlp)
    fed = federation_of(at, 5, 1)
    method = PFedMe(attraction=2.0, steps=steps, inner_steps=3, eta=0.1)
    turn = turn_of(fed, at, 1, BATCHES, round=3, epochs=epochs)
    down = {**on.initial(fed), "params": randn(on.size, seed=2)}
    held = {**on.initial(fed), "params": randn(on.size, seed=3)}  # the last theta is not where the next begins
    after, upload = method.local(on, held, down, turn)
    rate, eta = 0.05 * 0.81, 0.1 * 0.81
    w = down["params"].clone()
    module = on.module(down).train()
    theta = list(module.parameters())
    for batch in islice(endless(turn), steps * epochs):
        for _ in range(3):
            here = nn.utils.parameters_to_vector(theta)
            loss = F.cross_entropy(module(batch.x), batch.y) + 2.0 / 2 * (here - w).square().sum()
            gradients = torch.autograd.grad(loss, theta)
            with torch.no_grad():
                for parameter, gradient in zip(theta, gradients, strict=True):
                    parameter -= rate * gradient  # type: ignore[misc]
        w = w - eta * 2.0 * (w - nn.utils.parameters_to_vector(theta).detach())
    assert near(after["params"], nn.utils.parameters_to_vector(theta).detach())
    assert near(upload["params"], w)


@pytest.mark.parametrize("attraction", [0.5, 1.0, 15.0])
def test_pme_1_the_copy_follows_the_gradient_of_the_envelope(attraction: float) -> None:
    at, hessians, slopes = problem()
    on, eye = quadratic(3), torch.eye(3, dtype=torch.float64)
    fed = federation_of(at, 1, 1)
    down = {**on.initial(fed), "params": randn(3, seed=9)}
    for client, (hessian, slope) in enumerate(zip(hessians, slopes, strict=True)):
        rate = 1 / (float(torch.linalg.eigvalsh(hessian)[-1]) + attraction)
        method = PFedMe(attraction=attraction, steps=1, inner_steps=150, eta=0.01)
        after, upload = method.local(on, on.initial(fed), down, turn_of(fed, at, client, FULL._replace(rate=rate)))
        w = down["params"].clone().requires_grad_()
        theta = torch.linalg.solve(hessian + attraction * eye, slope + attraction * w)
        x, y = at[client].train
        envelope = (x @ theta - y).square().mean() / 2 + attraction / 2 * (theta - w).square().sum()
        (gradient,) = torch.autograd.grad(envelope, w)  # through theta as well: Danskin says it does not matter
        assert near(after["params"], theta.detach())
        assert near((down["params"] - upload["params"]) / 0.01, gradient)
        assert near(gradient, attraction * (w - theta).detach())


class Overheard:
    """A method whose uploads are written down."""

    def __init__(self, method: PFedMe) -> None:
        self.method = method
        self.uploads: list[Tensor] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        state, upload = self.method.local(task, client, down, turn)
        self.uploads.append(upload["params"])
        return state, upload


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_pme_2_beta_is_how_far_the_server_goes(beta: float, weighting: Any) -> None:
    method = Overheard(PFedMe(beta=beta, weighting=weighting))
    on = task(batchnorm)
    [report] = run(method, on=on, rounds=1, solver=BATCHES)
    first = on.initial(federation_of(silos(), 1, 1))["params"]
    sizes = torch.tensor([7.0, 15.0, 9.0, 12.0, 10.0]) if weighting == "samples" else torch.ones(5)
    mean = (sizes.double() / sizes.sum()) @ torch.stack(method.uploads)
    found = report.progress.server["params"]
    assert near(found, (1 - beta) * first + beta * mean) and not near(mean, first)
    if beta == 0:
        assert torch.equal(found, first)
    variances = on.layout.tensors(report.progress.server)["1.running_var"]
    assert (variances > 0).all()  # beta = 2 does not extrapolate statistics


def test_pme_3_at_eta_lambda_1_the_copy_is_the_proximal_point() -> None:
    at, hessians, slopes = problem()
    on, eye = quadratic(3), torch.eye(3, dtype=torch.float64)
    fed = federation_of(at, 1, 1)
    down = {**on.initial(fed), "params": randn(3, seed=9)}
    method = PFedMe(attraction=2.0, steps=1, inner_steps=80, eta=0.5)
    after, upload = method.local(on, on.initial(fed), down, turn_of(fed, at, 0, FULL._replace(rate=0.3)))
    assert near(upload["params"], after["params"])
    assert near(after["params"], torch.linalg.solve(hessians[0] + 2 * eye, slopes[0] + 2 * down["params"]))
    # so R such steps are R steps of the proximal point method
    method = PFedMe(attraction=2.0, steps=3, inner_steps=80, eta=0.5)
    _, upload = method.local(on, on.initial(fed), down, turn_of(fed, at, 0, FULL._replace(rate=0.3)))
    w = down["params"]
    for _ in range(3):
        w = torch.linalg.solve(hessians[0] + 2 * eye, slopes[0] + 2 * w)
    assert near(upload["params"], w)


@pytest.mark.parametrize(("product", "converges"), [(1.9, True), (2.1, False)])
def test_pme_4_the_inner_steps_need_rate_times_l_plus_lambda_below_2(product: float, converges: bool) -> None:
    at, hessians, slopes = problem()
    on, eye = quadratic(3), torch.eye(3, dtype=torch.float64)
    fed = federation_of(at, 1, 1)
    down = {**on.initial(fed), "params": randn(3, seed=9)}
    exact = torch.linalg.solve(hessians[0] + 3 * eye, slopes[0] + 3 * down["params"])
    rate = product / (float(torch.linalg.eigvalsh(hessians[0])[-1]) + 3)
    method = PFedMe(attraction=3.0, steps=1, inner_steps=300, eta=0.01)
    after, _ = method.local(on, on.initial(fed), down, turn_of(fed, at, 0, FULL._replace(rate=rate)))
    assert near(after["params"], exact) is converges
    assert ((after["params"] - exact).norm() > (down["params"] - exact).norm()).item() is not converges


def test_pme_4_what_must_diverge_is_refused() -> None:
    assert isinstance(PFedMe(), Particular)
    PFedMe().accept(PFedMe.solver)
    PFedMe(attraction=19.9).accept(FULL)
    refused = [
        (PFedMe(attraction=20.0), FULL, "^pfedme needs lr x attraction < 2, got 0.1 x 20: "),
        (PFedMe(eta=0.2), FULL, "^pfedme needs eta x attraction < 2, got 0.2 x 15: "),
        (PFedMe(), FULL._replace(momentum=0.9), "^pfedme needs plain sgd, got momentum 0.9: "),
    ]
    for method, solver, message in refused:
        with pytest.raises(InputError, match=message) as error:
            method.accept(solver)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="attraction"):
        PFedMe(attraction=0.0)  # the server's model would never move


@pytest.mark.parametrize("attraction", [1.0, 2.0])
def test_on_quadratics_the_federation_reaches_its_closed_form(attraction: float) -> None:
    """The sum of the envelopes' gradients is 0: w = mean of theta_i, theta_i = (H_i + lambda)^-1 (b_i + lambda w)."""
    at, hessians, slopes = problem()
    eye = torch.eye(3, dtype=torch.float64)
    inverses = [torch.linalg.inv(hessian + attraction * eye) for hessian in hessians]
    w = torch.linalg.solve(
        sum(eye - attraction * inverse for inverse in inverses),
        sum(inverse @ slope for inverse, slope in zip(inverses, slopes, strict=True)),
    )
    method = PFedMe(attraction=attraction, steps=1, inner_steps=14, eta=1.5 / attraction)
    solver = FULL._replace(rate=1 / (1.3 + attraction))
    last = run(method, on=quadratic(3), at=at, rounds=45, epochs=1, solver=solver)[-1]
    assert near(last.progress.server["params"], w)
    for found, inverse, slope in zip(flat(last), inverses, slopes, strict=True):
        assert near(found, inverse @ (slope + attraction * w))
    assert not near(flat(last)[0], flat(last)[1], 1e-2)


def test_more_epochs_are_more_steps() -> None:
    calls = []

    def counted(out: Tensor, y: Tensor) -> Tensor:
        calls.append(len(y))
        return F.cross_entropy(out, y)

    at = silos()
    on = Task(mlp, (3,), 3, loss=counted, dtype=torch.float64)
    fed = federation_of(at, 1, 1)
    for epochs in (1, 2, 5):
        calls.clear()
        PFedMe().local(on, on.initial(fed), on.initial(fed), turn_of(fed, at, 1, BATCHES, epochs=epochs))
        assert len(calls) == 4 * epochs * 5  # R = 20 at 5 epochs; K = 5
        batches = [calls[i : i + 5] for i in range(0, len(calls), 5)]
        assert all(len(set(sizes)) == 1 for sizes in batches)
        assert [sizes[0] for sizes in batches] == ([4, 4, 4, 3] * 5)[: 4 * epochs]


def test_absent_clients_keep_theta_and_lost_ones_their_new_one() -> None:
    before = None
    for report in run(PFedMe(), on=task(batchnorm), rounds=5, solver=BATCHES, **SOME):
        if before is not None:
            for i, (old, new) in enumerate(zip(before.clients, report.clients, strict=True)):
                assert same(old, new) == (i not in report.epochs)
        before = report


def test_statistics_of_theta_stay_at_the_client() -> None:
    """What the client holds goes on; what it is sent makes no difference to theta's statistics."""
    at, on = silos(), task(batchnorm)
    fed = federation_of(at, 1, 1)
    first = on.initial(fed)
    other = {**first, "buffers": first["buffers"] + 3, "counts": first["counts"] + 7}
    turn = turn_of(fed, at, 1, BATCHES)
    (one, _), (two, _) = (PFedMe().local(on, first, down, turn) for down in (first, other))
    assert same(one, two)
    third, _ = PFedMe().local(on, other, first, turn)
    assert torch.equal(third["params"], one["params"]) and not near(third["buffers"], one["buffers"])
