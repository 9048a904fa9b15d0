"""Fine-tuning and local copies: other models for the clients, the same global path."""

from typing import Any

import pytest
import torch
from small import batchnorm, dropout, mlp, run, same, scores_of, silos, solver_of, task, turn_of

from amity.contract import Solver
from amity.federation.plan import federation_of
from amity.learn.train import train
from amity.methods import build
from amity.methods.fedavg import FedAvg
from amity.methods.fedprox import FedProx
from amity.methods.wrappers import FineTuned, LocalCopy

ADAM = Solver("adam", 0.01, batch=4, decay=0.8)
SGD = Solver("sgd", 0.1, momentum=0.9, batch=4, decay=0.8)
ROUNDS = 4


@pytest.mark.parametrize("name", ["fedavg", "fedprox"])
@pytest.mark.parametrize(("make", "solver"), [(mlp, ADAM), (batchnorm, SGD), (dropout, SGD._replace(batch=8))])
def test_ft_1_the_global_path_is_untouched(name: str, make: Any, solver: Solver) -> None:
    setting: dict[str, Any] = {"on": task(make), "rounds": 3, "solver": solver, "participation": 0.6}
    plain = run(name, **setting)
    tuned = run(f"{name}-ft", settings={"ft_epochs": 3, "ft_lr": 0.5}, **setting)
    for one, two in zip(plain, tuned, strict=True):
        assert same(one.progress.server, two.progress.server) and one.took_part == two.took_part
        assert all(same(a, b) for a, b in zip(one.clients, two.clients, strict=True))
        assert (one.bytes_up, one.bytes_down, one.bytes_eval) == (two.bytes_up, two.bytes_down, two.bytes_eval)
        assert [s.loss for s in scores_of(one)] != [s.loss for s in scores_of(two)]


@pytest.mark.parametrize("name", ["fedavg", "fedprox"])
def test_ft_2_no_epochs_of_fine_tuning_is_the_global_model(name: str) -> None:
    at = silos()
    for make in (mlp, batchnorm):
        on = task(make)
        plain = run(name, on=on, at=at, rounds=ROUNDS, solver=ADAM)
        method = build(f"{name}-ft", {"ft_epochs": 0})
        tuned = run(method, on=on, at=at, rounds=ROUNDS, solver=ADAM)
        for one, two in zip(plain, tuned, strict=True):
            assert [score.loss for score in scores_of(one)] == [score.loss for score in scores_of(two)]
            assert all(same(model, {key: one.progress.server[key] for key in model}) for model in two.models)


@pytest.mark.parametrize(("make", "solver"), [(mlp, ADAM), (batchnorm, SGD), (dropout, SGD._replace(batch=8))])
def test_ft_3_the_fine_tuned_model_is_the_local_copy_of_the_next_round(make: Any, solver: Solver) -> None:
    at, on = silos(), task(make)
    participation: dict[str, Any] = {"participation": 0.6, "local_epochs_range": (1, 3)}
    tuned = run("fedavg-ft", on=on, at=at, rounds=ROUNDS, solver=solver, **participation)
    copies = run("fedavg-local", on=on, at=at, rounds=ROUNDS, solver=solver, **participation)
    compared = 0
    for before, after in zip(tuned, copies[1:], strict=False):
        models, copied = before.models, after.models
        for client in after.took_part:
            assert same(models[client], copied[client])
            # What was evaluated is that model, too.
            assert scores_of(before)[client].loss == scores_of(after)[client].loss
            compared += 1
        assert not same(models[0], models[1])
    assert compared == 3 * (ROUNDS - 1)


def test_fedprox_is_fine_tuned_without_its_pull() -> None:
    at, on = silos(), task(mlp)
    method = FineTuned(FedProx(mu=100.0))
    fed = federation_of(at, ROUNDS, 1)
    [report] = run(method, on=on, at=at, rounds=ROUNDS, solver=ADAM, stop_after=1)
    for client, model in enumerate(report.models):
        turn = turn_of(fed, at, client, ADAM, round=2, epochs=2)
        _, free = FedAvg().local(on, {}, report.progress.server, turn)
        assert same(model, free)


def test_fine_tuning_has_its_own_epochs_and_rate() -> None:
    at, on = silos(), task(mlp)
    fed = federation_of(at, ROUNDS, 1)
    solver = SGD._replace(decay=1.0)
    down = on.initial(fed)
    turn = turn_of(fed, at, 0, solver, round=2, epochs=2)
    other = turn_of(fed, at, 0, solver._replace(rate=0.03), round=2, epochs=5)
    assert same(FineTuned(FedAvg(), 5, 0.03).personal(on, {}, down, turn), train(on, down, other))
    assert same(FineTuned(FedAvg()).personal(on, {}, down, turn), train(on, down, turn))
    assert not same(train(on, down, other), train(on, down, turn))


def test_wrappers_take_the_protocol_of_what_they_wrap() -> None:
    for method in (FineTuned(FedProx()), LocalCopy(FedProx())):
        assert (method.solver, method.optimizers, method.paired) == (
            FedProx.solver,
            FedProx.optimizers,
            FedProx.paired,
        )
    assert FineTuned(FedAvg()).evaluates == "server" and LocalCopy(FedAvg()).evaluates == "held"


@pytest.mark.parametrize("make", [mlp, batchnorm])
def test_a_local_copy_is_what_the_client_uploaded(make: Any) -> None:
    """The copies of a full round, averaged by hand, are the global model."""
    at, on = silos(), task(make)
    sizes = torch.tensor([len(one.train.y) for one in at], dtype=torch.float64)
    for report, plain in zip(
        run("fedavg-local", on=on, at=at, solver=ADAM), run("fedavg", on=on, at=at, solver=ADAM), strict=True
    ):
        assert same(report.progress.server, plain.progress.server)
        assert (report.bytes_up, report.bytes_down) == (plain.bytes_up, plain.bytes_down) and report.bytes_eval == 0
        for key in ("params", "buffers"):
            copies = torch.stack([client[key] for client in report.clients])
            mean = sizes / sizes.sum() @ copies
            assert torch.allclose(report.progress.server[key], mean, rtol=0, atol=1e-10)
        for one, client, score in zip(at, report.clients, scores_of(report), strict=True):
            assert score.loss == on.evaluate(client, one.test).loss


def test_an_absent_client_keeps_its_last_copy_and_at_first_the_initial_model() -> None:
    at, on = silos(), task(mlp)
    method = LocalCopy(FedAvg())
    first = on.initial(federation_of(at, 6, 1))
    held = [first] * 5
    kept_initial = 0
    for report in run(method, on=on, at=at, rounds=6, solver=solver_of(method), participation=0.4):
        for client, state in enumerate(report.clients):
            assert same(state, held[client]) == (client not in report.took_part)
            kept_initial += same(state, first)
            held[client] = state
    assert kept_initial > 0


def test_a_client_whose_upload_is_lost_keeps_the_copy_it_trained() -> None:
    at, on = silos(), task(mlp)
    setting: dict[str, Any] = {"on": on, "at": at, "rounds": 1, "solver": ADAM}
    [full] = run("fedavg-local", **setting)
    [lossy] = run("fedavg-local", drop=0.4, drop_phase="after", **setting)
    assert len(lossy.took_part) == 3 and len(lossy.dropped) == 2
    assert all(same(a, b) for a, b in zip(full.clients, lossy.clients, strict=True))
    assert not same(full.progress.server, lossy.progress.server)
