"""L2GD: two rounds by hand, runs on quadratics by closed formulas, its coins, and its exact limits."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from small import Seen, States, batchnorm, half_square, mlp, near, run, same, scores_of, silos, task, turn_of
from torch import Tensor, nn

from amity.config.participation import Participation
from amity.contract import Download, InputError, Particular, Silo, Solver, Split, State
from amity.federation.participation import draw
from amity.federation.plan import federation_of
from amity.learn.streams import order, stream
from amity.learn.task import Task
from amity.methods import build
from amity.methods.l2gd import L2GD

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data


def line() -> Task:
    """One number w: F_i(w) = mean (w x - y)^2 / 2 = h/2 (w - c)^2 + a constant."""
    return Task(lambda: nn.Linear(1, 1, bias=False), (1,), 1, loss=half_square, dtype=torch.float64)


def on_line(name: str, x: list[float], y: list[int]) -> Silo:
    data = Split(torch.tensor(x, dtype=torch.float64)[:, None], torch.tensor(y))
    return Silo(name, data, data)


def quadratics() -> tuple[list[Silo], Tensor, Tensor]:
    """Five silos, their curvatures h and centres c."""
    data = [([1.0], [1]), ([1.0, 2.0], [3, -1]), ([0.5], [2]), ([1.5, 0.5], [0, -2]), ([1.0, 1.0], [4, 3])]
    at = [on_line(name, x, y) for name, (x, y) in zip("abcde", data, strict=True)]
    h = torch.stack([one.train.x[:, 0].square().mean() for one in at])
    c = torch.stack([(one.train.x[:, 0] * one.train.y).mean() for one in at]) / h
    return at, h, c


class Scripted:
    """L2GD whose coins are given: (averagings, local steps) of each round."""

    def __init__(self, method: L2GD, coins: Sequence[tuple[int, int]]) -> None:
        self.method, self.coins = method, coins

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def download(self, server: State, who: Tensor, round: int, rng: Any) -> Download:
        sent = self.method.download(server, who, round, rng)
        return sent._replace(shared={**sent.shared, "coins": torch.tensor(self.coins[round - 1])})


def start_at(method: Any, on: Task, at: Sequence[Silo], models: Tensor, rounds: int = 1, seed: int = 1) -> States:
    """The first state, with these models at clients and server.  # [m, d]"""
    fed = federation_of(at, rounds, seed)
    clients = [{**method.init_client(on, fed, i), "params": models[i]} for i in range(len(at))]
    return States({"params": models}, clients)


def params(report: Seen) -> Tensor:
    return torch.stack([client["params"] for client in report.clients])


def coins_of(method: L2GD, round: int, seed: int = 1) -> tuple[int, int]:
    server = {"params": torch.zeros(3, 1)}
    down = method.download(server, torch.arange(3), round, lambda role, key: stream(seed, role, key, round))
    averagings, steps = down.shared["coins"].tolist()
    return averagings, steps


def test_two_rounds_by_hand() -> None:
    # F_a' = w - 1, F_b' = w - 5, both begin at 3. eta = 1/4, p = 1/2, lambda = 1: local rate 1/2, q = 1/2.
    # Seen 1, coins 0 0:    a: 3 -> 2 -> 1.5;  b: 3 -> 4 -> 4.5;  the mean is 3
    # Seen 2, coins 1 1 0:  a: 1.5 -> 2.25 -> 2.625, then 2.625 - 1.625/2 = 1.8125
    #                        b: 4.5 -> 3.75 -> 3.375, then 3.375 + 1.625/2 = 4.1875
    at = [on_line("a", [1.0], [1]), on_line("b", [1.0], [5])]
    method = Scripted(L2GD(attraction=1.0, p=0.5), [(0, 2), (2, 1)])
    start = start_at(method, line(), at, torch.tensor([[3.0], [3.0]], dtype=torch.float64), 2)
    solver = FULL._replace(rate=0.25)
    one, two = run(method, on=line(), at=at, rounds=2, epochs=1, solver=solver, start=start)
    assert params(one)[:, 0].tolist() == pytest.approx([1.5, 4.5], abs=1e-12)
    assert params(two)[:, 0].tolist() == pytest.approx([1.8125, 4.1875], abs=1e-12)
    # Evaluated is what the silo holds after its local steps: (1.5 - 1)^2 / 2 and (1.8125 - 1)^2 / 2.
    assert [scores_of(one)[0].loss, scores_of(two)[0].loss] == pytest.approx([0.125, 0.330078125], abs=1e-12)


@pytest.mark.parametrize("lossy", [{}, {"participation": 0.6}, {"drop": 0.4}, {"drop": 0.4, "drop_phase": "after"}])
@pytest.mark.parametrize("epochs", [1, 3])
def test_a_run_by_closed_formulas(lossy: dict[str, Any], epochs: int) -> None:
    """n steps of rate r on h/2 (w - c)^2 take w - c to (1 - r h)^n (w - c); those asked average what they uploaded."""
    at, h, c = quadratics()
    method, rounds = L2GD(attraction=0.8, p=0.3, init="independent"), 7
    on, solver = line(), FULL._replace(decay=0.9)
    fed = federation_of(at, rounds, 1)
    x = torch.cat([on.initial(fed, i)["params"] for i in range(5)])
    uploaded, absent = x.clone(), 0
    for report in run(method, on=on, at=at, rounds=rounds, epochs=epochs, solver=solver, **lossy):
        eta = 0.1 * 0.9 ** (report.round - 1)
        lot = draw(Participation(epochs=epochs, **lossy), fed, report.round)
        averagings, steps = coins_of(method, report.round)
        asked = lot.asked
        if report.round > 1:
            for _ in range(averagings):
                x[asked] = (1 - eta * 0.8 / 0.3) * x[asked] + eta * 0.8 / 0.3 * uploaded[asked].mean()
        x[asked] = (c + (1 - eta / 0.7 * h) ** (steps * epochs) * (x - c))[asked]
        arrived = torch.tensor(report.took_part)
        uploaded[arrived] = x[arrived]
        absent += 5 - len(arrived)
        assert near(params(report)[:, 0], x) and near(report.progress.server["params"][:, 0], uploaded)
    assert bool(absent) == bool(lossy)


def directions(method: L2GD, models: Tensor, solver: Solver) -> tuple[Tensor, Tensor]:
    """Where one local step and one averaging step take every client.  # [m, d] each"""
    at, on = silos(), task(mlp)
    fed = federation_of(at, 1, 1)
    out = []
    for coins in ((0, 1), (1, 0)):
        down = {"coins": torch.tensor(coins), "params": models.mean(0)}
        ends = [
            method.local(on, {**on.initial(fed), "params": models[i]}, down, turn_of(fed, at, i, solver))[0]["params"]
            for i in range(5)
        ]
        out.append(torch.stack(ends) - models)
    return out[0], out[1]


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(("attraction", "p"), [(0.1, 0.1), (2.0, 0.5), (0.5, 0.9)])
def test_l2_1_the_expected_direction_is_the_full_gradient(attraction: float, p: float) -> None:
    at, on, eta = silos(), task(mlp), 0.1
    models = randn(5, on.size)
    local, averaging = directions(L2GD(attraction, p), models, FULL._replace(rate=eta))
    first = on.initial(federation_of(at, 1, 1))
    slopes = [on.gradient({**first, "params": models[i]}, at[i].train)[1].clone() for i in range(5)]
    full = torch.stack(slopes) + attraction * (models - models.mean(0))
    assert near((1 - p) * local + p * averaging, -eta * full)


@pytest.mark.parametrize("lossy", [{}, {"participation": 0.6}])
@pytest.mark.parametrize("averagings", [1, 3])
def test_l2_2_averaging_keeps_the_mean_of_those_who_average(lossy: dict[str, Any], averagings: int) -> None:
    at, on = silos(), task(mlp)
    method = Scripted(L2GD(1.0, 0.4), [(0, 0), (averagings, 0)])
    start = start_at(method, on, at, randn(5, on.size), 2)._replace(round=1)
    settings: dict[str, Any] = {"on": on, "at": at, "rounds": 2, "solver": FULL}
    [report] = run(method, start=start, **settings, **lossy)
    before, after, who = start.server["params"], params(report), report.took_part
    assert len(who) == (3 if lossy else 5)
    assert near(after[who].mean(0), before[who].mean(0))
    assert near(after[who] - before[who].mean(0), 0.75**averagings * (before[who] - before[who].mean(0)))
    others = [i for i in range(5) if i not in who]
    assert torch.equal(after[others], before[others])


def test_l2_3_q_of_one_gives_consensus() -> None:
    at, on = silos(), task(mlp)
    method = Scripted(L2GD(attraction=4.0, p=0.4), [(0, 0), (1, 0)])  # q = 0.1 * 4 / 0.4
    method.method.accept(FULL)
    start = start_at(method, on, at, randn(5, on.size), 2)._replace(round=1)
    [report] = run(method, on=on, at=at, rounds=2, solver=FULL, start=start)
    models = params(report)
    assert all(torch.equal(model, models[0]) for model in models) and near(models[0], randn(5, on.size).mean(0))


def test_l2_4_without_pull_and_coins_it_is_local_descent() -> None:
    solver = Solver("sgd", 0.1, batch=4, decay=0.9)
    mine = run(L2GD(attraction=0.0, p=0.0), on=task(batchnorm), solver=solver, participation=0.8)
    alone = run("separate", on=task(batchnorm), solver=solver, participation=0.8)
    for one, two in zip(mine, alone, strict=True):
        assert all(same(a, b) for a, b in zip(one.clients, two.clients, strict=True))
        assert (one.bytes_up, one.bytes_down, one.bytes_eval) == (0, 0, 0)


def test_l2_4_without_pull_others_do_not_matter() -> None:
    at, h, c = quadratics()
    method, steps = L2GD(attraction=0.0, p=0.3), 0
    x = line().initial(federation_of(at, 5, 1))["params"].expand(5)
    for report in run(method, on=line(), at=at, rounds=5, epochs=1, solver=FULL):
        steps += coins_of(method, report.round)[1]
        assert near(params(report)[:, 0], c + (1 - 0.1 / 0.7 * h) ** steps * (x - c))


def optimum(h: Tensor, c: Tensor, attraction: float) -> Tensor:
    """h_i (x_i - c_i) + lambda (x_i - xbar) = 0 for all i, as a system of linear equations."""
    m = len(h)
    mean = torch.full((m, m), 1 / m, dtype=torch.float64)
    system = torch.diag(h) + attraction * (torch.eye(m, dtype=torch.float64) - mean)
    out: Tensor = torch.linalg.solve(system, h * c)
    return out


def test_l2_5_the_optimum_is_where_the_expected_step_stands_still() -> None:
    at, h, c = quadratics()
    on, method, attraction, p = line(), L2GD(attraction=0.7, p=0.3), 0.7, 0.3
    best = optimum(h, c, attraction)
    slopes = h * (best - c)
    assert near(best, best.mean() - slopes / attraction) and abs(slopes.sum()) < 1e-10
    fed = federation_of(at, 1, 1)
    for i in range(5):
        client = {**on.initial(fed), "params": best[i : i + 1]}
        moves = []
        for coins in ((0, 1), (1, 0)):
            down = {"coins": torch.tensor(coins), "params": best.mean()[None]}
            moves.append(method.local(on, client, down, turn_of(fed, at, i, FULL))[0]["params"] - best[i])
        assert abs((1 - p) * moves[0] + p * moves[1]) < 1e-10 and abs(moves[0]) > 1e-3


def test_l2_5_the_optimum_is_reached_but_for_the_noise_of_the_coins() -> None:
    """At the optimum a step is eta u/(1-p) or -eta u/p, u = lambda (x - xbar): its variance is eta^2 u^2/(p (1-p)).

    So the squared distance settles at eta |u|^2 / (2 mu p (1-p)), mu the smallest curvature: it vanishes with eta.
    """
    at, h, c = quadratics()
    on, method, p = line(), L2GD(attraction=1.0, p=0.5), 0.5
    best, fed = optimum(h, c, 1.0), federation_of(at, 1, 1)
    mean = torch.full((5, 5), 0.2, dtype=torch.float64)
    mu = torch.linalg.eigvalsh(torch.diag(h) + torch.eye(5, dtype=torch.float64) - mean)[0]
    server, clients, numbers = (
        method.init_server(on, fed),
        [method.init_client(on, fed, i) for i in range(5)],
        itertools.count(1),
    )
    for eta, rounds in ((0.1, 40), (0.01, 160)):
        solver, tail = FULL._replace(rate=eta), []
        for round in itertools.islice(numbers, rounds):
            down = method.download(server, torch.arange(5), round, lambda role, key, k=round: stream(1, role, key, k))  # type: ignore[misc]
            done = [
                method.local(on, clients[i], down.to(i), turn_of(fed, at, i, solver, round=round)) for i in range(5)
            ]
            clients = [client for client, _ in done]
            uploads = {"params": torch.stack([upload["params"] for _, upload in done])}
            server = method.aggregate(server, torch.arange(5), uploads, round)
            tail.append((server["params"][:, 0] - best).square().sum())
        floor = eta * (best - best.mean()).square().sum() / (2 * mu * p * (1 - p))
        assert torch.stack(tail[-rounds // 2 :]).mean() < 2 * floor
    assert floor < 0.1 * (best - best.mean()).square().sum() < (best - c).square().sum()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_l2_6_messages_are_the_changes_from_local_to_averaging(p: float) -> None:
    at, on, rounds = silos(), task(mlp), 9
    method = L2GD(attraction=0.1, p=p)
    reports = run(method, on=on, at=at, rounds=rounds, epochs=1)
    coins = [coins_of(method, k) for k in range(1, rounds + 1)]
    sequence = "".join("1" * averagings + "0" * steps for averagings, steps in coins)
    changes = sequence.count("01")
    assert changes == rounds - 1 and sequence[0] == "0" and all(steps for _, steps in coins)
    models_down = sum(report.bytes_down - 5 * 16 for report in reports) / (5 * 8 * on.size)
    models_up = sum(report.bytes_up for report in reports) / (5 * 8 * on.size)
    assert models_down == changes and models_up == changes + 1  # the last waits for the next change


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_l2_6_the_runs_are_those_of_independent_coins(p: float) -> None:
    """Lengths of runs are geometric; per coin there are p (1 - p) changes."""
    count = 1000
    coins = [coins_of(L2GD(0.1, p), round) for round in range(2, count + 2)]
    for lengths, stay in (([a for a, _ in coins], p), ([b for _, b in coins], 1 - p)):
        assert min(lengths) == 1
        for n in (1, 2, 3, 5):
            chance = stay**n  # that a run is longer than n
            found = sum(length > n for length in lengths) / count
            assert abs(found - chance) < 4 * math.sqrt(chance * (1 - chance) / count) + 1e-12
    total = sum(a + b for a, b in coins)
    assert count / total == pytest.approx(p * (1 - p), rel=0.1)


def test_coins_are_the_rounds_own_and_the_same_for_everybody() -> None:
    method, server = L2GD(0.1, 0.3), {"params": randn(5, 2)}
    for round in (2, 3):
        sent = [
            method.download(server, who, round, lambda role, key, k=round: stream(1, role, key, k)).shared["coins"]  # type: ignore[misc]
            for who in (torch.arange(5), torch.tensor([1, 4]))
        ]
        assert torch.equal(sent[0], sent[1])
    assert len({coins_of(method, round) for round in range(2, 30)}) > 5
    assert [coins_of(method, k) for k in range(2, 9)] != [coins_of(method, k, seed=2) for k in range(2, 9)]
    assert coins_of(method, 1)[0] == 0


def test_epochs_multiply_the_local_steps() -> None:
    at, h, c = quadratics()
    method, on = L2GD(0.1, 0.5), line()
    fed = federation_of(at, 1, 1)
    for steps, epochs in itertools.product((1, 3), (1, 4)):
        client = {**on.initial(fed), "params": torch.tensor([2.0], dtype=torch.float64)}
        turn = turn_of(fed, at, 1, FULL, epochs=epochs)
        after, _ = method.local(on, client, {"coins": torch.tensor([0, steps])}, turn)
        assert near(after["params"], c[1] + (1 - 0.2 * h[1]).pow(steps * epochs) * (2.0 - c[1])[None])


def test_steps_go_through_the_epochs_batches_and_on() -> None:
    """Five steps of batches of 4 from 7 examples: two epochs and a half."""
    at, on, method = silos(), task(mlp), L2GD(0.1, 0.5)
    fed, solver = federation_of(at, 1, 1), Solver("sgd", 0.1, batch=4)
    turn = turn_of(fed, at, 0, solver)
    after, _ = method.local(on, on.initial(fed), {"coins": torch.tensor([0, 5])}, turn)
    w, x, y = on.initial(fed), *at[0].train
    for epoch, part in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 0)):
        chosen = order(turn.seed("train", epoch), 7).split(4)[part]
        w = {**w, "params": w["params"] - 0.2 * on.gradient(w, Split(x[chosen], y[chosen]))[1]}
    assert near(after["params"], w["params"], 1e-12)


def test_buffers_stay_at_the_client() -> None:
    reports = run(L2GD(1.0, 0.5), on=task(batchnorm), epochs=1)
    assert reports[-1].progress.server.keys() == {"params"}
    buffers = torch.stack([client["buffers"] for client in reports[-1].clients])
    assert all(not near(buffers[i], buffers[j], 1e-6) for i, j in itertools.combinations(range(5), 2))


def test_what_would_be_another_method_is_refused() -> None:
    method = build("l2gd", {"attraction": 1.0, "p": 0.2})
    assert isinstance(method, Particular)
    method.accept(FULL._replace(rate=0.2))
    with pytest.raises(InputError, match=r"^l2gd needs lr \* attraction / p to be <= 1, got 1.05: set lr to 0.2 or"):
        method.accept(FULL._replace(rate=0.21))
    with pytest.raises(InputError, match="^l2gd needs plain sgd, got momentum 0.9: "):
        method.accept(FULL._replace(momentum=0.9))
    with pytest.raises(InputError, match="^l2gd needs p to be > 0 to act on attraction > 0, got 0.0: "):
        L2GD(attraction=0.1, p=0.0)
    L2GD(attraction=0.0, p=0.0).accept(FULL)
    for p in (-0.1, 1.0):
        with pytest.raises(InputError, match="needs p to be"):
            L2GD(p=p)
    L2GD().accept(L2GD.solver)
