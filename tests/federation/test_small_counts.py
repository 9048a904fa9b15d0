"""What rests on few examples stays at a silo: by hand, for any numbers of examples, and the same on all engines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from small import build, opened, plan_of, silos
from torch import Tensor

import amity
from amity.contract import Data, Score, Split, State, measured_keys
from amity.federation.carrier import train
from amity.federation.messages import Measured, Upload, measured
from amity.federation.plan import Plan
from amity.federation.silo import SiloSide
from amity.federation.small_counts import reported, rows_without_scores, without_scores
from amity.methods import METHODS
from amity.methods.ended import with_ending
from amity.metric import MetricKey

BY_CLASS = {"balanced_accuracy": 60.0, "macro_f1": 61.0, "auroc": 62.0}


def labels(*counts: int) -> Tensor:
    """So many examples of each class."""
    return torch.cat([torch.full((count,), one) for one, count in enumerate(counts)]).long()


def split(y: Tensor) -> Split:
    return Split(torch.zeros(len(y), 1), y)


def told(right: list[int], counts: list[int], least: int, main: MetricKey = "accuracy", **score: Any) -> Measured:
    """What is told where so many of each class are right. 40 examples to learn from, 20 held out, 10 of each class."""
    each = torch.cat([torch.arange(count) < hit for hit, count in zip(right, counts, strict=True)])
    others = {name: value for name, value in BY_CLASS.items() if name != main}
    found = Score(each, 7.0, {main: 50.0, **others}, **score, scored_by="" if main == "accuracy" else main)
    said = measured("run", 1, 0, found)._replace(metrics=others)
    data = Data(split(labels(20, 20)), split(labels(10, 10)))
    return reported(said, found, data, split(labels(*counts)), main, least)


def known(said: Measured) -> set[str]:
    """The names of the numbers that are told."""
    numbers = {"main": said.main, "loss": said.loss, **said.metrics}
    return {name for name, value in numbers.items() if not math.isnan(value)}


ALL = {"main", "loss", *BY_CLASS}
ENGINES: tuple[Literal["loop", "stacked", "memory"], ...] = ("loop", "stacked", "memory")


@pytest.mark.parametrize(
    ("right", "counts", "least", "left"),
    [
        ([5, 5], [10, 10], 1, ALL),  # nothing is withheld
        ([5, 5], [10, 10], 5, ALL),
        ([5, 5], [10, 10], 6, {"main", "loss", "auroc"}),  # 5 of a class are right
        ([6, 4], [10, 10], 5, {"main", "loss", "auroc"}),
        ([10, 0], [15, 4], 5, {"main", "loss"}),  # a class has 4 examples
        ([5, 5, 0], [10, 10, 0], 5, ALL),  # one that does not occur is none
        ([8, 8], [10, 10], 5, set()),  # 4 are wrong
        ([2, 2], [10, 10], 5, set()),  # 4 are right
        ([10, 10], [10, 10], 2, set()),  # none is wrong
        ([2, 2], [2, 2], 5, set()),  # 4 were tested
    ],
)
def test_scores_by_hand(right: list[int], counts: list[int], least: int, left: set[str]) -> None:
    said = told(right, counts, least)
    assert known(said) == left
    assert said.withheld == (left != ALL)
    assert said.examples == (sum(counts) if sum(counts) >= least else 0)


def test_a_main_score_by_class_is_withheld_like_any() -> None:
    assert known(told([5, 5], [10, 10], 6, "balanced_accuracy")) == {"loss", "auroc"}
    assert "main" in known(told([5, 5], [10, 10], 5, "balanced_accuracy"))
    assert "main" in known(told([5, 5], [10, 10], 6, "auroc"))


@pytest.mark.parametrize(
    ("val", "least", "wanted"),
    [(100.0, 1, 100.0), (100.0, 3, 85.0), (0.0, 3, 15.0), (60.0, 3, 60.0), (60.0, 10, 50.0), (60.0, 11, math.nan)],
)
def test_accuracies_on_validation_data_by_hand(val: float, least: int, wanted: float) -> None:
    """20 examples: with 3, at most 17 of them may be told to be right, which is 85 %."""
    found = told([12, 12], [24, 24], least, val=val).val
    assert found == pytest.approx(wanted, nan_ok=True)


def test_other_scores_on_validation_data() -> None:
    assert told([12, 12], [24, 24], 10, "auroc", val=99.0).val == 99.0
    assert math.isnan(told([12, 12], [24, 24], 11, "auroc", val=99.0).val or 0.0)  # 10 of each class


def test_losses_on_training_data() -> None:
    assert told([20, 20], [40, 40], 40, train_loss=0.5).train_loss == 0.5
    few = told([41, 41], [82, 82], 41, train_loss=0.5)
    assert math.isnan(few.train_loss or 0.0) and few.withheld and known(few) == ALL


@pytest.mark.parametrize(("count", "left"), [(5, True), (4, False)])
def test_quantities_need_as_many_examples(count: int, left: bool) -> None:
    score = Score(torch.zeros(count), 1.0, {"r2": 90.0, "rmse": 1.0, "mae": 1.0}, val=80.0)
    said = measured("run", 1, 0, score)._replace(metrics={"rmse": 1.0, "mae": 1.0})
    data = Data(split(torch.zeros(9)), split(torch.zeros(count)))
    found = reported(said, score, data, split(torch.zeros(count)), "r2", 5)
    assert (known(found) == {"main", "loss", "rmse", "mae"}) == left and (known(found) == set()) != left
    assert math.isnan(found.val or 0.0) != left


def test_a_silo_without_tests_or_with_a_broken_model_says_so_as_before() -> None:
    none = Score(torch.zeros(0, dtype=torch.bool), 0.0)
    nothing, data = measured("run", 1, 0, none), Data(split(labels(20, 20)), None)
    assert repr(reported(nothing, none, data, split(torch.zeros(0).long()), "accuracy", 5)) == repr(nothing)
    score = Score(torch.zeros(9, dtype=torch.bool), math.inf)
    broken = reported(measured("run", 1, 0, score), score, data, split(labels(9)), "accuracy", 5)
    assert broken.failed and broken.withheld and known(broken) == set()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4), st.integers(2, 12))
def test_what_is_told_rests_on_enough(classes: list[tuple[int, int]], least: int) -> None:
    """Whatever is told, no count that follows from it is below the least."""
    said = told([right for right, _ in classes], [sum(one) for one in classes], least)
    right, wrong = (sum(part) for part in zip(*classes, strict=True))
    counted = [sum(one) for one in classes if sum(one)]
    assume(right + wrong)
    assert said.examples == (right + wrong if right + wrong >= least else 0)
    assert ("main" in known(said)) == (min(right, wrong) >= least) == ("loss" in known(said))
    if "auroc" in known(said):
        assert min(counted) >= least
    if "macro_f1" in known(said):
        assert all(min(one) >= least for one in classes if sum(one))


def test_uploads_lose_their_scores_and_nothing_else() -> None:
    few, many = (Data(split(labels(20)), split(labels(count))) for count in (4, 5))
    upload = {"params": torch.ones(3), "held_out": torch.tensor(2.0)}
    assert without_scores(upload, ("held_out",), many, 5) is upload and without_scores(upload, (), few, 5) is upload
    found = without_scores(upload, ("held_out",), few, 5)
    assert found["params"] is upload["params"] and found["held_out"] == 0 and upload["held_out"] == 2
    rows = {key: torch.stack([value, value]) for key, value in upload.items()}
    together = rows_without_scores(rows, ("held_out",), [few, many], 5)
    assert together["held_out"].tolist() == [0, 2] and torch.equal(together["params"], rows["params"])
    assert rows["held_out"].tolist() == [2, 2]
    assert (
        without_scores(upload, ("held_out",), Data(split(labels(5)), None), 5) is upload
    )  # judged by what it trains on


MEASURING = [name for name in METHODS if measured_keys(build(name))]


def test_an_ending_hides_no_scores() -> None:
    assert set(MEASURING) == {"fedfomo", "accord"}
    for method in MEASURING:
        assert {*measured_keys(build(method))} <= {*measured_keys(with_ending(build(method), 3, 1, "auto", True))}


def scores_sent(plan: Plan, at: Sequence[amity.Silo], engine: Literal["loop", "stacked", "memory"]) -> list[State]:
    """The scores in what each silo uploads in round 1."""
    with opened(engine)(plan, dict(enumerate(at))) as carrier:
        who = torch.arange(len(at))
        server = plan.method.init_server(plan.task, plan.fed)
        down = plan.method.download(server, who, 1, lambda role, key: torch.Generator().manual_seed(key % 99))
        found: dict[int, State] = {}
        for clients, answer in carrier.ask(train("run", 1, who.tolist(), down)):
            assert isinstance(answer, Upload)
            for place, client in enumerate(clients):
                rows = {key: value[place] if len(clients) > 1 else value for key, value in answer.values.items()}
                found[client] = {key: rows[key] for key in measured_keys(plan.method)}
        return [found[client] for client in sorted(found)]


@pytest.mark.parametrize("method", MEASURING)
def test_every_engine_withholds_the_same_scores(method: str) -> None:
    at = [
        one._replace(val=Split(one.test.x[: 2 + place], one.test.y[: 2 + place])) for place, one in enumerate(silos(4))
    ]
    first = {"init": "independent"} if method == "fedfomo" else {}  # its models are all the same otherwise, in round 1
    plan, _ = plan_of(build(method, first), at=at, epochs=1)
    plan = plan._replace(min_count=4)
    loop, stacked, memory = (scores_sent(plan, at, engine) for engine in ENGINES)
    for one, two, three in zip(loop, stacked, memory, strict=True):
        for key, value in one.items():
            assert torch.allclose(value, two[key]) and torch.equal(value, three[key])
    zero = [all(not value.any() for value in one.values()) for one in loop]
    assert zero == [True, True, False, False]  # 2 and 3 examples are held out there, and 4 and 5


def test_the_silo_keeps_all_of_it() -> None:
    plan, at = plan_of("fedavg", epochs=1)
    server = plan.method.init_server(plan.task, plan.fed)
    down = plan.method.download(server, torch.arange(5), 1, lambda *_: torch.Generator())
    side = SiloSide(plan._replace(min_count=10**6), 2, at[2])
    side.train(1, down.to(2))
    side.commit(1, "accepted")
    said = side.measure(1, down.to(2))
    assert said.withheld and said.examples == 0 and known(said) == set()
    assert side.score is not None and not math.isnan(side.score.main) and len(side.score.each) == len(at[2].test.y)
