"""PSGD: every objective by ordinary autograd, its exact limits, and the trends of its theorem."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import torch
from small import (
    CLASSES,
    FEATURES,
    Seen,
    States,
    batchnorm,
    dropout,
    flat,
    fresh_task,
    half_square,
    linear,
    mlp,
    near,
    run,
    scores_of,
    silos,
    task,
)
from torch import Generator, Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from amity.contract import InputError, Model, Particular, Silo, Solver, Split
from amity.federation.plan import federation_of
from amity.learn.task import Task
from amity.methods import build, options_of
from amity.methods._layers import Chosen, part
from amity.methods.psgd import PSGD
from amity.methods.psgd_objectives import Joint, Mixed, Mixture, Moreau, Objective, Pair, Residual, Share

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, batch=4, decay=0.9)


def line() -> Task:
    """One number w: F_i(w) = mean (w x - y)^2 / 2."""
    return Task(lambda: nn.Linear(1, 1, bias=False), (1,), 1, loss=half_square, dtype=torch.float64)


def on_line(name: str, x: Sequence[float], y: Sequence[int]) -> Silo:
    data = Split(torch.tensor(x, dtype=torch.float64)[:, None], torch.tensor(y))
    return Silo(name, data, data)


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def shared_of(report: Seen) -> Tensor:
    return report.progress.server["params"]


def own_of(report: Seen) -> Tensor:
    return torch.stack([client["own_params"] for client in report.clients])


def begin(method: PSGD, on: Task, at: Sequence[Silo], *, shared: Tensor, own: Tensor, rounds: int) -> States:
    """The first state with these parameters; `own` [d] or [m, d]."""
    fed = federation_of(at, rounds, 1)
    rows = own.expand(len(at), -1) if own.dim() == 1 else own
    clients = [
        {**method.init_client(on, fed, i), "params": shared, "own_params": rows[i].clone()} for i in range(len(at))
    ]
    return States({**method.init_server(on, fed), "params": shared}, clients)


def test_three_rounds_of_mixture_by_hand() -> None:
    # F_a' = w - 1, F_b' = w - 9; lambda = 1, eta = 1/2, one step per round; s = beta_a = beta_b = 3.
    # Seen 1: no pull;  beta_a = 3 - 2/2 = 2, beta_b = 3 + 6/2 = 6;  s stays 3
    # Seen 2: beta_a = 2 - (1 - 1)/2 = 2, s_a = 3 - (3 - 2)/2 = 2.5
    #          beta_b = 6 - (-3 + 3)/2 = 6, s_b = 3 - (3 - 6)/2 = 4.5;  s = 3.5
    # Seen 3: beta_a = 2 - (1 - 1.5)/2 = 2.25, s_a = 3.5 - 1.5/2 = 2.75
    #          beta_b = 6 - (-3 + 2.5)/2 = 6.25, s_b = 3.5 + 2.5/2 = 4.75;  s = 3.75
    at = [on_line("a", [1.0], [1]), on_line("b", [1.0], [9])]
    method = PSGD(Mixture(attraction=1.0))
    start = begin(method, line(), at, shared=numbers(3), own=numbers(3), rounds=3)
    reports = run(method, on=line(), at=at, rounds=3, epochs=1, solver=FULL._replace(rate=0.5), start=start)
    found = [[*own_of(report)[:, 0].tolist(), shared_of(report).item()] for report in reports]
    assert found == [pytest.approx(row, abs=1e-12) for row in ([2, 6, 3], [2, 6, 3.5], [2.25, 6.25, 3.75])]
    assert scores_of(reports[2])[0].loss == pytest.approx(1.25**2 / 2, abs=1e-12)  # beta_a is evaluated


# Every objective by ordinary autograd

Loss = Callable[[Tensor, Split], Tensor]


def loss_at(params: Tensor, data: Split) -> Tensor:
    """The mean loss of an ordinary network with these parameters, differentiable in them."""
    module = mlp().double()
    slots = list(module.named_parameters())
    parts = params.split([p.numel() for _, p in slots])
    weights = {name: part.view(p.shape) for (name, p), part in zip(slots, parts, strict=True)}
    return F.cross_entropy(functional_call(module, weights, (data.x,)), data.y)


def gap(s: Tensor, beta: Tensor) -> Tensor:
    return (s - beta).square().sum() / 2


HEAD = slice(16, None)  # of the network's 12 + 4 + 12 + 3 numbers
OBJECTIVES: dict[
    str, tuple[Objective, Callable[[Tensor, Tensor, Split], Tensor], Callable[[Tensor, Tensor], Tensor]]
] = {
    "head": (Share(), lambda s, b, d: loss_at(torch.cat([s, b]), d), lambda s, b: torch.cat([s, b])),
    "body": (Share("body_local"), lambda s, b, d: loss_at(torch.cat([b, s]), d), lambda s, b: torch.cat([b, s])),
    "names": (Share("names", "2"), lambda s, b, d: loss_at(torch.cat([b, s]), d), lambda s, b: torch.cat([b, s])),
    "residual": (Residual(), lambda s, b, d: loss_at(s + b, d), lambda s, b: s + b),
    "mixture": (Mixture(0.7), lambda s, b, d: loss_at(b, d) + 0.7 * gap(s, b), lambda s, b: b),
    "moreau": (Moreau(0.7, 3), lambda s, b, d: loss_at(b, d) + 0.7 * gap(s, b), lambda s, b: b),
    "apfl": (
        Mixed(0.3),
        lambda s, b, d: loss_at(s, d) + loss_at(0.3 * s.detach() + 0.7 * b, d),
        lambda s, b: 0.3 * s + 0.7 * b,
    ),
    "apfl phi": (
        Mixed(0.3, phi=2.0),
        lambda s, b, d: 2 * loss_at(s, d) + loss_at(0.3 * s + 0.7 * b, d),
        lambda s, b: 0.3 * s + 0.7 * b,
    ),
    "mtl": (Pair(0.7), lambda s, b, d: loss_at(s, d) + loss_at(b, d) + 0.7 * gap(s.detach(), b), lambda s, b: b),
    "mtl phi": (
        Pair(0.7, phi=2.0),
        lambda s, b, d: 2 * loss_at(s, d) + loss_at(b, d) + 0.7 * gap(s, b),
        lambda s, b: b,
    ),
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize(
    ("settings", "lossy"),
    [
        ({}, {}),
        ({"shared_lr_scale": 0.5, "weighting": "samples"}, {"participation": 0.6, "drop": 0.4, "drop_phase": "after"}),
    ],
)
def test_a_run_by_ordinary_autograd(name: str, settings: dict[str, Any], lossy: dict[str, Any]) -> None:
    """Two steps a round; who is absent keeps both parts, who loses its upload has trained them."""
    objective, value, joined = OBJECTIVES[name]
    at, on, method = silos(), task(mlp), PSGD(objective, **settings)
    fed, scale = federation_of(at, 4, 1), settings.get("shared_lr_scale", 1.0)
    sizes = fed.sizes.double() if "weighting" in settings else torch.ones(5, dtype=torch.float64)
    server = method.init_server(on, fed)["params"]
    copies = [server] * 5
    owns = [method.init_client(on, fed, i)["own_params"] for i in range(5)]
    for report in run(method, on=on, at=at, rounds=4, epochs=2, solver=FULL._replace(decay=0.8), **lossy):
        rate = 0.1 * 0.8 ** (report.round - 1)
        for i in report.epochs:
            s, beta = server.clone().requires_grad_(), owns[i].clone().requires_grad_()
            for _ in range(2):
                for _ in range(getattr(objective, "inner_steps", 1) - 1):
                    (g,) = torch.autograd.grad(value(s, beta, at[i].train), [beta])
                    beta = (beta - rate * g).detach().requires_grad_()
                g_s, g = torch.autograd.grad(value(s, beta, at[i].train), [s, beta], allow_unused=True)
                new = (beta - rate * g).detach().requires_grad_()
                if name == "moreau":  # the step on s sees the new beta
                    (g_s,) = torch.autograd.grad(value(s, new, at[i].train), [s])
                s, beta = (s - scale * rate * g_s).detach().requires_grad_(), new
            copies[i], owns[i] = s.detach(), beta.detach()
        server = sum(sizes[i] * copies[i] for i in report.took_part) / sizes[report.took_part].sum()
        assert near(shared_of(report), server) and near(own_of(report), torch.stack(owns))
        assert near(flat(report), torch.stack([joined(s, b) for s, b in zip(copies, owns, strict=True)]))


# PSG-1: everything shared, nothing shared


@dataclass(frozen=True)
class One(Share):
    """Share without its refusal of splits that leave nothing on one side."""

    everything: bool = True

    def shares(self, task: Task) -> Chosen:
        return lambda slot: self.everything

    def parts(self, task: Task, first: Model) -> tuple[Model, Model]:
        return part(task, first, self.shares(task)), part(task, first, self.shares(task), False)


@pytest.mark.parametrize("make", [mlp, batchnorm, dropout])
def test_psg_1_everything_shared_is_fedavg(make: Callable[[], nn.Module]) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": BATCHES, "participation": 0.8}
    for weighting in ("uniform", "samples"):
        mine = run(PSGD(One(), weighting=weighting), **setting)
        copies = run("fedavg-local", settings={"weighting": weighting}, **setting)
        for one, two in zip(mine, copies, strict=True):
            for key in ("params", "buffers", "counts"):
                assert torch.equal(one.progress.server[key], two.progress.server[key])
            assert torch.equal(flat(one), flat(two))
            assert (one.bytes_up, one.bytes_down) == (two.bytes_up, two.bytes_down)


@pytest.mark.parametrize("make", [mlp, batchnorm, dropout])
def test_psg_1_nothing_shared_is_separate(make: Callable[[], nn.Module]) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": BATCHES, "participation": 0.8}
    for one, two in zip(run(PSGD(One(everything=False)), **setting), run("separate", **setting), strict=True):
        assert torch.equal(flat(one), flat(two)) and one.bytes_up == one.bytes_down == 0
        assert all(torch.equal(a["buffers"], b["buffers"]) for a, b in zip(one.models, two.models, strict=True))


# PSG-2: one of two added models is zero and frozen


@dataclass(frozen=True)
class Frozen:
    """An objective of which one part never moves."""

    objective: Objective
    part: Literal["shared", "own"]
    attraction: float = 0.0
    gradients_per_batch: int = 1

    def parts(self, task: Task, first: Model) -> tuple[Model, Model]:
        return self.objective.parts(task, first)

    def step(self, at: Joint, batch: Split, rng: Generator | None) -> None:
        still = {f"move_{self.part}": lambda gradient: None}
        self.objective.step(at._replace(**still), batch, rng)  # type: ignore[arg-type]

    def model(self, task: Task, shared: Model, own: Model) -> Model:
        return self.objective.model(task, shared, own)


class Added(nn.Module):
    """Two networks whose scores are added."""

    def __init__(self, make: Callable[[], nn.Module] = mlp) -> None:
        super().__init__()
        self.common, self.own = make(), make()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.common(x) + self.own(x)
        return out


def added(zero: str, make: Callable[[], nn.Module] = mlp) -> Task:
    """Two networks, one of them zero, the other as a task of one network begins."""
    first = task(make).export_state(task(make).initial(federation_of(silos(), 1, 1)))
    start: dict[str, Any] = {
        f"{part}.{name}": value * (part != zero) for part in ("common", "own") for name, value in first.items()
    }
    return Task(lambda: Added(make), (FEATURES,), CLASSES, dtype=torch.float64, start=start)


ADDED = Share("names", "common")  # the shared part of two networks is one of them


@pytest.mark.parametrize("objective", [Residual(), ADDED], ids=["parameters", "scores"])
def test_psg_2_a_local_model_that_is_zero_and_frozen_leaves_fedavg(objective: Objective) -> None:
    on = added("own") if objective is ADDED else task(mlp)
    average = run("fedavg", settings={"weighting": "uniform"}, on=task(mlp), solver=BATCHES)
    for one, two in zip(run(PSGD(Frozen(objective, "own")), on=on, solver=BATCHES), average, strict=True):
        assert near(shared_of(one), two.progress.server["params"], 1e-12) and not own_of(one).any()


@pytest.mark.parametrize("objective", [Residual(), ADDED], ids=["parameters", "scores"])
def test_psg_2_a_global_model_that_is_zero_and_frozen_leaves_separate(objective: Objective) -> None:
    on, method = (added("common") if objective is ADDED else task(mlp)), PSGD(Frozen(objective, "shared"))
    first = task(mlp).initial(federation_of(silos(), 3, 1))["params"]
    start = begin(method, on, silos(), shared=torch.zeros_like(first), own=first, rounds=3)
    alone = run("separate", on=task(mlp), solver=BATCHES)
    for one, two in zip(run(method, on=on, solver=BATCHES, start=start), alone, strict=True):
        assert near(own_of(one), flat(two), 1e-12) and not shared_of(one).any()


def test_residual_adds_scores_where_the_model_is_linear() -> None:
    on = added("own", linear)
    setting: dict[str, Any] = {"solver": BATCHES, "participation": 0.8}
    for one, two in zip(run(PSGD(Residual()), on=task(), **setting), run(PSGD(ADDED), on=on, **setting), strict=True):
        assert near(shared_of(one), shared_of(two)) and near(own_of(one), own_of(two))
        assert near(flat(one), flat(two)[:, : task().size] + flat(two)[:, task().size :])
        losses, others = ([score.loss for score in scores_of(report)] for report in (one, two))
        assert losses == pytest.approx(others, abs=1e-9)


# PSG-3, PSG-4: mixture


def test_psg_3_without_pull_mixture_is_separate_and_s_stays() -> None:
    setting: dict[str, Any] = {"on": task(batchnorm), "solver": BATCHES, "participation": 0.8}
    first = task(batchnorm).initial(federation_of(silos(), 3, 1))["params"]
    for one, two in zip(run(PSGD(Mixture(0.0)), **setting), run("separate", **setting), strict=True):
        assert torch.equal(flat(one), flat(two)) and near(shared_of(one), first, 1e-14)


def test_psg_4_mixture_reaches_its_closed_form() -> None:
    """h_i (x_i - c_i) + lambda (x_i - xbar) = 0: what L2GD minimises (L2-5)."""
    at = [on_line("a", [1.0], [1]), on_line("b", [1.0, 1.5], [3, -1]), on_line("c", [1.5], [2])]
    h = torch.stack([one.train.x[:, 0].square().mean() for one in at])
    c = torch.stack([(one.train.x[:, 0] * one.train.y).mean() for one in at]) / h
    spread = torch.eye(3, dtype=torch.float64) - 1 / 3
    best = torch.linalg.solve(torch.diag(h) + 2 * spread, h * c)
    assert near(best, best.mean() - h * (best - c) / 2) and abs((h * (best - c)).sum()) < 1e-10
    last = run(PSGD(Mixture(2.0)), on=line(), at=at, rounds=220, epochs=1, solver=FULL._replace(rate=0.3))[-1]
    assert near(own_of(last)[:, 0], best) and near(shared_of(last)[0], best.mean())


# PSG-5, PSG-6: the methods it contains


def test_psg_5_mtl_with_one_step_a_round_is_ditto() -> None:
    setting: dict[str, Any] = {"on": task(batchnorm), "solver": FULL, "rounds": 5, "epochs": 1, "participation": 0.8}
    ditto = run("ditto", settings={"attraction": 0.7}, **setting)
    for one, two in zip(run(PSGD(Pair(0.7)), **setting), ditto, strict=True):
        assert near(shared_of(one), two.progress.server["params"]) and near(flat(one), flat(two))
        assert near(one.progress.server["buffers"], two.progress.server["buffers"])


def test_psg_6_apfl_with_both_gradients_at_the_old_models() -> None:
    at, on, a = silos(), task(mlp), 0.3
    setting: dict[str, Any] = {"solver": FULL, "epochs": 1, "rounds": 4}
    w, first = on.initial(federation_of(at, 4, 1)), on.initial(federation_of(at, 4, 1))
    v = [first["params"]] * 5
    alpha = 1 - a
    for one in run(PSGD(Mixed(a)), on=on, **setting):
        copies, mixed = [], []
        for i in range(5):
            vbar = {**first, "params": alpha * v[i] + (1 - alpha) * w["params"]}
            copies.append(w["params"] - 0.1 * on.gradient(w, at[i].train)[1])
            v[i] = v[i] - 0.1 * alpha * on.gradient(vbar, at[i].train)[1]
            mixed.append(alpha * v[i] + (1 - alpha) * copies[i])
        w = {**w, "params": torch.stack(copies).mean(0)}
        assert near(shared_of(one), w["params"]) and near(flat(one), torch.stack(mixed))


@pytest.mark.parametrize("make", [mlp, batchnorm, dropout])
@pytest.mark.parametrize("objective", [Mixed(0.3), Pair(0.7)])
def test_psg_6_the_shared_path_is_that_of_fedavg(objective: Objective, make: Callable[[], nn.Module]) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": BATCHES, "participation": 0.8}
    average = run("fedavg", settings={"weighting": "uniform"}, **setting)
    for one, two in zip(run(PSGD(objective), **setting), average, strict=True):
        assert all(torch.equal(one.progress.server[key], two.progress.server[key]) for key in ("params", "buffers"))


def test_psg_7_a_step_on_omega_is_a_step_on_s_with_the_rate_over_m() -> None:
    """omega = sqrt(m) s."""
    at, on, m = silos(), task(mlp), 5
    first = on.initial(federation_of(at, 3, 1))["params"]
    omega, owns = math.sqrt(m) * first[:16], [first[HEAD]] * m
    for report in run(PSGD(Share(), shared_lr_scale="1/m"), on=on, at=at, epochs=2, solver=FULL):
        moved = []
        for i in range(m):
            o, beta = omega.clone().requires_grad_(), owns[i].clone().requires_grad_()
            sgd = torch.optim.SGD([o, beta], lr=0.1)
            for _ in range(2):
                sgd.zero_grad()
                loss_at(torch.cat([o / math.sqrt(m), beta]), at[i].train).backward()
                sgd.step()
            moved.append(o.detach())
            owns[i] = beta.detach()
        omega = torch.stack(moved).mean(0)
        assert near(math.sqrt(m) * shared_of(report), omega) and near(own_of(report), torch.stack(owns))


# T4: the trends of Theorem 1 on strongly convex quadratics


def test_t4_a_equal_silos_without_noise_converge_linearly() -> None:
    """F(s, beta) = mean (s x + beta - y)^2 / 2: the error is multiplied by I - eta H in every round."""
    on = Task(lambda: nn.Linear(1, 1), (1,), 1, loss=half_square, dtype=torch.float64)
    x, y = [0.0, 1.0, 2.0, -1.0], [1, 0, 3, -2]
    at = [on_line(name, x, y) for name in "abc"]
    rows = torch.stack([numbers(*x), torch.ones(4, dtype=torch.float64)], 1)
    hessian = rows.T @ rows / 4
    best = torch.linalg.solve(hessian, rows.T @ numbers(*y) / 4)
    first = on.initial(federation_of(at, 1, 1))["params"]
    step, slowest = torch.eye(2, dtype=torch.float64) - 0.3 * hessian, 1 - 0.3 * torch.linalg.eigvalsh(hessian)[0]
    error = first - best
    for report in run(PSGD(Share()), on=on, at=at, rounds=100, epochs=1, solver=FULL._replace(rate=0.3)):
        error = step @ error
        found = torch.cat([shared_of(report), own_of(report)[1]]) - best
        assert near(found, error, 1e-12)
        assert found.norm() <= slowest**report.round * (first - best).norm() + 1e-12
    assert found.norm() < 1e-10


class Noisy(nn.Module):
    """Numbers s and beta with loss |s + z|^2/2 + |beta + z'|^2/2, z standard normal: gradient noise of variance 1."""

    size = 1000

    def __init__(self) -> None:
        super().__init__()
        self.common, self.own = nn.Parameter(torch.zeros(self.size)), nn.Parameter(torch.zeros(self.size))

    def forward(self, x: Tensor) -> Tensor:
        both = torch.cat([self.common, self.own])
        noise = torch.randn(both.shape, dtype=both.dtype) if self.training else torch.zeros_like(both)
        return (both + noise).expand(len(x), -1)


@pytest.mark.parametrize(("rate", "rounds"), [(0.4, 8), (0.2, 16), (0.1, 32)])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_t4_b_noise_leaves_a_floor_proportional_to_eta_and_for_s_to_one_over_the_active(
    rate: float, rounds: int, share: float
) -> None:
    """v <- (1 - eta)^2 v + eta^2 / n, from 0: v_k = (1 - (1 - eta)^2k) eta / (2 - eta) / n, n the silos in the mean."""
    on = Task(Noisy, (1,), 2 * Noisy.size, loss=lambda out, y: 0.5 * out.square().sum(1).mean(), dtype=torch.float64)
    at = [on_line(name, [0.0], [0]) for name in "abcdefgh"]
    reports = run(
        PSGD(Share()),
        on=on,
        at=at,
        rounds=rounds,
        epochs=1,
        solver=FULL._replace(rate=rate),
        participation=share,
    )

    def floor(steps: int, silos: int) -> float:
        return (1 - (1 - rate) ** (2 * steps)) * rate / (2 - rate) / silos

    assert floor(rounds, 1) == pytest.approx(rate / 2, rel=0.3)  # of order eta
    assert shared_of(reports[-1]).square().mean() == pytest.approx(floor(rounds, int(8 * share)), rel=0.2)
    for i, own in enumerate(own_of(reports[-1])):
        steps = sum(i in report.took_part for report in reports)
        assert own.square().mean() == pytest.approx(floor(steps, 1), rel=0.2)


class Apart(nn.Module):
    """Two numbers that do not meet: scores (s x, beta)."""

    def __init__(self) -> None:
        super().__init__()
        self.common, self.own = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.common * x, self.own.expand(len(x), 1)], 1)


def test_t4_c_several_steps_per_round_on_unlike_silos_give_a_bias_that_vanishes_with_eta() -> None:
    """tau steps keep (1 - eta h)^tau of a silo's distance to c, so s settles at a mean of c with other weights."""

    def squares(out: Tensor, y: Tensor) -> Tensor:
        return 0.5 * (out - y[:, None]).square().sum(1).mean()

    on = Task(Apart, (1,), 2, loss=squares, dtype=torch.float64)
    at = [on_line("a", [1.0], [1]), on_line("b", [2.0], [0])]
    h, c = numbers(1.0, 4.0), numbers(1.0, 0.0)
    biases = []
    for rate, tau, rounds in ((0.2, 1, 60), (0.1, 4, 35), (0.05, 4, 70), (0.025, 4, 140)):
        reports = run(PSGD(Share()), on=on, at=at, rounds=rounds, epochs=tau, solver=FULL._replace(rate=rate))
        weights = 1 - (1 - rate * h) ** tau
        assert near(shared_of(reports[-1])[0], (weights * c).sum() / weights.sum(), 1e-8)
        biases.append(abs(shared_of(reports[-1]).item() - 0.2))  # the best s is sum h c / sum h = 1/5
    assert biases[0] < 1e-8
    assert biases[1] > 0.05 and biases[2] < 0.6 * biases[1] and biases[3] < 0.6 * biases[2]


# What is shared, and what is refused


def parts_of(make: Callable[[], nn.Module], objective: Objective) -> tuple[list[int], list[int]]:
    """How many parameters, buffers and counters are shared, and how many are the client's own."""
    on = task(make)
    shared, own = objective.parts(on, on.initial(federation_of(silos(), 1, 1)))
    return [len(v) for v in shared.values()], [len(v) for v in own.values()]


def test_shared_and_local_layers() -> None:
    # Linear 3 x 4, BatchNorm 4 + 4 with buffers 4 + 4 and a counter, Linear 4 x 3 + 3
    assert parts_of(batchnorm, Share()) == ([20, 8, 1], [15, 0, 0])
    assert parts_of(batchnorm, Share("body_local")) == ([15, 0, 0], [20, 8, 1])
    assert parts_of(batchnorm, Share("names", "0, 3.bias")) == ([15, 0, 0], [20, 8, 1])
    assert parts_of(batchnorm, Share("names", "1")) == ([8, 8, 1], [27, 0, 0])
    assert parts_of(linear, Share()) == ([9, 0, 0], [3, 0, 0])  # the head of a single layer is its bias
    assert parts_of(linear, Share("body_local")) == ([3, 0, 0], [9, 0, 0])


@pytest.mark.parametrize("objective", [Residual(), Mixture(), Moreau()])
def test_buffers_stay_where_their_network_is(objective: Objective) -> None:
    assert parts_of(batchnorm, objective) == ([35, 0, 0], [35, 8, 1])
    for shared in (Mixed(), Pair()):
        assert parts_of(batchnorm, shared) == ([35, 8, 1], [35, 8, 1])


@pytest.mark.parametrize("split", ["head_local", "body_local"])
def test_shared_layers_are_put_back_in_their_places(split: Any) -> None:
    on = task(batchnorm)
    first = on.initial(federation_of(silos(), 1, 1))
    first = {key: torch.arange(len(value)).to(value.dtype) for key, value in first.items()}
    whole = Share(split).model(on, *Share(split).parts(on, first))
    assert all(torch.equal(whole[key], first[key]) for key in first)


def test_splits_that_say_nothing_are_refused() -> None:
    for settings in ({"names": "0"}, {"split": "names"}):
        with pytest.raises(InputError, match="^share needs split=names together with names=.*: give both or neither"):
            build("psgd-share", settings)
    on = task(mlp)
    with pytest.raises(InputError, match="got one that shares everything: .* or use fedavg-local"):
        run(PSGD(Share("names", "0,2")), on=on)
    with pytest.raises(InputError, match="^unknown parameter or layer '3'"):
        run(PSGD(Share("names", "0,3")), on=on)
    single = fresh_task(lambda: nn.Linear(FEATURES, CLASSES, bias=False))
    with pytest.raises(InputError, match="got one that shares nothing: .* or use separate"):
        run(PSGD(Share()), on=single)


def test_solvers_that_would_be_another_method_are_refused() -> None:
    for name in ("psgd-share", "psgd-residual", "psgd-mixture", "psgd-moreau", "psgd-apfl", "psgd-mtl"):
        method = build(name)
        assert isinstance(method, Particular) and method.optimizers == ("sgd",)
        method.accept(method.solver)
        with pytest.raises(InputError, match="^psgd needs plain sgd, got momentum 0.9: "):
            method.accept(FULL._replace(momentum=0.9))
    with pytest.raises(InputError, match=r"^psgd needs lr \* attraction to be < 2, .*got 3: "):
        PSGD(Moreau()).accept(FULL._replace(rate=0.2))


def test_options_of_loop_and_objective_are_one_list() -> None:
    names = [option["name"] for option in options_of("psgd-mtl")]
    assert names == ["shared_lr_scale", "weighting", "attraction", "phi"]
    assert build("psgd-mtl", {"phi": 2.0, "shared_lr_scale": "1/m"}) == PSGD(Pair(phi=2.0), shared_lr_scale="1/m")
