"""Pooled: FedAvg with all training data at the first silo is training in one place."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from methods.points import point, vector
from small import batchnorm, linear, run, same, scores_of, silos, task, turn_of
from torch import Tensor, nn

import amity
from amity.config.run import Run
from amity.contract import InputError, Silo, Solver, Split
from amity.data import Silos, own_silos
from amity.federation.plan import federation_of
from amity.learn.train import batches, train
from amity.learn.vectors import weighted_mean
from amity.methods import METHODS, options_of
from amity.methods.pooled import Pooled
from amity.prepare import prepare
from amity.record import read


def together(at: list[Silo] | None = None) -> list[Silo]:
    return list(Silos(tuple(at or silos()), 3, "own", "own").pooled().silos)


def own_data(sizes: tuple[int, ...] = (9, 30, 12)) -> Silos:
    """Silos named s0, s1, ... of these sizes, with four features and three classes."""
    made = {}
    for i, size in enumerate(sizes):
        rng = torch.Generator().manual_seed(i)
        x, y = torch.randn(size + 5, 4, generator=rng), torch.randint(0, 3, (size + 5,), generator=rng)
        made[f"s{i}"] = (x[:size], y[:size], x[size:], y[size:])
    return own_silos(made, classes=3)


def test_the_training_data_move_to_the_first_silo() -> None:
    before = own_data().with_validation(0.25, seed=0)
    after = before.pooled()
    assert after.sizes == (sum(before.sizes), 0, 0) and before.sizes == (7, 22, 9)
    for part in (0, 1):  # inputs and labels, in the order of the silos
        assert torch.equal(after.silos[0].train[part], torch.cat([silo.train[part] for silo in before.silos]))
    for old, new in zip(before.silos, after.silos, strict=True):
        assert (new.name, new.group, new.test, new.val) == (old.name, old.group, old.test, old.val)
        assert new.train.x.shape[1:] == old.train.x.shape[1:] and new.train.y.dtype == old.train.y.dtype
    assert (after.shape, after.classes, after.data, after.setting) == (before.shape, 3, before.data, before.setting)
    assert after.notes[-1].startswith("all training data lie at 's0'") and "traffic means nothing" in after.notes[-1]
    manifest = json.loads(json.dumps(after.manifest()))
    assert [sum(silo["train"]) for silo in manifest["silos"]] == [38, 0, 0]
    assert manifest["sha256"] != before.manifest()["sha256"]


def test_two_rounds_by_hand() -> None:
    # F(w) = mean (w - x)^2 / 2 over the examples 1, 2, 9 of three silos: F' = w - 4. From w = 0 at rate 1/2: 2, then 3.
    def at(name: str, x: float) -> Silo:
        data = Split(vector(x)[None], torch.zeros(1, dtype=torch.int64))
        return Silo(name, data, data)

    on = point(1)
    method = Pooled()
    pooled = together([at("a", 1), at("b", 2), at("c", 9)])
    fed = federation_of(pooled, 2, 1)
    begin = {**method.init_server(on, fed), "params": vector(0)}
    solver = Solver("sgd", 0.5)
    for round, want in [(1, 2.0), (2, 3.0)]:
        down = method.download(begin, torch.arange(3), round, None)  # type: ignore[arg-type]
        sent = [
            method.local(on, {}, down.to(i), turn_of(fed, pooled, i, solver, round=round))[1]["params"]
            for i in range(3)
        ]
        assert sent[1].tolist() == sent[2].tolist() == begin["params"].tolist()  # nothing to learn from
        empty = {"buffers": torch.zeros(3, 0), "counts": torch.zeros(3, 0, dtype=torch.int64)}
        begin = method.aggregate(
            begin, torch.arange(3), {"params": torch.stack(sent), **empty, "held_out": torch.zeros(3)}, round
        )
        assert begin["params"].tolist() == pytest.approx([want], abs=1e-10)


@pytest.mark.parametrize("make", [linear, batchnorm])
def test_it_is_training_in_one_place_to_the_last_bit(make: Any) -> None:
    at, on = together(), task(make)
    fed, solver = federation_of(at, 3, 1), Pooled().solver._replace(batch=8)
    model = on.initial(fed)
    for report in run("pooled", at=at, on=on, rounds=3, solver=solver):
        model = train(on, model, turn_of(fed, at, 0, solver, round=report.round, epochs=2))
        for client, silo in enumerate(at):  # one model for all, judged on each silo's own tests
            assert same(report.personal(client), model)
            assert scores_of(report)[client].loss == on.evaluate(model, silo.test).loss
            assert scores_of(report)[client].examples == len(silo.test.y)


@pytest.mark.parametrize("make", [linear, batchnorm])
def test_one_silo_is_pooled_already(make: Any) -> None:
    solver = Pooled().solver._replace(batch=4)
    pooled, alone = (
        run(name, at=at, on=task(make), solver=solver)
        for name, at in [("pooled", together(silos(1))), ("separate", silos(1))]
    )
    for one, other in zip(pooled, alone, strict=True):
        assert same(one.personal(0), other.personal(0))


def test_rounds_without_the_data_change_nothing() -> None:
    at, on = together(), task(batchnorm)
    rounds = run("pooled", at=at, on=on, rounds=8, participation=0.4)
    last = on.initial(federation_of(at, 8, 1))
    absent = 0
    for report in rounds:
        if 0 not in report.took_part:
            assert same(report.personal(3), last)
            absent += 1
        last = report.personal(3)
    assert 0 < absent < 8 and torch.isfinite(last["params"]).all()


# The parts that meet silos without data


@pytest.mark.parametrize("make", [linear, batchnorm])
def test_training_on_nothing_gives_the_start(make: Any) -> None:
    at, on = together(), task(make)
    fed = federation_of(at, 1, 1)
    turn = turn_of(fed, at, 1, Solver("adam", 0.1, batch=4), epochs=3)
    assert list(batches(on, turn)) == []
    assert same(train(on, on.initial(fed), turn), on.initial(fed))


def test_a_mean_without_weights_is_plain() -> None:
    models = {
        "params": torch.tensor([[1.0, 2], [3, 6]]),
        "buffers": torch.zeros(2, 0),
        "counts": torch.tensor([[1], [4]]),
    }

    def mean(*weights: float) -> dict[str, Tensor]:
        return weighted_mean(models, torch.tensor(weights))

    assert mean(0, 0)["params"].tolist() == [2, 4] and mean(0, 0)["counts"].tolist() == [4]
    assert mean(3, 0)["params"].tolist() == [1, 2] and mean(3, 0)["counts"].tolist() == [1]


# As a run


def test_a_run_trains_on_all_data(tmp_path: Path) -> None:

    data = own_data()
    result = amity.run(Run(method="pooled", model="mlr", rounds=2, epochs=1), data, out=tmp_path / "run")
    models = [result.model(name).state_dict() for name in ("s0", "s1", "s2")]
    assert all(same(models[0], other) for other in models[1:])
    assert len(result.accuracy) == 3
    assert any("traffic means nothing" in note for note in read(tmp_path / "run").facts["notes"])
    fedavg = amity.run(Run(method="fedavg", model="mlr", rounds=2, epochs=1), data)
    assert not same(models[0], fedavg.model("s0").state_dict())


def test_the_batch_follows_the_silos_own_sizes() -> None:
    pooled, fedavg = (prepare(Run(method=name), own_data()) for name in ("pooled", "fedavg"))
    assert pooled.plan.solver == fedavg.plan.solver and pooled.plan.solver.batch == 4  # a third of the median 12
    assert pooled.plan.fed.sizes.tolist() == [51, 0, 0] and fedavg.plan.fed.sizes.tolist() == [9, 30, 12]
    validated = prepare(Run(method="pooled", val_fraction=1 / 3), own_data())
    assert validated.plan.fed.sizes.tolist() == [6 + 20 + 8, 0, 0] and validated.plan.solver.batch == 2


def test_your_own_pooled_method_pools_too() -> None:
    assert prepare(Run(), own_data(), method=Pooled()).plan.fed.sizes.tolist() == [51, 0, 0]


def test_a_silo_of_one_example_may_be_pooled_for_batch_norm() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3))

    data = own_data((1, 30, 12))
    assert prepare(Run(method="pooled"), data, model=make).plan.fed.sizes.tolist() == [43, 0, 0]
    with pytest.raises(InputError, match="'s0' has 1"):
        prepare(Run(method="fedavg"), data, model=make)


@pytest.mark.parametrize("rule", [{"participation": 0.5}, {"drop": 0.3}])
def test_data_in_one_place_cannot_be_sampled(rule: dict[str, float]) -> None:
    with pytest.raises(InputError, match="pooled has all data in one place .*: leave both out") as error:
        prepare(Run(method="pooled", **rule), own_data())  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_there_is_nothing_to_set() -> None:
    assert options_of("pooled") == []
    assert (METHODS["pooled"].down, METHODS["pooled"].up) == ("-", "-")
