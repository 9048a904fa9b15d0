"""What leaves a silo is announced: every method's real messages, round by round, hold nothing else and nothing more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from small import plan_of

from amity.config.run import Run
from amity.contract import Method
from amity.engines.memory import Memory
from amity.federation.carrier import Outbox
from amity.federation.leaving import TENSORS, leaving
from amity.federation.messages import Answer, Measured, Upload
from amity.federation.plan import Member
from amity.federation.resume import begin
from amity.federation.run_contract import Leaving
from amity.methods import METHODS, build
from amity.resolve import resolve

BETWEEN_SILOS = [name for name in METHODS if name != "pooled"]


class Watching(Memory):
    """Keeps every answer that a silo has sent."""

    def ask(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        for clients, answer in super().ask(messages):
            self.answers.append(answer)
            yield clients, answer

    answers: list[Any]


def announced(plan: Any, run: Run | None = None, **more: Any) -> dict[str, Leaving]:
    return {one.name: one for one in leaving(plan, run or Run(), **more)}


def played(method: str | Method) -> tuple[Any, list[Any]]:
    """A plan, and all that its silos have answered."""
    plan, at = plan_of(method, epochs=1, rounds=3)
    with Watching(plan, at) as carrier:
        carrier.answers = []
        list(begin(plan, carrier).rounds())
        return plan, carrier.answers


@pytest.mark.parametrize("method", BETWEEN_SILOS)
def test_real_uploads_are_as_announced(method: str) -> None:
    plan, answers = played(method)
    said = {name: one for name, one in announced(plan).items() if one.kind == "tensor"}
    largest: dict[str, int] = {}
    for upload in (one for one in answers if isinstance(one, Upload)):
        for key, value in upload.values.items():
            largest[key] = max(largest.get(key, 0), value.numel() * value.element_size())
    assert {key: size for key, size in largest.items() if size} == {name: one.bytes for name, one in said.items()}
    assert said.keys() <= TENSORS.keys(), "a tensor of our own methods is told in words"


def test_what_grows_when_everybody_was_heard_is_announced_from_the_start() -> None:
    plan, answers = played(build("fedfomo", {"pool": "latest"}))
    sent = [one.values["ids"].numel() for one in answers if isinstance(one, Upload)]
    assert min(sent) < max(sent)
    assert announced(plan)["ids"].bytes == 8 * max(sent)


def test_real_measures_are_as_announced() -> None:
    plan, answers = played("fedavg")
    said = announced(plan, Run(train_loss=True))
    for one in (one for one in answers if isinstance(one, Measured)):
        fields = set(one._fields) - {"run", "round", "silo", "main", "metrics"}
        assert fields | one.metrics.keys() | {"accuracy"} <= said.keys()
    assert {name for name, one in said.items() if one.kind == "metric"} == {
        "accuracy",
        "balanced_accuracy",
        "macro_f1",
        "auroc",
        "loss",
        "val",
        "train_loss",
    }
    assert "train_loss" not in announced(plan)


def test_what_a_silo_says_of_itself_is_announced() -> None:
    """The rest of its line is its name, what the contract says of everybody, and what only simulations fill in."""
    plan, _ = plan_of("fedavg")
    counts = {name for name, one in announced(plan).items() if one.kind == "count"}
    assert set(Member._fields) - {"name", "shape", "classes", "group", "data"} <= counts


def test_a_narrow_wire_halves_floats_and_nothing_else() -> None:
    roster = [Member(name, 20, (4,), 2) for name in ("north", "south")]
    plan = resolve(Run("fedfomo", model="mlr"), roster).plan
    wide, narrow = announced(plan), announced(plan, wire="float16")
    assert narrow["ids"] == wide["ids"]  # whole numbers
    assert 2 * narrow["params"].bytes == wide["params"].bytes > 0
    assert "sent as float16" in narrow["params"].words
    assert announced(plan, wire="bfloat16")["params"].bytes == narrow["params"].bytes
    doubles, _ = plan_of("fedfomo")  # whose small models are of float64, which nobody narrows
    assert announced(doubles, wire="float16")["params"].bytes == announced(doubles)["params"].bytes
