"""VRL-SGD: rounds by hand, its sum of corrections under any lot, and the optimum that FedAvg misses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import (
    PAIR,
    THREE,
    Seen,
    batchnorm,
    flat,
    mlp,
    near,
    run,
    same,
    scores_of,
    silo,
    silos,
    squares,
    task,
    turn_of,
)
from torch import Generator, Tensor

from amity.contract import Download, InputError, Particular, Silo, Solver, State
from amity.federation.plan import federation_of
from amity.learn.task import Task
from amity.methods import build
from amity.methods.fedavg import FedAvg
from amity.methods.scaffold import Scaffold
from amity.methods.vrlsgd import VRLSGD

FULL = Solver("sgd", 0.25, batch=1000)  # one batch is all the data, so S = E for everybody
BATCHES = Solver("sgd", 0.1, batch=4, decay=0.9)
ALL: tuple[list[int], list[int]] = ([0, 1, 2], [])


def quadratic(one: Silo) -> tuple[Tensor, Tensor]:
    """H and b of F(w) = w H w / 2 - b w + ..."""
    x, y = one.train
    return x.T @ x / len(y), x.T @ y.double() / len(y)


def optimum(at: Sequence[Silo], weights: Sequence[float] = (1, 1, 1)) -> Tensor:
    """Of the (weighted) sum of the silos' losses."""
    parts = [quadratic(one) for one in at]
    left = sum(w * h for w, (h, _) in zip(weights, parts, strict=True))
    out: Tensor = torch.linalg.solve(left, sum(w * b for w, (_, b) in zip(weights, parts, strict=True)))
    return out


Play = Sequence[tuple[Sequence[int], Sequence[int]]]
"""For every round, who is asked, and who of them loses its upload."""


class Played(NamedTuple):
    down: Download
    server: State
    clients: Sequence[State]


def play(
    method: Any, on: Task, at: Sequence[Silo], script: Play, solver: Solver, epochs: int | Sequence[int]
) -> list[Played]:
    """The states after each round when the lot falls as in the script; E is one number, or each silo's own."""
    fed = federation_of(at, len(script), 1)
    server = method.init_server(on, fed)
    clients = [method.init_client(on, fed, i) for i in range(len(at))]
    each = [epochs] * len(at) if isinstance(epochs, int) else epochs
    out = []
    for round, (asked, lost) in enumerate(script, 1):
        down = method.download(server, torch.tensor(asked), round, lambda role, key: Generator())
        clients, uploads, heard = list(clients), [], []
        for position, i in enumerate(asked):
            turn = turn_of(fed, at, i, solver, round=round, epochs=each[i])
            state, upload = method.local(on, clients[i], down.to(position), turn)
            if i in lost:
                state = {**state, **{key: clients[i][key] for key in method.paired}}
            else:
                uploads.append(upload)
                heard.append(i)
            clients[i] = state
        if heard:
            stacked = {key: torch.stack([upload[key] for upload in uploads]) for key in uploads[0]}
            server = method.aggregate(server, torch.tensor(heard), stacked, round)
        out.append(Played(down, server, clients))
    return out


def settled(after: Played | Seen) -> Tensor:
    """Every Delta_i with what its client will add to it at its next download.  # [m, d]"""
    out = []
    for client, mean in zip(after.clients, after.server["means"], strict=True):
        length = float(client["length"])
        out.append(client["delta"] + ((mean - client["sent"]) / length if length else 0))
    return torch.stack(out)


def cancels(deltas: Tensor, weights: Sequence[float] | None = None) -> bool:
    shares = torch.ones(len(deltas)).double() if weights is None else torch.tensor(weights).double()
    return near(shares @ deltas, torch.zeros_like(deltas[0]))


def test_two_rounds_by_hand() -> None:
    # F_a' = w - 1, F_b' = 4 w - 8, x = 0, gamma = 1/4, S = 2, so S gamma = 1/2.
    # Round 1, Delta = 0:  a: 0 -> 1/4 -> 7/16;  b: 0 -> 2 -> 2;  x = 39/32
    # Round 2: Delta_a = 2 (39/32 - 7/16) = 25/16, Delta_b = 2 (39/32 - 2) = -25/16
    #   a: g = 7/32:   39/32 + (25/16 - 7/32)/4 = 199/128;  g = 71/128: 199/128 + (25/16 - 71/128)/4 = 925/512
    #   b: g = -25/8:  39/32 + (25/8 - 25/16)/4 = 103/64;   g = -25/16: stays
    #   x = (925/512 + 824/512)/2 = 1749/1024
    on = squares([0.0])
    one, two = run(VRLSGD(), on=on, at=PAIR, rounds=2, epochs=2, solver=FULL)
    assert one.progress.server["params"].tolist() == [39 / 32]
    assert flat(one)[:, 0].tolist() == [7 / 16, 2]
    assert [client["delta"].item() for client in one.clients] == [0, 0]
    assert two.progress.server["params"].tolist() == pytest.approx([1749 / 1024], abs=1e-12)
    assert flat(two)[:, 0].tolist() == pytest.approx([925 / 512, 103 / 64], abs=1e-12)
    assert [client["delta"].item() for client in two.clients] == pytest.approx([25 / 16, -25 / 16], abs=1e-12)
    # evaluated: y_a, with (y_a - 1)^2 / 2; or x
    assert scores_of(one)[0].loss == pytest.approx((7 / 16 - 1) ** 2 / 2, abs=1e-12)
    (whole,) = run(VRLSGD(eval_model="global"), on=on, at=PAIR, rounds=1, epochs=2, solver=FULL)
    assert scores_of(whole)[0].loss == pytest.approx((39 / 32 - 1) ** 2 / 2, abs=1e-12)


def test_absent_and_lost_by_hand() -> None:
    # As above, round 1 with both. Round 2, a alone: y_a = 925/512 = x.
    # Round 3, b alone, from x = 925/512. Its round was the first: Delta_b = 2 (39/32 - 2) = -25/16, not 2 (x - 2).
    #   b: g = -99/128: 925/512 - (25/16 - 99/128)/4 = 103/64;  g = -25/16: stays. But the upload is lost:
    #   Delta_b = 0, y_b = 2 and S gamma = 1/2 as before; only its trained copy is new.
    # Round 4, b alone, all the same, and the upload arrives: x = 103/64.
    # Round 5, a alone: it was alone in round 2, so that x' - y_a = 0 and Delta_a = 25/16 still.
    #   a: g = 39/64: 103/64 + (25/16 - 39/64)/4 = 473/256;  g = 217/256: 473/256 + (25/16 - 217/256)/4 = 2075/1024
    script = [([0, 1], []), ([0], []), ([1], [1]), ([1], []), ([0], [])]
    played = play(VRLSGD(), squares([0.0]), PAIR, script, FULL, 2)

    def found(place: int, *keys: str) -> list[float]:
        server, clients = played[place].server, played[place].clients
        return [server["params"].item(), *(client[key].item() for client in clients for key in keys)]

    keys = ("params", "delta", "sent", "length")
    half, y_a, y_b = 1 / 2, 925 / 512, 103 / 64
    assert found(0, *keys) == [39 / 32, 7 / 16, 0, 7 / 16, half, 2, 0, 2, half]
    assert found(1, *keys) == pytest.approx([y_a, y_a, 25 / 16, y_a, half, 2, 0, 2, half], abs=1e-12)
    assert found(2, *keys) == pytest.approx([y_a, y_a, 25 / 16, y_a, half, y_b, 0, 2, half], abs=1e-12)
    assert found(3, *keys) == pytest.approx([y_b, y_a, 25 / 16, y_a, half, y_b, -25 / 16, y_b, half], abs=1e-12)
    assert found(4, "params", "delta")[:3] == pytest.approx([2075 / 1024, 2075 / 1024, 25 / 16], abs=1e-12)
    means = [None if "mean" not in one.down.each else one.down.to(0)["mean"].item() for one in played]
    assert means == pytest.approx([None, None, 39 / 32, 39 / 32, 925 / 512], abs=1e-12)


@pytest.mark.parametrize("eval_model", ["local", "global"])
@pytest.mark.parametrize(
    "lot",
    [
        {},
        {"participation": 0.4},
        {"participation": 0.8, "drop": 0.5},
        {"drop": 0.4, "drop_phase": "after"},
        {"participation": 0.6, "drop": 0.3, "drop_phase": "after"},
    ],
)
def test_vrl_1_the_corrections_sum_to_zero(eval_model: str, lot: dict[str, Any]) -> None:
    """With equal S, in every round and for any lot; the rate decays."""
    solver = FULL._replace(decay=0.8)
    setting: dict[str, Any] = {"on": task(batchnorm), "rounds": 6, "solver": solver, **lot}
    for report in run("vrlsgd", settings={"eval_model": eval_model}, **setting):
        deltas = settled(report)
        assert cancels(deltas)
        if len(report.took_part) > 1:
            assert deltas.abs().max() > 1e-3
        if not lot:  # with everybody Delta_i itself, which all clients have brought up to date
            assert cancels(torch.stack([client["delta"] for client in report.clients]))
        assert not report.warnings


LOTS = st.lists(st.tuples(st.sets(st.integers(0, 2), min_size=1), st.sets(st.integers(0, 2))), min_size=1, max_size=7)


@given(LOTS)
def test_vrl_1_and_the_rule_of_partial_participation_whatever_the_lot(lots: list[tuple[set[int], set[int]]]) -> None:
    """The equations with Delta_i brought up to date at once, by somebody who sees everything."""
    script = [(sorted(asked), sorted(asked & lost)) for asked, lost in lots]
    played = play(VRLSGD(), squares([1.0, -2.0]), THREE, script, FULL._replace(decay=0.9), 3)
    x = torch.tensor([1.0, -2.0], dtype=torch.float64)
    deltas, held = torch.zeros(3, 2, dtype=torch.float64), x.repeat(3, 1)
    for round, ((asked, lost), after) in enumerate(zip(script, played, strict=True)):
        rate = 0.25 * 0.9**round
        for i in asked:
            h, b = quadratic(THREE[i])
            y = x
            for _ in range(3):
                y = y - rate * (h @ y - b - deltas[i])
            held[i] = y
        heard = [i for i in asked if i not in lost]
        if heard:
            x = held[heard].mean(0)
            deltas[heard] = deltas[heard] + (x - held[heard]) / (3 * rate)
        assert near(after.server["params"], x)
        assert near(torch.stack([client["params"] for client in after.clients]), held)
        assert near(settled(after), deltas) and cancels(deltas)


def test_vrl_2_with_one_step_x_follows_synchronous_sgd() -> None:
    """Every silo counts the same, however many examples it has; the step is along the mean gradient at x."""
    at, on = silos(), task(mlp)
    first = on.initial(federation_of(at, 4, 1))
    x = first["params"].clone()
    for report in run(VRLSGD(), on=on, at=at, rounds=4, epochs=1, solver=FULL._replace(decay=0.8)):
        gradients = torch.stack([on.gradient({**first, "params": x}, one.train)[1].clone() for one in at])
        x = x - 0.25 * 0.8 ** (report.round - 1) * gradients.mean(0)
        assert near(report.progress.server["params"], x)
        assert near(settled(report), gradients - gradients.mean(0))


@pytest.mark.parametrize("lot", [{}, {"participation": 0.6}])
def test_vrl_3_without_the_correction_it_is_fedavg_to_the_last_bit(lot: dict[str, Any]) -> None:
    class Frozen(VRLSGD):
        """Nothing is ever added to Delta_i."""

        def local(self, *arguments: Any) -> Any:
            state, upload = super().local(*arguments)
            return {**state, "length": torch.zeros_like(state["length"])}, upload

    on, rounds = task(batchnorm), 4
    average = run(FedAvg("uniform"), on=on, rounds=rounds, solver=BATCHES, **lot)
    copies = run("fedavg-local", settings={"weighting": "uniform"}, on=on, rounds=rounds, solver=BATCHES, **lot)
    whole = run(Frozen(eval_model="global"), on=on, rounds=rounds, solver=BATCHES, **lot)
    mine = run(Frozen(), on=on, rounds=rounds, solver=BATCHES, **lot)
    corrected = run(VRLSGD(), on=on, rounds=rounds, solver=BATCHES, **lot)
    for round in range(rounds):
        for i in range(5):
            assert same(average[round].personal(i), whole[round].personal(i))
            assert same(copies[round].personal(i), mine[round].personal(i))
    assert near(flat(corrected[0]), flat(mine[0])) and not near(flat(corrected[1]), flat(mine[1]))


@pytest.mark.parametrize("batch", [3, 1000])
def test_vrl_4_is_scaffold_with_delta_c_i_less_c(batch: int) -> None:
    at = [silo(name, 8, group) for name, group in [("ash", 0), ("birch", 1), ("elm", 1)]]
    solver = BATCHES._replace(batch=batch)
    one, other = (run(method, on=task(batchnorm), at=at, rounds=5, solver=solver) for method in (VRLSGD(), Scaffold()))
    for a, b in zip(one, other, strict=True):
        assert near(a.progress.server["params"], b.progress.server["params"]) and near(flat(a), flat(b))
        controls = torch.stack([client["control"] for client in b.clients])
        assert near(settled(a), controls - b.progress.server["control"])


def test_reaches_the_optimum_that_fedavg_misses() -> None:
    """Five full steps per round on quadratics with different Hessians and optima."""
    best = optimum(THREE)

    def last(method: Any) -> Tensor:
        return play(method, squares([0.0, 0.0]), THREE, [ALL] * 70, FULL, 5)[-1].server["params"]

    assert near(last(VRLSGD()), best)
    # FedAvg ends where x is the mean of w_i + (1 - gamma H_i)^5 (x - w_i), which is elsewhere.
    left, right = torch.eye(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    for one in THREE:
        h, b = quadratic(one)
        kept = torch.linalg.matrix_power(torch.eye(2, dtype=torch.float64) - 0.25 * h, 5)
        own = torch.linalg.solve(h, b)
        left, right = left - kept / 3, right + (own - kept @ own) / 3
    ends = torch.linalg.solve(left, right)
    assert near(last(FedAvg("uniform")), ends)
    assert (ends - best).norm() > 0.1


ABSENT: list[tuple[list[int], list[int]]] = [([0, 1], []), ([1, 2], []), ([0, 2], [])]
LOST = [([0, 1, 2], [0]), ([0, 1, 2], [2]), ([0, 1, 2], [1])]


@pytest.mark.parametrize("script", [ABSENT, LOST])
def test_reaches_the_optimum_with_silos_missing(script: Play) -> None:
    last = play(VRLSGD(), squares([0.0, 0.0]), THREE, [*script] * 50, FULL._replace(rate=0.1), 5)[-1]
    assert near(last.server["params"], optimum(THREE))
    for delta, one in zip(settled(last), THREE, strict=True):  # and Delta_i is the gradient there
        h, b = quadratic(one)
        assert near(delta, h @ optimum(THREE) - b, 1e-8)


@pytest.mark.parametrize("script", [[ALL], ABSENT, LOST])
def test_unequal_steps_weigh_the_losses_and_are_noted(script: Play) -> None:
    """sum_i S_i Delta_i = 0 when every silo has its own S in all rounds."""
    counts = (2, 3, 4)
    script = [*script] * (150 // len(script))
    played = play(VRLSGD(), squares([0.0, 0.0]), THREE, script, FULL._replace(rate=0.15), counts)
    assert all(cancels(settled(after), counts) for after in played)
    assert not cancels(settled(played[5]))
    assert near(played[-1].server["params"], optimum(THREE, counts))
    first, *others = [one.down.notes for one in played]
    assert first == () and len(others[0]) == 1 and "unequal numbers of steps" in others[0][0]
    assert set(others) == {others[0]}  # one wording, so that it is shown once


@pytest.mark.parametrize(("solver", "noted"), [(BATCHES, True), (FULL, False)])
def test_the_record_is_told_of_unequal_steps(solver: Solver, noted: bool) -> None:
    """Silos of 7 to 15 examples: in batches of four they differ, in one batch they do not."""
    reports = run(VRLSGD(), solver=solver)
    assert [bool(report.warnings) for report in reports] == [False, noted, noted]


def test_one_silo_is_separate_to_the_last_bit() -> None:
    at, on = silos(1), task(batchnorm)
    for one, other in zip(
        run("separate", on=on, at=at, solver=BATCHES), run(VRLSGD(), on=on, at=at, solver=BATCHES), strict=True
    ):
        assert same(one.personal(0), other.personal(0)) and not other.clients[0]["delta"].any()


def test_the_mean_is_sent_only_when_a_silo_is_back_that_missed_a_round() -> None:
    script = [
        ([0, 1], []),  # nobody has anything to catch up with
        ([0, 1, 2], [1]),  # silo 2 was never heard: nothing to catch up with either
        ([0, 2], []),  # both took part in round 2
        ([0, 1], []),  # silo 1's last round that counted was the first
        ([0, 1], [0, 1]),  # no upload arrives, so x stays
        ([0, 1], []),  # and both are up to date
        ([2], []),  # silo 2 took part in round 3
    ]
    played = play(VRLSGD(), squares([0.0, 0.0]), THREE, script, FULL, 2)
    assert ["mean" in one.down.each for one in played] == [False, False, False, True, False, False, True]
    means = [one.server["params"] for one in played]
    assert torch.equal(played[3].down.to(0)["mean"][0], means[2]) and torch.equal(
        played[3].down.to(1)["mean"][0], means[0]
    )
    assert torch.equal(played[6].down.to(0)["mean"][0], means[2])
    assert torch.equal(means[4], means[3])


def test_with_everybody_the_server_keeps_one_mean() -> None:
    for report in run(VRLSGD()):
        means = report.progress.server["means"]
        assert means.shape == (5, 12) and means.stride(0) == 0 and len(means.untyped_storage()) == 12 * 8
        assert torch.equal(means[3], report.progress.server["params"])


def test_a_silo_that_takes_no_step_changes_nothing() -> None:
    """One example is no batch for BatchNorm."""
    at = [*silos(2), silo("one", 1)]
    for report in run(VRLSGD(), on=task(batchnorm), at=at, solver=BATCHES):
        assert report.took_part == [0, 1, 2]
        assert not report.clients[2]["delta"].any()
        assert torch.isfinite(settled(report)).all()


def test_buffers_are_averaged() -> None:
    (report,) = run(VRLSGD(), on=task(batchnorm), rounds=1, solver=BATCHES)
    held = [client["buffers"] for client in report.clients]
    assert near(report.progress.server["buffers"], torch.stack(held).mean(0))
    counts = [client["counts"] for client in report.clients]
    assert torch.equal(report.progress.server["counts"], torch.stack(counts).amax(0))


def test_evaluated_is_the_trained_copy_and_absent_silos_keep_theirs() -> None:
    on = task(batchnorm)
    first = on.initial(federation_of(silos(), 5, 1))
    held = [first] * 5
    for report in run(VRLSGD(), on=on, rounds=5, solver=BATCHES, participation=0.4):
        for i in range(5):
            assert same(report.personal(i), held[i]) == (i not in report.took_part)
        assert report.bytes_eval == 0
        held = list(report.models)
    for report in run("vrlsgd", settings={"eval_model": "global"}, on=on, solver=BATCHES, participation=0.4):
        server = report.progress.server
        for i in range(5):
            assert same(report.personal(i), {key: server[key] for key in first})
            assert report.clients[i].keys() == {"delta", "sent", "length"}


def test_only_plain_sgd_is_accepted() -> None:
    method = build("vrlsgd")
    assert isinstance(method, Particular) and method.optimizers == ("sgd",)
    assert method.solver == Solver("sgd", 5e-3, momentum=0.0, batch=32)
    method.accept(method.solver)
    with pytest.raises(InputError, match="^vrlsgd needs plain sgd, got momentum 0.9: ") as error:
        method.accept(Solver("sgd", 1e-2, momentum=0.9))
    assert "\n" not in str(error.value)
