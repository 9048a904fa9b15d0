"""FedAvg: two rounds by hand, and its exact limits."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from small import batchnorm, half_square, mlp, near, relabelled, run, same, scores_of, silo, silos, task
from torch import Tensor, nn
from torch.nn import functional as F

from amity.contract import Silo, Solver, Split
from amity.federation.plan import federation_of
from amity.learn.task import Task
from amity.methods.fedavg import FedAvg

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
ADAM = Solver("adam", 0.01, batch=4)


def line(start: float) -> Task:
    """One number w: F_i(w) = mean (w x - y)^2 / 2."""
    first = {"weight": torch.tensor([[start]])}
    return Task(lambda: nn.Linear(1, 1, bias=False), (1,), 1, loss=half_square, dtype=torch.float64, start=first)


def on_line(name: str, x: list[float], y: list[int]) -> Silo:
    data = Split(torch.tensor(x, dtype=torch.float64)[:, None], torch.tensor(y))
    return Silo(name, data, data)


def pooled_gradient(make: Callable[[], nn.Module], params: Tensor, parts: list[Split]) -> Tensor:
    """Of the mean loss over all examples, by ordinary autograd on an ordinary module."""
    module = make().double()
    nn.utils.vector_to_parameters(params.clone(), module.parameters())
    F.cross_entropy(module(torch.cat([part.x for part in parts])), torch.cat([part.y for part in parts])).backward()
    return torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])


@pytest.mark.parametrize(("weighting", "expected"), [("samples", (2.125, 2.1953125)), ("uniform", (1.75, 1.65625))])
def test_two_rounds_by_hand(weighting: str, expected: tuple[float, float]) -> None:
    # Silo a, n = 1: x = 2, y = 2, so F' = 2 (2 w - 2) = 4 (w - 1).  Silo b, n = 3: x = 1, mean y = 4, so F' = w - 4.
    # Round 1, one step of rate 1/4 from w = 2:  a: 2 - 4/4 = 1;  b: 2 + 2/4 = 2.5;
    #   by samples (1 + 3 * 2.5) / 4 = 2.125, uniform (1 + 2.5) / 2 = 1.75.
    # Round 2:  a: w - (w - 1) = 1 from anywhere;  b: 2.125 + 1.875/4 = 2.59375 or 1.75 + 2.25/4 = 2.3125;
    #   by samples (1 + 3 * 2.59375) / 4 = 2.1953125, uniform (1 + 2.3125) / 2 = 1.65625.
    at = [on_line("a", [2.0], [2]), on_line("b", [1.0, 1.0, 1.0], [2, 4, 6])]
    settings, solver = {"weighting": weighting}, FULL._replace(rate=0.25)
    reports = run("fedavg", settings=settings, on=line(2.0), at=at, rounds=2, epochs=1, solver=solver)
    assert [report.progress.server["params"].item() for report in reports] == pytest.approx(expected, abs=1e-10)
    # Evaluated with w^2 itself: at silo a the loss is (2 w - 2)^2 / 2.
    assert scores_of(reports[-1])[0].loss == pytest.approx((2 * expected[1] - 2) ** 2 / 2, abs=1e-10)


def test_avg_1_one_full_step_is_a_step_on_the_pooled_data() -> None:
    at = silos()
    assert len({len(one.train.y) for one in at}) > 1
    reports = run("fedavg", on=task(mlp), at=at, rounds=3, epochs=1, solver=FULL)
    before = task(mlp).initial(federation_of(at, 3, 1))["params"]
    for report in reports:
        expected = before - 0.1 * pooled_gradient(mlp, before, [one.train for one in at])
        assert near(report.progress.server["params"], expected)
        before = report.progress.server["params"]
    # The test can tell: the unweighted mean is another model.
    uniform = run("fedavg", settings={"weighting": "uniform"}, on=task(mlp), at=at, rounds=1, epochs=1, solver=FULL)
    assert not near(uniform[0].progress.server["params"], reports[0].progress.server["params"], 1e-6)


def test_avg_2_identical_clients_and_streams_equal_separate() -> None:
    one = silos()[0]
    for solver in (ADAM, FULL._replace(batch=4, momentum=0.9)):
        alone = run("separate", on=task(mlp), at=[one], solver=solver)
        # A name is the key of a silo's streams: equal names, equal streams.
        together = run("fedavg", on=task(mlp), at=[one, one, one], solver=solver)
        apart = run("fedavg", on=task(mlp), at=[one, one._replace(name="x"), one._replace(name="z")], solver=solver)
        for lonely, report in zip(alone, together, strict=True):
            assert near(report.progress.server["params"], lonely.clients[0]["params"])
        assert not near(apart[-1].progress.server["params"], alone[-1].clients[0]["params"], 1e-6)


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_avg_3_the_mean_lies_between_the_uploads(weighting: Any) -> None:
    at, on = silos(), task(mlp)
    method = FedAvg(weighting=weighting)
    server = method.init_server(on, federation_of(at, 1, 1))
    rng = torch.Generator().manual_seed(0)
    for who in ([0, 1, 2, 3, 4], [1, 3], [2]):
        params = torch.randn(len(who), on.size, generator=rng, dtype=torch.float64)
        uploads = {
            "params": params,
            "buffers": torch.zeros(len(who), 0),
            "counts": torch.zeros(len(who), 0, dtype=torch.int64),
        }
        mean = method.aggregate(server, torch.tensor(who), uploads, 1)["params"]
        slack = 1e-10
        assert (mean >= params.amin(0) - slack).all() and (mean <= params.amax(0) + slack).all()
        sizes = [len(at[i].train.y) if weighting == "samples" else 1 for i in who]
        by_hand = sum(size / sum(sizes) * row for size, row in zip(sizes, params, strict=True))
        assert near(mean, by_hand)


def test_only_the_clients_that_took_part_are_averaged() -> None:
    at = silos()
    for phase in ("before", "after"):
        reports = run(
            "fedavg",
            on=task(mlp),
            at=at,
            rounds=5,
            epochs=1,
            solver=FULL,
            participation=0.8,
            drop=0.5,
            drop_phase=phase,
        )
        before = task(mlp).initial(federation_of(at, 5, 1))["params"]
        for report in reports:
            assert len(report.took_part) == 2
            present = [at[i].train for i in report.took_part]
            assert near(report.progress.server["params"], before - 0.1 * pooled_gradient(mlp, before, present))
            before = report.progress.server["params"]


def test_everybody_is_evaluated_with_the_current_global_model() -> None:
    at, on = silos(), task(mlp)
    for report in run("fedavg", on=on, at=at, participation=0.4):
        server = report.progress.server
        for one, score in zip(at, scores_of(report), strict=True):
            assert score.loss == on.evaluate(server, one.test).loss


def test_a_model_goes_down_and_up_per_client() -> None:
    at, on = silos(), task(batchnorm)
    first = on.initial(federation_of(at, 1, 1))
    model = 8 * sum(len(value) for value in first.values())  # float64 and int64
    for report in run("fedavg", on=on, at=at, participation=0.6):
        assert report.bytes_down == report.bytes_up == 3 * model


def test_batchnorm_statistics_are_averaged_and_counters_take_the_maximum() -> None:
    at = [silo("ash", 7), relabelled(silo("birch", 15))]

    def bare() -> nn.Module:
        return nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))

    # BatchNorm comes first, so that its statistics are those of the inputs.
    [report] = run("fedavg", on=task(bare), at=at, rounds=1, epochs=1, solver=FULL)
    stats = [(one.train.x.mean(0), one.train.x.var(0)) for one in at]  # running: 0.9 * first + 0.1 * of the batch
    expected = [0.1 * mean for mean, _ in stats] + [0.9 + 0.1 * var for _, var in stats]
    buffers = torch.cat([(7 * expected[0] + 15 * expected[1]) / 22, (7 * expected[2] + 15 * expected[3]) / 22])
    assert near(report.progress.server["buffers"], buffers)
    # In batches of 8, ash takes one step and birch two.
    [report] = run("fedavg", on=task(bare), at=at, rounds=1, epochs=1, solver=FULL._replace(batch=8))
    assert report.progress.server["counts"].tolist() == [2]


def test_clients_keep_nothing_between_rounds() -> None:
    reports = run("fedavg", on=task(mlp))
    assert all(state == {} for report in reports for state in report.clients)
    again = run("fedavg", on=task(mlp), start=reports[0].saved)
    assert same(again[-1].progress.server, reports[-1].progress.server)
