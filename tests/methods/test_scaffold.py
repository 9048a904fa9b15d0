"""SCAFFOLD: rounds by hand, its sum of control variates, and the optimum that FedAvg misses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import (
    PAIR,
    THREE,
    Seen,
    States,
    batchnorm,
    flat,
    linear,
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
from torch import Generator, Tensor, nn

from amity.contract import InputError, Model, Particular, Silo, Solver, Split
from amity.federation.plan import federation_of
from amity.learn.task import Task
from amity.learn.train import batches, steps
from amity.methods import build
from amity.methods.fedavg import FedAvg
from amity.methods.scaffold import Scaffold
from amity.methods.vrlsgd import VRLSGD

FULL = Solver("sgd", 0.25, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, batch=4, decay=0.9)


def quadratic(one: Silo) -> tuple[Tensor, Tensor]:
    """H and b of F(w) = w H w / 2 - b w + ..."""
    x, y = one.train
    return x.T @ x / len(y), x.T @ y.double() / len(y)


def optimum(at: Sequence[Silo]) -> Tensor:
    parts = [quadratic(one) for one in at]
    out: Tensor = torch.linalg.solve(sum(h for h, _ in parts), sum(b for _, b in parts))
    return out


Play = Sequence[tuple[Sequence[int], Sequence[int]]]
"""For every round, who is asked, and who of them loses its upload."""


def play(method: Any, on: Task, at: Sequence[Silo], script: Play, solver: Solver, epochs: int) -> list[States]:
    """The states after each round when the lot falls as in the script."""
    fed = federation_of(at, len(script), 1)
    server = method.init_server(on, fed)
    clients = [method.init_client(on, fed, i) for i in range(len(at))]
    out = []
    for round, (asked, lost) in enumerate(script, 1):
        down = method.download(server, torch.tensor(asked), round, lambda role, key: Generator())
        clients, uploads, heard = list(clients), [], []
        for position, i in enumerate(asked):
            turn = turn_of(fed, at, i, solver, round=round, epochs=epochs)
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
        out.append(States(server, clients))
    return out


def numbers(after: States | Seen, *keys: str) -> list[float]:
    """x, c, then each client's entries."""
    found = [after.server["params"], after.server["control"], *(c[key] for c in after.clients for key in keys)]
    return torch.cat(found).tolist()


def test_two_rounds_by_hand() -> None:
    # F_a' = w - 1, F_b' = 4 w - 8, x = 0, eta_l = 1/4, S = 2, so S eta_l = 1/2.
    # Round 1, c = c_a = c_b = 0:
    #   a: 0 -> 1/4 -> 1/4 + 3/16 = 7/16;  c_a = (0 - 7/16) / (1/2) = -7/8
    #   b: 0 -> 2 -> 2;                    c_b = (0 - 2) / (1/2) = -4
    #   x = (7/16 + 2)/2 = 39/32;  c = (-7/8 - 4)/2 = -39/16
    # Round 2, corrections c - c_a = -25/16 and c - c_b = 25/16:
    #   a: g = 7/32:   39/32 + (25/16 - 7/32)/4 = 199/128;  g = 71/128: 199/128 + (25/16 - 71/128)/4 = 925/512
    #   b: g = -25/8:  39/32 + (25/8 - 25/16)/4 = 103/64;   g = -25/16: stays
    #   c_a = (7/32 + 71/128)/2 = 99/256;  c_b = (-25/8 - 25/16)/2 = -75/32: the means of the gradients
    #   x = (925/512 + 824/512)/2 = 1749/1024;  c = (99/256 - 600/256)/2 = -501/512
    on = squares([0.0])
    one, two = run(Scaffold(), on=on, at=PAIR, rounds=2, epochs=2, solver=FULL)
    assert numbers(one, "params", "control") == [39 / 32, -39 / 16, 7 / 16, -7 / 8, 2, -4]
    second = [1749 / 1024, -501 / 512, 925 / 512, 99 / 256, 103 / 64, -75 / 32]
    assert numbers(two, "params", "control") == pytest.approx(second, abs=1e-12)
    # evaluated: y_a, with (y_a - 1)^2 / 2
    assert scores_of(one)[0].loss == pytest.approx((7 / 16 - 1) ** 2 / 2, abs=1e-12)
    (whole,) = run(Scaffold(eval_model="global"), on=on, at=PAIR, rounds=1, epochs=2, solver=FULL)
    assert scores_of(whole)[0].loss == pytest.approx((39 / 32 - 1) ** 2 / 2, abs=1e-12)
    assert whole.personal(0)["params"].tolist() == whole.personal(1)["params"].tolist() == [39 / 32]
    # eta_g = 1/2 moves x half as far, and c all the way
    (half,) = run(Scaffold(eta_g=0.5), on=on, at=PAIR, rounds=1, epochs=2, solver=FULL)
    assert numbers(half, "control") == [39 / 64, -39 / 16, -7 / 8, -4]
    (twice,) = run(Scaffold(eta_g=2.0), on=on, at=PAIR, rounds=1, epochs=2, solver=FULL)
    assert numbers(twice, "control") == [39 / 16, -39 / 16, -7 / 8, -4]


def test_absent_and_lost_by_hand() -> None:
    # As above. Round 1, a alone: x = y_a = 7/16 over |A| = 1, c = c_a / 2 = -7/16 over m = 2.
    # Round 2, b alone, and its upload is lost: it keeps y_b, but c_b = 0 as before; the server is as it was.
    #   b: correction -7/16; g = -25/4: 7/16 + (25/4 + 7/16)/4 = 135/64;  g = 7/16: stays
    # Round 3, b alone again, to the same y_b:
    #   x = 135/64;  c_b = (-25/4 + 7/16)/2 = -93/32;  c = -7/16 - 93/64 = -121/64
    one, two, three = play(Scaffold(), squares([0.0]), PAIR, [([0], []), ([1], [1]), ([1], [])], FULL, 2)
    assert numbers(one, "params", "control") == [7 / 16, -7 / 16, 7 / 16, -7 / 8, 0, 0]
    assert numbers(two, "params", "control") == pytest.approx([7 / 16, -7 / 16, 7 / 16, -7 / 8, 135 / 64, 0], abs=1e-12)
    third = [135 / 64, -121 / 64, 7 / 16, -7 / 8, 135 / 64, -93 / 32]
    assert numbers(three, "params", "control") == pytest.approx(third, abs=1e-12)


def control_is_the_mean(after: States | Seen) -> bool:
    return near(after.server["control"], torch.stack([c["control"] for c in after.clients]).mean(0))


@pytest.mark.parametrize("settings", [{}, {"eta_g": 0.3}, {"eval_model": "global"}])
@pytest.mark.parametrize(
    "lot",
    [
        {},
        {"participation": 0.4},
        {"participation": 0.8, "drop": 0.5},
        {"drop": 0.4, "drop_phase": "after"},
        {"participation": 0.6, "drop": 0.3, "drop_phase": "after", "local_epochs_range": (1, 4)},
    ],
)
def test_sca_1_c_is_the_mean_of_all_c_i(settings: dict[str, Any], lot: dict[str, Any]) -> None:
    """With unequal silos, a last batch that BatchNorm leaves out, and a rate that decays."""
    for report in run("scaffold", settings=settings, on=task(batchnorm), rounds=5, solver=BATCHES, **lot):
        assert control_is_the_mean(report)
        assert report.progress.server["control"].abs().max() > 1e-3


LOTS = st.lists(st.tuples(st.sets(st.integers(0, 2), min_size=1), st.sets(st.integers(0, 2))), min_size=1, max_size=6)


@given(LOTS)
def test_sca_1_holds_whatever_the_lot(lots: list[tuple[set[int], set[int]]]) -> None:
    script = [(sorted(asked), sorted(asked & lost)) for asked, lost in lots]
    for after in play(Scaffold(), squares([1.0, -2.0]), THREE, script, FULL, 3):
        assert control_is_the_mean(after)


def test_sca_1_holds_when_an_upload_is_refused() -> None:
    at = silos()
    broken = at[1].train.x.clone()
    broken[0] = torch.inf
    at[1] = at[1]._replace(train=Split(broken, at[1].train.y))
    for report in run(Scaffold(), at=at, solver=BATCHES):
        assert report.dropped.keys() == {1} and control_is_the_mean(report)


def test_sca_2_with_one_step_x_follows_synchronous_sgd() -> None:
    """Every silo counts the same, however many examples it has; the step is along the mean gradient at x."""
    at, on = silos(), task(mlp)
    first = on.initial(federation_of(at, 4, 1))
    x = first["params"].clone()
    for report in run(Scaffold(), on=on, at=at, rounds=4, epochs=1, solver=FULL._replace(decay=0.8)):
        model = {**first, "params": x}
        gradients = torch.stack([on.gradient(model, one.train)[1].clone() for one in at])
        x = x - 0.25 * 0.8 ** (report.round - 1) * gradients.mean(0)
        server = report.progress.server
        assert near(server["params"], x)
        controls = torch.stack([client["control"] for client in report.clients])
        assert near((server["control"] - controls).sum(0), torch.zeros_like(x))
        assert near(controls, gradients)


@pytest.mark.parametrize("make", [mlp, batchnorm])
@pytest.mark.parametrize("eval_model", ["local", "global"])
def test_sca_3_one_silo_is_separate_to_the_last_bit(make: Callable[[], nn.Module], eval_model: str) -> None:
    at, on = silos(1), task(make)
    alone = run("separate", on=on, at=at, solver=BATCHES)
    mine = run("scaffold", settings={"eval_model": eval_model}, on=on, at=at, solver=BATCHES)
    for one, other in zip(alone, mine, strict=True):
        assert same(one.personal(0), other.personal(0))


@pytest.mark.parametrize("lot", [{}, {"participation": 0.6}])
def test_sca_4_the_first_round_is_fedavg_to_the_last_bit(lot: dict[str, Any]) -> None:
    on = task(batchnorm)
    average, copies, whole, mine = (
        run(name, settings=settings, on=on, rounds=2, solver=BATCHES, **lot)
        for name, settings in [
            ("fedavg", {"weighting": "uniform"}),
            ("fedavg-local", {"weighting": "uniform"}),
            ("scaffold", {"eval_model": "global"}),
            ("scaffold", {}),
        ]
    )
    for i in range(5):
        assert same(average[0].personal(i), whole[0].personal(i))
        assert same(copies[0].personal(i), mine[0].personal(i))
    assert not near(flat(average[1]), flat(whole[1]))  # and the second is not


@pytest.mark.parametrize("batch", [3, 1000])
def test_sca_5_is_vrl_sgd_with_everybody(batch: int) -> None:
    at = [silo(name, 8, group) for name, group in [("ash", 0), ("birch", 1), ("elm", 1)]]
    solver = BATCHES._replace(batch=batch)
    one, other = (run(method, on=task(batchnorm), at=at, rounds=5, solver=solver) for method in (Scaffold(), VRLSGD()))
    for a, b in zip(one, other, strict=True):
        assert near(a.progress.server["params"], b.progress.server["params"])
        assert near(flat(a), flat(b))


def test_reaches_the_optimum_that_fedavg_misses() -> None:
    """Five full steps per round on quadratics with different Hessians and optima."""
    best = optimum(THREE)

    def last(method: Any) -> Tensor:
        return play(method, squares([0.0, 0.0]), THREE, [([0, 1, 2], [])] * 70, FULL, 5)[-1].server["params"]

    assert near(last(Scaffold()), best) and near(last(Scaffold(eta_g=0.8)), best)
    # FedAvg ends where x is the mean of w_i + (1 - eta H_i)^5 (x - w_i), which is elsewhere.
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
    last = play(Scaffold(), squares([0.0, 0.0]), THREE, [*script] * 50, FULL._replace(rate=0.1), 5)[-1]
    assert near(last.server["params"], optimum(THREE))
    for client, one in zip(last.clients, THREE, strict=True):  # and c_i is the gradient there
        h, b = quadratic(one)
        assert near(client["control"], h @ optimum(THREE) - b, 1e-8)


class Noting(Task):
    """A task that writes down its gradients."""

    seen: list[Tensor]

    def gradient(self, model: Model, batch: Split, rng: Generator | None = None) -> tuple[Tensor, Tensor]:
        loss, gradient = super().gradient(model, batch, rng)
        self.seen.append(gradient.clone())
        return loss, gradient


@pytest.mark.parametrize(("make", "taken"), [(linear, 3), (batchnorm, 2)])
def test_c_i_is_the_mean_of_the_gradients_really_taken(make: Callable[[], nn.Module], taken: int) -> None:
    """Nine examples in batches of four: BatchNorm leaves the ninth out. The rate is that of the round."""
    at = [silo("ash", 9)]
    on = Noting(make, (3,), 3, dtype=torch.float64)
    fed = federation_of(at, 9, 1)
    method = Scaffold()
    rng = Generator().manual_seed(0)
    c, own = torch.randn(2, on.size, generator=rng, dtype=torch.float64)
    on.seen = []
    turn = turn_of(fed, at, 0, BATCHES, round=7, epochs=2)
    down = {**on.initial(fed), "control": c}
    state, upload = method.local(on, {**method.init_client(on, fed, 0), "control": own}, down, turn)
    assert len(on.seen) == 2 * taken == steps(on, turn)
    mean = torch.stack(on.seen).mean(0)
    assert near(state["control"], mean) and near(upload["control"], mean - own)
    moved = 2 * taken * 0.1 * 0.9**6 * (mean - own + c)
    assert near(upload["params"], down["params"] - moved)


@pytest.mark.parametrize("make", [linear, batchnorm])
def test_steps_are_the_batches_of_a_turn(make: Callable[[], nn.Module]) -> None:
    for size in (1, 2, 7, 8, 9):
        at = [silo("ash", size)]
        for batch in (1, 2, 4, 8, 100):
            turn = turn_of(federation_of(at, 1, 1), at, 0, FULL._replace(batch=batch), epochs=3)
            assert steps(task(make), turn) == len(list(batches(task(make), turn)))


def test_a_silo_that_takes_no_step_changes_nothing() -> None:
    """One example is no batch for BatchNorm."""
    at = [*silos(2), silo("one", 1)]
    for report in run(Scaffold(), on=task(batchnorm), at=at, solver=BATCHES):
        assert report.took_part == [0, 1, 2] and control_is_the_mean(report)
        assert not report.clients[2]["control"].any()


def test_buffers_are_averaged_whatever_the_rate_of_the_server() -> None:
    on = task(batchnorm)
    (report,) = run(Scaffold(eta_g=0.5), on=on, rounds=1, solver=BATCHES)
    held = [client["buffers"] for client in report.clients]
    assert near(report.progress.server["buffers"], torch.stack(held).mean(0))
    counts = [client["counts"] for client in report.clients]
    assert torch.equal(report.progress.server["counts"], torch.stack(counts).amax(0))


def test_evaluated_is_the_trained_copy_and_absent_silos_keep_theirs() -> None:
    on = task(batchnorm)
    first = on.initial(federation_of(silos(), 5, 1))
    held = [first] * 5
    for report in run(Scaffold(), on=on, rounds=5, solver=BATCHES, participation=0.4):
        for i in range(5):
            assert same(report.personal(i), held[i]) == (i not in report.took_part)
        assert report.bytes_eval == 0
        held = list(report.models)
    for report in run("scaffold", settings={"eval_model": "global"}, on=on, solver=BATCHES, participation=0.4):
        server = report.progress.server
        for i in range(5):
            assert same(report.personal(i), {key: server[key] for key in first})
            assert report.clients[i].keys() == {"control"}


def test_only_plain_sgd_is_accepted() -> None:
    method = build("scaffold")
    assert isinstance(method, Particular) and method.optimizers == ("sgd",)
    assert method.solver == Solver("sgd", 1e-2, momentum=0.0, batch=100)
    method.accept(method.solver)
    with pytest.raises(InputError, match="^scaffold needs plain sgd, got momentum 0.9: ") as error:
        method.accept(Solver("sgd", 1e-2, momentum=0.9))
    assert "\n" not in str(error.value)


def test_float32_keeps_its_type() -> None:
    (report,) = run(Scaffold(), on=Task(batchnorm, (3,), 3), rounds=1, solver=BATCHES)
    states = [report.progress.server, *report.clients]
    assert all(state[key].dtype == torch.float32 for state in states for key in ("params", "buffers", "control"))
