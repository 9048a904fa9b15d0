"""A silo keeps the contract's word: real answers of every method pass, and anything beyond is held back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from signed_contracts import CONTRACT
from small import plan_of

from amity.config.run import Run
from amity.federation.announced import bytes_on_wire, unannounced
from amity.federation.leaving import leaving
from amity.federation.messages import Answer, Done, Failed, Measure, Measured, Train, Upload
from amity.federation.run_contract import RunContract
from amity.federation.silo import SiloSide
from amity.methods import METHODS

MEASURED = Measured("run", 1, 2, 6, 50.0, 1.0, {"auroc": 70.0})


def turn_of(method: str) -> tuple[RunContract, list[Answer]]:
    """A contract, and what a silo answers in round 1."""
    plan, at = plan_of(method, epochs=1)
    down = plan.method.download(
        plan.method.init_server(plan.task, plan.fed), torch.arange(5), 1, lambda role, key: torch.Generator()
    ).to(2)
    silo = SiloSide(plan, 2, at[2])
    questions: list[Any] = [Train("run", 1, 2, down), Measure("run", 1, 2, down)]
    return replace(CONTRACT, leaves=leaving(plan, Run())), [silo.answer(question) for question in questions]


@pytest.mark.parametrize("method", [name for name in METHODS if name != "pooled"])
def test_real_answers_pass(method: str) -> None:
    contract, answers = turn_of(method)
    assert isinstance(answers[0], Upload) and isinstance(answers[1], Measured)
    assert [unannounced(contract, answer) for answer in answers] == [None, None]


def test_more_than_was_announced_is_held_back() -> None:
    contract, (upload, _) = turn_of("fedavg")
    assert isinstance(upload, Upload)
    more = upload._replace(values={**upload.values, "examples": torch.zeros(3)})
    assert "announces no tensor 'examples': nothing was sent" in str(unannounced(contract, more))
    longer = upload._replace(values={**upload.values, "params": torch.zeros(13, dtype=torch.float64)})
    assert "announces 96 bytes of 'params', there are 104: nothing was sent" in str(unannounced(contract, longer))
    silent = replace(contract, leaves=())
    assert "announces no tensor 'params'" in str(unannounced(silent, upload))
    assert "announces no metric 'accuracy'" in str(unannounced(silent, MEASURED))


@pytest.mark.parametrize("change", [{"metrics": {"first example": 1.0}}, {"train_loss": 0.5}])
def test_metrics_of_other_names_are_held_back(change: dict[str, Any]) -> None:
    contract, _ = turn_of("fedavg")
    assert unannounced(contract, MEASURED) is None
    assert "announces no metric" in str(unannounced(contract, MEASURED._replace(**change)))


@pytest.mark.parametrize(("word", "key"), [("balanced", "balanced_accuracy"), ("auroc", "auroc")])
def test_the_main_score_has_the_name_of_the_runs_metric(word: str, key: str) -> None:
    """A contract that announces this metric and not accuracy lets it pass as the main score."""
    contract, _ = turn_of("fedavg")
    run = Run("fedamp", metric=word).table()  # type: ignore[arg-type]
    named = replace(contract, run=run, leaves=tuple(one for one in contract.leaves if one.name in (key, "loss")))
    answer = MEASURED._replace(metrics={})
    assert unannounced(named, answer) is None
    without = replace(named, leaves=tuple(one for one in named.leaves if one.name != key))
    assert f"announces no metric {key!r}" in str(unannounced(without, answer))
    assert "announces no metric 'accuracy'" in str(unannounced(named, answer._replace(metrics={"accuracy": 1.0})))


def test_answers_without_numbers_pass() -> None:
    for answer in (Done("run", 1, 2), Failed("run", 1, 2, "input", "why")):
        assert unannounced(replace(CONTRACT, leaves=()), answer) is None


def test_a_narrow_wire_narrows_floats_alone() -> None:
    assert bytes_on_wire(10, 4, True, "float32") == 40 and bytes_on_wire(10, 8, True, "float32") == 80
    assert bytes_on_wire(10, 4, True, "float16") == bytes_on_wire(10, 4, True, "bfloat16") == 20
    assert bytes_on_wire(10, 8, True, "bfloat16") == 80 and bytes_on_wire(10, 2, True, "float16") == 20
    assert bytes_on_wire(10, 8, False, "float16") == 80
