"""FedProx: two rounds by hand, and its exact limits."""

from typing import Any

import pytest
import torch
from small import batchnorm, dropout, half_square, mlp, near, own, run, same, scores_of, silos, task, turn_of
from torch import Tensor, nn
from torch.nn import functional as F

from amity.contract import Solver
from amity.federation.plan import federation_of
from amity.learn.task import Task
from amity.methods.fedprox import FedProx

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
ADAM = Solver("adam", 0.01, batch=4)


def quadratic(features: int, start: Tensor) -> Task:
    """F_i(w) = |X w - y|^2 / (2 n)."""
    return Task(
        lambda: nn.Linear(features, 1, bias=False),
        (features,),
        1,
        loss=half_square,
        dtype=torch.float64,
        start={"weight": start[None]},
    )


def test_two_rounds_by_hand() -> None:
    # F_a' = w - 8 (n = 1), F_b' = w - 16 (n = 3); two steps of rate 1/2, mu = 1/2.
    # Round 1 from 0:  a: g = -8, w = 4;      g = -4 + (4 - 0)/2 = -2, w = 5.
    #                  b: g = -16, w = 8;     g = -8 + (8 - 0)/2 = -4, w = 10.       mean (5 + 3 * 10) / 4 = 8.75
    # Round 2 from 8.75, with d = 8.75 - w:
    #   a: g = 0.75, w = 8.375;    g = 0.375 - 0.375/2 = 0.1875, w = 8.28125.
    #   b: g = -7.25, w = 12.375;  g = -3.625 + 3.625/2 = -1.8125, w = 13.28125.
    #   mean (8.28125 + 3 * 13.28125) / 4 = 12.03125; uniform mean of round 1: 7.5.
    ones = torch.ones(3, 1, dtype=torch.float64)
    at = [own("a", ones[:1], torch.tensor([8])), own("b", ones, torch.tensor([12, 16, 20]))]
    solver = FULL._replace(rate=0.5)
    reports = run(FedProx(mu=0.5), on=quadratic(1, torch.zeros(1)), at=at, rounds=2, epochs=2, solver=solver)
    found = [report.progress.server["params"].item() for report in reports]
    assert found == pytest.approx([8.75, 12.03125], abs=1e-10)
    method = FedProx(mu=0.5, weighting="uniform")
    [report] = run(method, on=quadratic(1, torch.zeros(1)), at=at, rounds=1, epochs=2, solver=solver)
    assert report.progress.server["params"].item() == pytest.approx(7.5, abs=1e-10)


@pytest.mark.parametrize(
    ("make", "solver", "weighting"),
    [
        (mlp, ADAM, "samples"),
        (batchnorm, FULL._replace(batch=4, momentum=0.9), "uniform"),
        (dropout, ADAM._replace(batch=8), "samples"),
    ],
)
def test_prox_1_mu_0_is_fedavg_to_the_last_bit(make: Any, solver: Solver, weighting: str) -> None:
    settings: dict[str, Any] = {"weighting": weighting}
    setting: dict[str, Any] = {"on": task(make), "solver": solver, "participation": 0.6}
    average = run("fedavg", settings=settings, **setting)
    prox = run("fedprox", settings={**settings, "mu": 0.0}, **setting)
    pulled = run("fedprox", settings={**settings, "mu": 0.5}, **setting)
    for one, two in zip(average, prox, strict=True):
        assert same(one.progress.server, two.progress.server) and one.took_part == two.took_part
        assert [score.loss for score in scores_of(one)] == [score.loss for score in scores_of(two)]
    assert not same(average[-1].progress.server, pulled[-1].progress.server)


def test_prox_2_the_first_step_feels_no_pull() -> None:
    at = silos()
    setting: dict[str, Any] = {"on": task(mlp), "at": at, "rounds": 2, "solver": FULL}
    average = run("fedavg", epochs=1, **setting)
    prox = run(FedProx(mu=10.0), epochs=1, **setting)  # rate 0.1: eta mu = 1
    assert all(same(a.progress.server, p.progress.server) for a, p in zip(average, prox, strict=True))

    # And that step is w - eta grad F_i(w), by ordinary autograd.
    fed, on = federation_of(at, 2, 1), task(mlp)
    first = on.initial(fed)
    for client, one in enumerate(at):
        _, upload = FedProx(mu=10.0).local(on, {}, first, turn_of(fed, at, client, FULL))
        module = on.module(first)
        F.cross_entropy(module(one.train.x), one.train.y).backward()
        gradient = torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])
        assert near(upload["params"], first["params"] - 0.1 * gradient)

    # The second step does feel it.
    assert not same(run("fedavg", **setting)[0].progress.server, run(FedProx(mu=10.0), **setting)[0].progress.server)


def test_prox_3_on_a_quadratic_the_exact_step_shrinks_to_nothing_as_mu_grows() -> None:
    rng = torch.Generator().manual_seed(5)
    x = torch.randn(20, 3, generator=rng, dtype=torch.float64)
    y = torch.randint(-5, 6, (20,), generator=rng)
    centre = torch.randn(3, generator=rng, dtype=torch.float64)
    at = [own("a", x, y)]
    fed, on = federation_of(at, 1, 1), quadratic(3, centre)
    first = on.initial(fed)
    hessian, slope = x.T @ x / 20, x.T @ y.double() / 20
    steepest = float(torch.linalg.eigvalsh(hessian)[-1])
    moves = []
    for mu in (0.0, 0.01, 0.1, 1.0, 10.0, 1e3, 1e6):
        # argmin |X w - y|^2 / (2 n) + mu/2 |w - centre|^2
        exact = torch.linalg.solve(hessian + mu * torch.eye(3, dtype=torch.float64), slope + mu * centre)
        solver = FULL._replace(rate=1 / (steepest + mu))
        _, upload = FedProx(mu=mu).local(on, {}, first, turn_of(fed, at, 0, solver, epochs=150))
        assert near(upload["params"], exact)
        moves.append(float((upload["params"] - centre).norm()))
    assert all(more > less for more, less in zip(moves, moves[1:], strict=False))
    assert moves[0] > 1 and moves[-1] < 1e-5


def test_adam_sees_the_gradient_of_the_whole_objective() -> None:
    at = silos()
    fed, on = federation_of(at, 1, 1), task(mlp)
    first = on.initial(fed)
    _, upload = FedProx(mu=0.7).local(on, {}, first, turn_of(fed, at, 1, Solver("adam", 0.01, batch=1000), epochs=5))
    module = on.module(first).train()
    adam = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(5):
        adam.zero_grad()
        here = nn.utils.parameters_to_vector(module.parameters())
        loss = F.cross_entropy(module(at[1].train.x), at[1].train.y)
        (loss + 0.7 / 2 * (here - first["params"]).square().sum()).backward()
        adam.step()
    assert near(upload["params"], nn.utils.parameters_to_vector(module.parameters()).detach())


def test_the_pull_leaves_batchnorm_statistics_alone() -> None:
    """One step: parameters feel no pull yet, and statistics never do."""
    setting: dict[str, Any] = {"on": task(batchnorm), "rounds": 1, "epochs": 1, "solver": FULL}
    assert same(run("fedavg", **setting)[0].progress.server, run(FedProx(mu=5.0), **setting)[0].progress.server)


def test_messages_are_fedavgs() -> None:
    average, prox = run("fedavg", participation=0.4), run("fedprox", participation=0.4)
    for one, two in zip(average, prox, strict=True):
        assert (one.bytes_up, one.bytes_down, one.bytes_eval) == (two.bytes_up, two.bytes_down, two.bytes_eval)
        assert two.bytes_up == 2 * 8 * 12  # two clients, a model of 3 x 3 weights and 3 biases in float64
