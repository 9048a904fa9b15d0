"""APPLE: two rounds by hand, a whole run by ordinary autograd, and its exact limits."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from small import Seen, States, batchnorm, half_square, mlp, near, randn, run, same, scores_of, silos, task, turn_of
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from amity.contract import Federation, Relational, Silo, Solver, Split, State, Turn
from amity.federation.plan import federation_of
from amity.learn.task import Task
from amity.learn.train import train
from amity.methods.apple import Apple
from amity.methods.fedavg import FedAvg

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, momentum=0.9, batch=4, decay=0.9)
PAPER: dict[str, Any] = {"core_init": "independent", "lr_scale": "none"}


def line() -> Task:
    """One number w: F_i(w) = mean (w x - y)^2 / 2."""
    return Task(lambda: nn.Linear(1, 1, bias=False), (1,), 1, loss=half_square, dtype=torch.float64)


def on_line(name: str, x: list[float], y: list[int]) -> Silo:
    data = Split(torch.tensor(x, dtype=torch.float64)[:, None], torch.tensor(y))
    return Silo(name, data, data)


def begin(method: Apple, on: Task, fed: Federation, **changes: Tensor) -> States:
    """The first state, with some of it changed alike at the server and at all clients."""
    server = method.init_server(on, fed)
    clients = [method.init_client(on, fed, client) for client in range(fed.clients)]
    return States(
        {key: changes.get(key, value) for key, value in server.items()},
        [{key: changes.get(key, value) for key, value in client.items()} for client in clients],
    )


def at_client(method: Apple, on: Task, fed: Federation, client: int, **changes: Tensor) -> State:
    """One client's state; by default every core was downloaded before."""
    seen = torch.ones(fed.clients, dtype=torch.bool)
    return {**method.init_client(on, fed, client), "seen": seen, **changes}


def loss_at(make: Callable[[], nn.Module], params: Tensor, data: Split) -> Tensor:
    """The mean loss of an ordinary module with these parameters, differentiable in them."""
    module = make().double()
    slots = list(module.named_parameters())
    parts = params.split([p.numel() for _, p in slots])
    weights = {name: part.view(p.shape) for (name, p), part in zip(slots, parts, strict=True)}
    return F.cross_entropy(functional_call(module, weights, (data.x,)), data.y)


def personal(on: Task, state: State) -> Tensor:
    return Apple().personal(on, state, None, None)["params"]  # type: ignore[arg-type]


def prior(at: Sequence[Silo]) -> Tensor:
    sizes = torch.tensor([len(one.train.y) for one in at], dtype=torch.float64)
    return sizes / sizes.sum()


def test_two_rounds_by_hand() -> None:
    # Silos of one example each, x = 1: F_a' = w - 1, F_b' = w - 5; p0 = (1/2, 1/2); first cores c = (2, 4).
    # eta_1 = 1/2, eta_2 = 1/8, mu = 1, cosine over L = 2 rounds: lambda = 1, 1/2. One step per round.
    #
    # Seen 1, w = 2/2 + 4/2 = 3 at both, p = p0, so no penalty:
    #   a: g = 2;   c_a = 2 - 1/2 * 1/2 * 2 = 1.5;  p_a = (1/2 - 2*2/8, 1/2 - 2*4/8) = (0, -0.5)
    #   b: g = -2;  c_b = 4 + 1/2 * 1/2 * 2 = 4.5;  p_b = (1/2 + 2*2/8, 1/2 + 2*4/8) = (1, 1.5)
    #   w_a = 0 * 1.5 - 0.5 * 4 = -2;  w_b = 1 * 2 + 1.5 * 4.5 = 8.75: the other's core is still the old one
    # Seen 2, cores (1.5, 4.5) at both:
    #   a: w = -0.5 * 4.5 = -2.25, g = -3.25;  c_a = 1.5 - 1/2 * 0 * g = 1.5
    #      penalty 1/2 (0 - 1/2, -0.5 - 1/2) = (-0.25, -0.5)
    #      p_a = (0 - (-3.25*1.5 - 0.25)/8, -0.5 - (-3.25*4.5 - 0.5)/8) = (0.640625, 1.390625)
    #   b: w = 1.5 + 1.5 * 4.5 = 8.25, g = 3.25;  c_b = 4.5 - 1/2 * 1.5 * 3.25 = 2.0625
    #      penalty 1/2 (1 - 1/2, 1.5 - 1/2) = (0.25, 0.5)
    #      p_b = (1 - (3.25*1.5 + 0.25)/8, 1.5 - (3.25*4.5 + 0.5)/8) = (0.359375, -0.390625)
    #   w_a = 0.640625 * 1.5 + 1.390625 * 4.5 = 7.21875
    #   w_b = 0.359375 * 1.5 - 0.390625 * 2.0625 = -0.2666015625
    at = [on_line("a", [1.0], [1]), on_line("b", [1.0], [5])]
    method = Apple(mu=1.0, penalty_rounds=1.0, eta2=0.125, lr_scale="none")
    start = begin(method, line(), federation_of(at, 2, 1), cores=torch.tensor([[2.0], [4.0]], dtype=torch.float64))
    one, two = run(method, on=line(), at=at, rounds=2, epochs=1, solver=FULL._replace(rate=0.5), start=start)

    def found(report: Seen) -> list[float]:
        numbers = [report.progress.server["cores"][:, 0]]
        numbers += [client["relations"] for client in report.clients]
        numbers += [personal(line(), client) for client in report.clients]
        return torch.cat(numbers).tolist()

    assert found(one) == pytest.approx([1.5, 4.5, 0, -0.5, 1, 1.5, -2, 8.75], abs=1e-10)
    second = [1.5, 2.0625, 0.640625, 1.390625, 0.359375, -0.390625, 7.21875, -0.2666015625]
    assert found(two) == pytest.approx(second, abs=1e-10)
    # Evaluated after training, with the cores that the silo holds: (w_a - 1)^2 / 2 in round 1.
    assert scores_of(one)[0].loss == pytest.approx(4.5, abs=1e-10)


def schedule(name: str, r: int, length: int) -> float:
    if r >= length:
        return 0.0
    return (1 + math.cos(math.pi * r / length)) / 2 if name == "cos" else 10 ** (-3 * r / length)


@pytest.mark.parametrize(
    "settings",
    [
        {"mu": 0.5, "eta2": 0.05, "core_init": "independent"},
        {"mu": 0.5, "eta2": 0.05, "core_init": "independent", "budget": 2, "scheduler": "exp", "lr_scale": "none"},
        {"mu": 0.0, "eta2": 0.05, "core_init": "shared", "budget": 1, "selection": "uniform"},
    ],
)
def test_a_run_by_ordinary_autograd(settings: dict[str, Any]) -> None:
    """Momentum on both, fresh every round; both rates decay; cores that were not asked for stay stale in the sum."""
    at, on, method = silos(), task(mlp), Apple(penalty_rounds=0.5, **settings)
    fed, p0, rounds = federation_of(at, 4, 1), prior(at), 4
    first = begin(method, on, fed)
    reports = run(
        method, on=on, at=at, rounds=rounds, epochs=3, solver=FULL._replace(momentum=0.9, decay=0.8), start=first.saved
    )
    server, wanted = first.server["cores"], None
    held = [client["cores"].clone() for client in first.clients]
    relations = [p0.clone() for _ in at]
    for r, report in enumerate(reports):
        weight = method.mu * schedule(method.scheduler, r, 2)  # L = floor(0.5 * 4)
        eta1 = 0.1 * 0.8**r * (5 if method.lr_scale == "m" else 1)
        uploads = []
        for i, one in enumerate(at):
            if wanted is not None:
                held[i][wanted[i]] = server[wanted[i]]
            core, p = nn.Parameter(held[i][i].clone()), nn.Parameter(relations[i].clone())
            groups = [{"params": [core], "lr": eta1}, {"params": [p], "lr": method.eta2 * 0.8**r}]
            sgd = torch.optim.SGD(groups, momentum=0.9)
            for _ in range(3):
                sgd.zero_grad()
                cores = torch.cat([held[i][:i], core[None], held[i][i + 1 :]])
                penalty = weight / 2 * (p - p0).square().sum()
                (loss_at(mlp, p @ cores, one.train) + penalty).backward()
                sgd.step()
            held[i][i], relations[i] = core.detach(), p.detach()
            uploads.append(core.detach())
        server, wanted = torch.stack(uploads), report.progress.server["wanted"]
        assert near(report.progress.server["cores"], server)
        for i, client in enumerate(report.clients):
            assert near(client["cores"], held[i]) and near(client["relations"], relations[i])
            assert near(personal(on, client), relations[i] @ held[i])
            loss = loss_at(mlp, relations[i] @ held[i], at[i].test).item() * len(at[i].test.y)
            assert abs(scores_of(report)[i].loss - loss) < 1e-9


def differences(function: Callable[[Tensor], Tensor], at: Tensor, h: float = 1e-3) -> Tensor:
    """The gradient by five-point central differences: the error is of order h^4."""
    out = torch.empty_like(at)
    for i in range(len(at)):
        e = torch.zeros_like(at)
        e[i] = h
        out[i] = (8 * (function(at + e) - function(at - e)) - (function(at + 2 * e) - function(at - 2 * e))) / (12 * h)
    return out


@pytest.mark.parametrize(
    ("scheduler", "share", "r", "fade"),
    [("cos", 0.45, 0, 1.0), ("cos", 0.45, 2, 0.5), ("exp", 0.3, 2, 0.01), ("cos", 0.45, 4, 0.0)],  # of 10 rounds
)
def test_app_1_both_gradients_by_finite_differences(scheduler: Any, share: float, r: int, fade: float) -> None:
    """With plain SGD of rate 1 a step is the gradient."""
    at, on = silos(), task(mlp)
    fed, mu = federation_of(at, 10, 1), 0.7
    method = Apple(mu=mu, scheduler=scheduler, penalty_rounds=share, eta2=1.0, lr_scale="none")
    for me in (0, 3):
        cores, p = randn(5, on.size, seed=me), randn(5, seed=10 + me)  # signed, far from p0
        client = at_client(method, on, fed, me, cores=cores, relations=p)
        after, _ = method.local(on, client, {}, turn_of(fed, at, me, FULL._replace(rate=1.0), round=r + 1))

        def objective(core: Tensor, p: Tensor, cores: Tensor = cores, me: int = me) -> Tensor:
            w: Any = sum(p[j] * (core if j == me else cores[j]) for j in range(5))
            return loss_at(mlp, w, at[me].train) + fade * mu / 2 * (p - prior(at)).square().sum()

        with torch.no_grad():
            by_core = differences(lambda core, p=p, f=objective: f(core, p), cores[me])  # type: ignore[misc]
            by_p = differences(lambda p, core=cores[me], f=objective: f(core, p), p)  # type: ignore[misc]
        assert near(cores[me] - after["cores"][me], by_core, 1e-8)
        assert near(p - after["relations"], by_p, 1e-8)
        others = torch.arange(5) != me
        assert torch.equal(after["cores"][others], cores[others])


def test_app_2_with_p_frozen_all_clients_begin_a_round_with_the_same_model() -> None:
    at, on, method = silos(), task(mlp), Apple(eta2=0.0, **PAPER)
    fed = federation_of(at, 3, 1)
    for report in run(method, on=on, at=at, rounds=3, solver=BATCHES):
        server, clients = report.server, report.clients
        expected = sum(share * core for share, core in zip(prior(at), server["cores"], strict=True))
        down = method.download(server, torch.arange(5), report.round + 1, lambda role, key: torch.Generator())
        for i, client in enumerate(clients):
            assert not near(personal(on, client), expected, 1e-6)  # after its own training it is another
            turn = turn_of(fed, at, i, BATCHES, round=report.round + 1, epochs=0)
            begun, _ = method.local(on, client, down.to(i), turn)
            assert near(personal(on, begun), expected)


def test_app_2_a_growing_mu_freezes_p() -> None:
    at, on = silos(), task(mlp)
    distances = []
    for mu in (1e2, 1e4, 1e6):
        # eta_2 mu = 1: every step throws p back to p0, but for eta_2 <g, c_j>.
        method = Apple(mu=mu, eta2=1 / mu, penalty_rounds=1.0, **PAPER)
        [report] = run(method, on=on, at=at, rounds=1, solver=BATCHES._replace(momentum=0.0))
        relations = torch.stack([client["relations"] for client in report.clients])
        distances.append(float((relations - prior(at)).abs().max()))
    assert distances[0] > 1e-4
    assert distances[1] < 2e-2 * distances[0] and distances[2] < 2e-2 * distances[1]


@pytest.mark.parametrize("core_init", ["shared", "independent"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_app_3_frozen_p_is_a_sum_of_moves_not_a_mean(core_init: Any, epochs: int) -> None:
    at, on = silos(), task(mlp)
    p0, fed = prior(at), federation_of(at, 3, 1)
    method = Apple(eta2=0.0, core_init=core_init, lr_scale="none")
    solver = BATCHES._replace(momentum=0.0)
    w = p0 @ begin(method, on, fed).server["cores"]
    for report in run(method, on=on, at=at, rounds=3, epochs=epochs, solver=solver):
        start: dict[str, Any] = {**on.initial(fed), "params": w}
        new = w.clone()
        for i in range(5):
            slower = solver._replace(rate=0.1 * float(p0[i]) ** 2)
            y = train(on, start, turn_of(fed, at, i, slower, round=report.round, epochs=epochs))["params"]
            new += y - w
        assert near(p0 @ report.progress.server["cores"], new)
        w = new


def test_app_3_for_equal_sizes_it_is_fedavg_with_server_rate_m() -> None:
    at = [one._replace(train=Split(one.train.x[:7], one.train.y[:7])) for one in silos(4)]
    on, m = task(mlp), 4
    fed = federation_of(at, 3, 1)
    method = Apple(eta2=0.0, **PAPER)
    solver = BATCHES._replace(momentum=0.0)
    w = begin(method, on, fed).server["cores"].mean(0)
    average, scaled = FedAvg(), solver._replace(rate=0.1 / m**2)
    for report in run(method, on=on, at=at, rounds=3, solver=solver):
        server = {**average.init_server(on, fed), "params": w}
        uploads = [
            average.local(
                on, {}, {**on.initial(fed), "params": w}, turn_of(fed, at, i, scaled, round=report.round, epochs=2)
            )
            for i in range(m)
        ]
        stacked = {key: torch.stack([upload[key] for _, upload in uploads]) for key in uploads[0][1]}
        mean = average.aggregate(server, torch.arange(m), stacked, report.round)["params"]
        w = w + m * (mean - w)
        assert near(report.progress.server["cores"].mean(0), w)


def test_app_3_one_step_with_rates_over_p0_is_one_fedavg_step() -> None:
    at, on = silos(), task(mlp)
    p0, fed = prior(at), federation_of(at, 1, 1)
    method = Apple(eta2=0.0, **PAPER)
    first = begin(method, on, fed)
    w = p0 @ first.server["cores"]
    cores = []
    for i in range(5):
        turn = turn_of(fed, at, i, FULL._replace(rate=0.1 / float(p0[i])))
        cores.append(method.local(on, first.clients[i], {}, turn)[1]["cores"])
    uploads = [FedAvg().local(on, {}, {**on.initial(fed), "params": w}, turn_of(fed, at, i, FULL)) for i in range(5)]
    step = sum(share * upload["params"] for share, (_, upload) in zip(p0, uploads, strict=True))
    assert near(p0 @ torch.stack(cores), step)


@pytest.mark.parametrize("make", [mlp, batchnorm])
def test_app_4_a_client_that_weighs_only_itself_is_separate(make: Callable[[], nn.Module]) -> None:
    at, on = silos(), task(make)
    method = Apple(eta2=0.0, mu=0.0, **PAPER)
    first = begin(method, on, federation_of(at, 3, 1))
    alone = [{**client, "relations": row} for client, row in zip(first.clients, torch.eye(5).double(), strict=True)]
    apple = run(method, on=on, at=at, solver=BATCHES, start=first._replace(clients=alone))
    separate = run("separate", settings={"init": "independent"}, on=on, at=at, solver=BATCHES)
    for one, two in zip(apple, separate, strict=True):
        for a, b in zip(one.clients, two.clients, strict=True):
            assert torch.equal(personal(on, a), b["params"])
            assert torch.equal(a["buffers"], b["buffers"]) and torch.equal(a["counts"], b["counts"])
        assert [score.loss for score in scores_of(one)] == [score.loss for score in scores_of(two)]


def fades(scheduler: Any, share: float, rounds: int) -> list[float]:
    """lambda(r) for r = 0, 1, ..., read off what it does: at x = 0 the penalty alone moves p."""
    at, on = [on_line("a", [0.0], [1]), on_line("b", [0.0], [1])], line()
    fed = federation_of(at, rounds, 1)
    method = Apple(mu=1.0, eta2=1.0, scheduler=scheduler, penalty_rounds=share)
    p = torch.tensor([1.5, -0.5], dtype=torch.float64)  # p - p0 = (1, -1)
    client = at_client(method, on, fed, 0, relations=p)
    out = []
    for r in range(rounds):
        after, _ = method.local(on, client, {}, turn_of(fed, at, 0, FULL, round=r + 1))
        moved = client["relations"] - after["relations"]
        assert near(moved, moved[0] * torch.tensor([1.0, -1.0], dtype=torch.float64), 1e-14)
        out.append(moved[0].item())
    return out


def test_app_5_the_penalty_fades_from_one_to_nothing() -> None:
    root = math.sqrt(0.5)
    assert fades("cos", 0.5, 8) == pytest.approx([1, (1 + root) / 2, 0.5, (1 - root) / 2, 0, 0, 0, 0], abs=1e-12)
    assert fades("exp", 0.5, 6) == pytest.approx([1, 0.1, 0.01, 0, 0, 0], abs=1e-12)
    assert fades("exp", 0.35, 10) == pytest.approx([1, 0.1, 0.01, *[0] * 7], abs=1e-12)  # L = floor(3.5)
    assert fades("cos", 0.0, 4) == fades("exp", 0.1, 4) == [0, 0, 0, 0]
    for scheduler in ("cos", "exp"):
        long = fades(scheduler, 0.8, 100)
        assert long[0] == 1 and all(a > b for a, b in zip(long[:80], long[1:81], strict=True)) and not any(long[80:])
    assert fades("exp", 1.0, 200)[-1] == pytest.approx(1e-3 ** (199 / 200), rel=1e-9)  # lambda(L-) -> 1e-3


def wishes(method: Apple, draws: int, *, round: int, **changes: Any) -> list[tuple[int, ...]]:
    """What client 1 of 4 asks for, over and over again, without training."""
    at, on = [on_line(name, [0.0], [1]) for name in "abcd"], line()
    fed = federation_of(at, 100, 0)
    client = at_client(method, on, fed, 1, **changes)
    out = []
    for seed in range(draws):
        turn = turn_of(fed._replace(seed=seed), at, 1, FULL, round=round, epochs=0)
        after, upload = method.local(on, client, {}, turn)
        assert torch.equal(after["wanted"], upload["wanted"])
        out.append(tuple(upload["wanted"].tolist()))
    return out


def surprise(found: Sequence[Any], chances: dict[Any, float]) -> float:
    """Pearson's chi-square. Above 13.8 with three outcomes once in a thousand times."""
    assert sum(chances.values()) == pytest.approx(1) and set(found) <= set(chances)
    expected = {outcome: chance * len(found) for outcome, chance in chances.items()}
    return sum((list(found).count(outcome) - count) ** 2 / count for outcome, count in expected.items())


def pairs(weights: dict[int, float]) -> dict[frozenset[int], float]:
    """The chance of each pair in two draws without replacement, proportional to the weights."""
    total = sum(weights.values())
    out: dict[frozenset[int], float] = {}
    for a, b in itertools.permutations(weights, 2):
        pair = frozenset((a, b))
        out[pair] = out.get(pair, 0) + weights[a] / total * weights[b] / (total - weights[a])
    return out


DRAWS = 1200
SIGNED = torch.tensor([3.0, 50.0, -1.0, 0.0], dtype=torch.float64)  # client 1 has no choice about itself


@pytest.mark.parametrize(
    ("round", "base"),
    [(4, 1.5), (7, 1.75)],  # b = max(1.5, r M / m) with M / m = 1/4; the next round is r = 7 counted from 0
)
def test_app_6_one_core_is_drawn_in_proportion_to_b_to_the_size_of_p(round: int, base: float) -> None:
    found = [wish[0] for wish in wishes(Apple(budget=1), DRAWS, round=round, relations=SIGNED)]
    weights = {0: base**3, 2: base, 3: 1.0}
    assert surprise(found, {j: weight / sum(weights.values()) for j, weight in weights.items()}) < 13.8


def test_app_6_two_cores_are_drawn_without_replacement() -> None:
    found = [frozenset(wish) for wish in wishes(Apple(budget=2), DRAWS, round=4, relations=SIGNED)]  # b = 4 * 2/4 = 2
    assert all(len(wish) == 2 and 1 not in wish for wish in found)
    assert surprise(found, pairs({0: 8.0, 2: 2.0, 3: 1.0})) < 13.8


def test_app_6_equal_sizes_of_p_are_equally_likely_and_so_is_everybody_under_uniform() -> None:
    level = {0: 1 / 3, 2: 1 / 3, 3: 1 / 3}
    equal = torch.tensor([2.0, 9.0, -2.0, 2.0], dtype=torch.float64)
    assert surprise([wish[0] for wish in wishes(Apple(budget=1), DRAWS, round=40, relations=equal)], level) < 13.8
    uniform = Apple(budget=1, selection="uniform")
    seen = torch.tensor([True, False, True, False])  # flags play no part either
    found = [wish[0] for wish in wishes(uniform, DRAWS, round=40, relations=SIGNED, seen=seen)]
    assert surprise(found, level) < 13.8


def test_app_6_a_larger_p_is_never_less_likely() -> None:
    """With the luck of the draw held fixed, raising |p_ij| never takes j out."""
    for budget, j, sign in itertools.product((1, 2), (0, 2, 3), (1.0, -1.0)):
        asked = []
        for size in (0.0, 1.0, 2.0, 30.0):
            relations = torch.full((4,), 1.0, dtype=torch.float64)
            relations[j] = sign * size
            found = wishes(Apple(budget=budget), 40, round=9, relations=relations)
            asked.append(torch.tensor([j in wish for wish in found]))
        assert all((more >= less).all() for less, more in zip(asked, asked[1:], strict=False))
        assert asked[0].sum() < asked[-1].sum() == 40


def test_app_6_never_downloaded_come_first_in_random_order() -> None:
    one_new = torch.tensor([True, False, True, False])
    found = wishes(Apple(budget=2), 300, round=40, relations=SIGNED, seen=one_new)
    assert all(3 in wish for wish in found)  # though |p| = 0
    assert {j for wish in found for j in wish} == {0, 2, 3}
    all_new = torch.zeros(4, dtype=torch.bool)
    found = wishes(Apple(budget=1), DRAWS, round=40, relations=SIGNED, seen=all_new)
    assert surprise([wish[0] for wish in found], {0: 1 / 3, 2: 1 / 3, 3: 1 / 3}) < 13.8


def test_app_6_under_a_budget_of_one_everybody_is_downloaded_once_before_anybody_twice() -> None:
    reports = run(Apple(budget=1), rounds=6)
    for client in range(5):
        downloads = [int(report.progress.server["wanted"][client]) for report in reports[:4]]  # for rounds 2 to 5
        assert sorted(downloads) == [j for j in range(5) if j != client]
        assert not reports[0].clients[client]["seen"].any()
        assert reports[4].clients[client]["seen"].sum() == 4


@pytest.mark.parametrize("settings", [{"budget": 4}, {"budget": 5}, {"budget": 99}, {"selection": "uniform"}])
def test_app_7_a_budget_of_all_others_or_more_is_no_limit(settings: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"eta2": 0.05, "core_init": "independent"}
    setting: dict[str, Any] = {"on": task(mlp), "solver": BATCHES, "rounds": 4, "participation": 0.8}
    for one, two in zip(run(Apple(**plain), **setting), run(Apple(**plain, **settings), **setting), strict=True):
        assert torch.equal(one.progress.server["cores"], two.progress.server["cores"])
        assert (one.bytes_up, one.bytes_down) == (two.bytes_up, two.bytes_down)
        for a, b in zip(one.clients, two.clients, strict=True):
            assert torch.equal(a["cores"], b["cores"]) and torch.equal(a["relations"], b["relations"])


class Overheard:
    """A method whose messages are written down."""

    def __init__(self, method: Apple) -> None:
        self.method = method
        self.messages: list[tuple[int, int, State, State, State]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        state, upload = self.method.local(task, client, down, turn)
        self.messages.append((turn.round, int(client["place"]), down, upload, state))
        return state, upload


@pytest.mark.parametrize("budget", ["all", 2])
def test_app_8_only_cores_and_wishes_cross_the_wire(budget: Any) -> None:
    at, on = silos(), task(batchnorm)
    wire = Overheard(Apple(budget=budget, eta2=0.05))
    run(wire, on=on, at=at, rounds=4, solver=BATCHES, participation=0.8)
    count = 4 if budget == "all" else budget
    uploaded = [on.initial(federation_of(at, 4, 1))["params"]]  # what everybody may know so far
    for _, messages in itertools.groupby(wire.messages, key=lambda message: message[0]):
        fresh = []
        for round, client, down, upload, state in messages:
            assert upload.keys() == {"cores", "wanted"}
            assert torch.equal(upload["cores"], state["cores"][client]) and upload["cores"].shape == (on.size,)
            assert upload["wanted"].shape == (count,) and upload["wanted"].dtype == torch.int64
            assert down.keys() == (set() if round == 1 else {"cores"})
            for core in down.get("cores", ()):
                assert any(torch.equal(core, known) for known in uploaded)
            fresh.append(upload["cores"])
        uploaded += fresh
    assert len(wire.messages) == 4 * 4


def test_app_8_another_p_with_the_same_model_gives_the_same_upload() -> None:
    at, on = silos(), task(mlp)
    fed = federation_of(at, 4, 1)
    cores = randn(5, on.size)
    cores[2] = cores[4]  # so that moving weight from 2 to 4 changes p_1 and nothing else
    shifted = prior(at) + torch.tensor([0.0, 0.0, 0.25, 0.0, -0.25], dtype=torch.float64)
    method = Apple(budget=2, eta2=0.0, mu=0.5, selection="uniform")
    one, two = (
        method.local(on, at_client(method, on, fed, 1, cores=cores, relations=p), {}, turn_of(fed, at, 1, BATCHES))[1]
        for p in (prior(at), shifted)
    )
    assert one.keys() == two.keys() == {"cores", "wanted"}
    assert near(one["cores"], two["cores"]) and torch.equal(one["wanted"], two["wanted"])


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_every_round_downloads_exactly_the_budget_and_keeps_the_rest_stale(budget: int) -> None:
    at, on = silos(), task(mlp)
    reports = run(Apple(budget=budget, eta2=0.05), on=on, at=at, rounds=5, solver=BATCHES)
    up, down = 5 * (on.size * 8 + budget * 8), 5 * budget * on.size * 8
    assert [report.bytes_up for report in reports] == [up] * 5
    assert [report.bytes_down for report in reports] == [0, down, down, down, down]  # first cores come from seeds
    assert all(report.bytes_eval == 0 for report in reports)
    for before, after in zip(reports, reports[1:], strict=False):
        for i, (old, new) in enumerate(zip(before.clients, after.clients, strict=True)):
            asked = before.progress.server["wanted"][i]
            assert len(set(asked.tolist())) == budget and i not in asked
            stale = torch.tensor([j for j in range(5) if j != i and j not in asked])
            assert torch.equal(new["cores"][asked], before.progress.server["cores"][asked])
            assert torch.equal(new["cores"][stale], old["cores"][stale])
            assert torch.equal(new["cores"][i], after.progress.server["cores"][i])  # its own is always current
            assert (new["relations"] != old["relations"]).all()  # also of stale cores


@pytest.mark.parametrize("phase", ["before", "after"])
def test_client_and_server_agree_on_what_is_wanted_when_uploads_are_lost(phase: str) -> None:
    reports = run(Apple(budget=2, eta2=0.05), on=task(mlp), rounds=8, solver=BATCHES, drop=0.4, drop_phase=phase)
    lost = 0
    for before, after in zip(reports, reports[1:], strict=False):
        for i, (old, new) in enumerate(zip(before.clients, after.clients, strict=True)):
            assert torch.equal(new["wanted"], after.progress.server["wanted"][i])
            if i in after.took_part:
                continue
            lost += 1
            assert torch.equal(new["wanted"], old["wanted"])
            assert torch.equal(after.progress.server["cores"][i], before.progress.server["cores"][i])
            if phase == "before":
                assert same(new, old)
            else:  # it trained, and what it downloaded went where it belongs
                assert (new["relations"] != old["relations"]).all()
                assert torch.equal(new["cores"][old["wanted"]], before.progress.server["cores"][old["wanted"]])
    assert lost == 7 * 2


def test_relations_can_be_read_for_pictures() -> None:
    method = Apple(eta2=0.05)
    assert isinstance(method, Relational)
    for report in run(method, participation=0.6):
        assert report.weights is not None and report.weights.shape == (5, 5)
        for row, client in zip(report.weights, report.clients, strict=True):
            assert torch.equal(row, method.relations(client))


def test_p_begins_at_the_shares_of_the_samples() -> None:
    at, on = silos(), task(mlp)
    for client in begin(Apple(), on, federation_of(at, 1, 1)).clients:
        assert near(client["relations"], torch.tensor([7.0, 15.0, 9.0, 12.0, 10.0]).double() / 53)


def test_p_may_begin_uniform_and_is_still_pulled_to_the_shares_of_the_samples() -> None:
    # As in the first round above, w = 3 and g = 2 or -2, but b has three examples of four: p0 = (1/4, 3/4). p begins
    # at (1/2, 1/2), so that the penalty is (1/4, -1/4) at once:
    #   p_a = (1/2 - (2*2 + 1/4)/8, 1/2 - (2*4 - 1/4)/8) = (-0.03125, -0.46875)
    #   p_b = (1/2 - (-2*2 + 1/4)/8, 1/2 - (-2*4 - 1/4)/8) = (0.96875, 1.53125)
    at = [on_line("a", [1.0], [1]), on_line("b", [1.0, 1.0, 1.0], [5, 5, 5])]
    method = Apple(mu=1.0, penalty_rounds=1.0, eta2=0.125, first_relations="uniform")
    start = begin(method, line(), federation_of(at, 2, 1), cores=torch.tensor([[2.0], [4.0]], dtype=torch.float64))
    assert all(client["relations"].tolist() == [0.5, 0.5] for client in start.clients)
    [report] = run(method, on=line(), at=at, rounds=1, epochs=1, solver=FULL._replace(rate=0.5), start=start)
    found = torch.cat([client["relations"] for client in report.clients]).tolist()
    assert found == pytest.approx([-0.03125, -0.46875, 0.96875, 1.53125], abs=1e-10)
    assert report.progress.server["cores"][:, 0].tolist() == pytest.approx([1.5, 4.5], abs=1e-10)


def test_with_silos_of_one_size_both_beginnings_are_one() -> None:
    at, on = [one._replace(train=Split(one.train.x[:7], one.train.y[:7])) for one in silos()], task(mlp)
    one, other = (
        run(Apple(first_relations=first), on=on, at=at, rounds=2, solver=BATCHES)[-1] for first in ("sizes", "uniform")
    )
    assert all(same(a, b) for a, b in zip(one.clients, other.clients, strict=True))


def test_first_cores_are_shared_or_each_its_own_and_known_to_all() -> None:
    at, on = silos(), task(mlp)
    fed = federation_of(at, 1, 1)
    for core_init, different in (("shared", 1), ("independent", 5)):
        first = begin(Apple(core_init=core_init), on, fed)  # type: ignore[arg-type]
        cores = first.server["cores"]
        assert len({tuple(core.tolist()) for core in cores}) == different
        assert all(torch.equal(client["cores"], cores) for client in first.clients)


def moved(method: Apple, *, round: int = 1, decay: float = 1.0) -> tuple[Tensor, Tensor]:
    """What one full step does to a client's core and p, from the same state."""
    at, on = silos(4), task(mlp)
    fed = federation_of(at, 9, 1)
    client = at_client(method, on, fed, 2, cores=randn(4, on.size), relations=randn(4, seed=1))
    turn = turn_of(fed, at, 2, FULL._replace(decay=decay), round=round)
    after, _ = method.local(on, client, {}, turn)
    return after["cores"][2] - client["cores"][2], after["relations"] - client["relations"]


def test_lr_scale_multiplies_the_rate_of_the_core_by_m_and_not_that_of_p() -> None:
    core, p = moved(Apple(mu=0.0, lr_scale="none"))
    scaled, same_p = moved(Apple(mu=0.0, lr_scale="m"))
    assert near(scaled, 4 * core) and torch.equal(p, same_p) and core.abs().max() > 1e-4


def test_by_default_the_rate_is_the_papers() -> None:
    # With p fixed at 1/m and equal cores, w moves by p_ii times the core's step eta_1 p_ii g: by eta_1/m^2 times g.
    at, on = [silos()[0]] * 4, task(mlp)
    fed = federation_of(at, 9, 1)
    client = at_client(Apple(), on, fed, 2)
    after, _ = Apple(eta2=0.0).local(on, client, {}, turn_of(fed, at, 2, FULL))
    first = personal(on, client).requires_grad_()
    loss_at(mlp, first, at[2].train).backward()
    assert first.grad is not None
    assert near(personal(on, after) - first.detach(), -0.1 / 4**2 * first.grad)
    assert first.grad.abs().max() > 1e-2


def test_both_rates_decay_with_the_solver() -> None:
    method = Apple(mu=0.0, eta2=0.05)
    core, p = moved(method)
    later_core, later_p = moved(method, round=4, decay=0.5)
    assert near(later_core, core / 8) and near(later_p, p / 8) and p.abs().max() > 1e-4
    _, twice = moved(Apple(mu=0.0, eta2=0.1))
    assert near(twice, 2 * p)


def test_one_silo_alone_asks_for_nobody() -> None:
    at = silos(1)
    reports = run(Apple(eta2=0.0), on=task(mlp), at=at, solver=BATCHES)
    alone = run("separate", on=task(mlp), at=at, solver=BATCHES)
    for one, two in zip(reports, alone, strict=True):
        assert one.bytes_down == 0
        assert torch.equal(personal(task(mlp), one.clients[0]), two.clients[0]["params"])


def test_a_budget_beyond_the_others_is_clipped_and_said() -> None:
    for budget, said in ((3, False), (4, False), (5, True)):  # five silos: four others
        reports = run(Apple(budget=budget), rounds=2)
        assert any("clipped to 4" in note for note in reports[0].warnings) == said
        sent = min(budget, 4) * reports[1].progress.server["cores"][0].numel() * 8
        assert reports[1].bytes_down == 5 * sent
