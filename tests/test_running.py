"""Runs that are stopped at any moment, or lose their workers: what they come to is what they would have come to."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from listening import run_ready
from safetensors.torch import load_file

import amity
from amity import record
from amity.errors import LostWorker
from amity.federation.events import Event
from amity.federation.hosting import Hosting
from amity.federation.silo import SiloSide
from amity.prepare import Prepared, prepare
from amity.record import checkpoint

ROUNDS = 5
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "clouds": ("fedamp", {"drop": 0.3, "drop_phase": "after"}),
    "served": ("fedavg", {"participation": 0.6}),
    "learnt": ("apple", {}),
}


class Killed(BaseException):
    """Not an Exception, and no interrupt: nothing is tidied up."""


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes its time, and nobody pulls the plug here."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


class Case(NamedTuple):
    """A small run on three silos."""

    kind: str  # of KINDS
    engine: Literal["loop", "stacked", "memory"] = "loop"
    val: bool = True  # there are validation data, which choose a round before the last
    every: int = 1  # rounds between checkpoints


@cache
def ready(case: Case) -> Prepared:
    method, options = KINDS[case.kind]
    how: dict[str, Any] = {**options, "engine": case.engine, "val_fraction": 0.25 if case.val else 0.0}
    run = amity.Run(method, rounds=ROUNDS, epochs=1, workers=1, lr=0.6, checkpoint_every=case.every, **how)
    rng = np.random.default_rng(0)
    rule = rng.normal(size=(5, 3))

    def part(size: int) -> tuple[Any, Any]:
        x = rng.normal(size=(size, 5)).astype("float32")
        return x, (x @ rule + rng.normal(size=(size, 3))).argmax(1)

    return prepare(run, amity.own_silos({name: (*part(24), *part(15)) for name in ("a", "b", "c")}, classes=3))


def stop_at(moment: int, how: type[BaseException]) -> Callable[[Event], None]:
    """A listener that ends the run at its so-and-so-many-th event."""
    count = 0

    def listen(event: Event) -> None:
        nonlocal count
        count += 1
        if count == moment:
            raise how

    return listen


def found(path: Path) -> Any:
    """All that a finished run has found, with every bit."""
    run = record.read(path)
    files = sorted(file for folder in ("models", "clouds") for file in path.glob(f"{folder}/*.safetensors"))
    tensors = {str(file.relative_to(path)): load_file(file) for file in files}
    weights = {number: matrix.tobytes() for number, matrix in run.weights.items()}
    right = {silo: {key: value.tolist() for key, value in both.items()} for silo, both in run.predictions.items()}
    lines = [{key: value for key, value in line.items() if key not in ("seconds", "warnings")} for line in run.lines]
    results = {key: value for key, value in run.results.items() if key != "seconds"}
    models = {name: {key: value.numpy().tobytes() for key, value in one.items()} for name, one in tensors.items()}
    return results, lines, weights, right, models


def told(path: Path) -> list[tuple[str, int]]:
    """The events about rounds as a whole."""
    kinds = ("round", "aggregated", "recorded", "saved")
    return [(event.what, event.round) for event in record.read(path).events if event.what in kinds]


class Undisturbed(NamedTuple):
    """A run that nobody has stopped."""

    path: Path
    events: int


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Undisturbed]:
    """Runs that nobody disturbs, each made once."""

    @cache
    def made(case: Case) -> Undisturbed:
        path, heard = tmp_path_factory.mktemp("whole") / "run", list[Event]()
        run_ready(ready(case), out=path, listen=heard.append)
        return Undisturbed(path, len(heard))

    return made


Whole = Callable[[Case], Undisturbed]


@pytest.mark.parametrize("val", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_runs_are_worth_stopping(whole: Whole, kind: str, val: bool) -> None:
    """A round before the last is delivered, where validation data choose; clouds are kept, where there are some."""
    run = record.read(whole(Case(kind, val=val)).path)
    delivered = run.results["delivered_round"]
    assert delivered is not None and (1 < delivered < ROUNDS if val else delivered == ROUNDS)
    assert bool(run.clouds) == (kind == "clouds")


CASES = [
    Case("clouds", "loop"),
    Case("clouds", "memory", val=False),
    Case("served", "loop"),
    Case("served", "stacked", val=False),
    Case("learnt", "memory"),
]


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", [KeyboardInterrupt, Killed])
@pytest.mark.parametrize("case", CASES)
def test_a_run_that_is_stopped_at_any_event_and_once_more_comes_to_the_same_end(
    whole: Whole, tmp_path: Path, case: Case, how: type[BaseException], step: int
) -> None:
    """Before anything is known, in training, in evaluation, when a round was recorded, when it was saved."""
    begin = 1 + CASES.index(case) if step > 1 else 1  # other moments for each
    case = case._replace(every=0 if how is KeyboardInterrupt else 2)
    expected, order = found(whole(case).path), told(whole(case).path)
    for moment in range(begin, whole(case).events + 1, step):
        path = tmp_path / str(moment)
        with pytest.raises(how):
            run_ready(ready(case), out=path, listen=stop_at(moment, how))
        done = len(record.read(path).lines)
        with pytest.raises(how) if done < ROUNDS else nullcontext():
            run_ready(ready(case), out=path, resume=True, listen=stop_at(2, how), note=lambda text: None)
        left = len(record.read(path).lines)
        assert left == done if how is KeyboardInterrupt else left >= done - 1
        run_ready(ready(case), out=path, resume=True)
        assert found(path) == expected
        if how is Killed:  # an interruption saves a round that is not due
            assert told(path) == order


@pytest.mark.parametrize("name", ["train", "commit", "measure", "keep"])
@pytest.mark.parametrize("case", [Case("clouds", every=0), Case("served", "memory", every=0)])
def test_an_interruption_in_the_middle_of_a_round_costs_that_round_alone(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case, name: str
) -> None:
    """No checkpoint is due before the end: what was recorded is saved when it happens."""
    asked = calls(case, name)
    for call in sorted({min(call, asked) for call in (1, 4, 5, 6, 9, asked)}):
        path = tmp_path / str(call)
        with monkeypatch.context() as patch:
            fail_at(patch, SiloSide, name, call, KeyboardInterrupt)
            with pytest.raises(KeyboardInterrupt):
                run_ready(ready(case), out=path)
        done, heard = len(record.read(path).lines), list[Event]()
        run_ready(ready(case), out=path, resume=True, listen=heard.append)
        assert [event.round for event in heard if event.what == "recorded"] == list(range(done + 1, ROUNDS + 1))
        assert found(path) == found(whole(case).path)


@cache
def calls(case: Case, name: str) -> int:
    """How often silos are asked this in a run that nobody disturbs."""
    with pytest.MonkeyPatch.context() as patch:
        count = fail_at(patch, SiloSide, name, -1, KeyboardInterrupt)
        run_ready(ready(case))
    return count[0]


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", [Case("clouds"), Case("served", every=2)])
def test_a_run_that_is_killed_while_it_writes_a_checkpoint_comes_to_the_same_end(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case, step: int
) -> None:
    expected = found(whole(case).path)
    for call in range(1, 100, step):
        path = tmp_path / str(call)
        with monkeypatch.context() as patch:
            fail_at(patch, checkpoint, "save_file", call, Killed)
            try:
                run_ready(ready(case), out=path)
            except Killed:
                pass
            else:
                break
        run_ready(ready(case), out=path, resume=True)
        assert found(path) == expected
    assert call > 5


def fail_at(patch: pytest.MonkeyPatch, owner: Any, name: str, call: int, error: type[BaseException]) -> list[int]:
    """Let a function raise when it is called for the so-and-so-many-th time; gives the count of its calls."""
    real, count = getattr(owner, name), [0]

    def counted(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        if count[0] == call:
            raise error("a machine is gone")
        return real(*args, **kwargs)

    patch.setattr(owner, name, counted)
    return count


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", [Case("clouds", every=2), Case("served", every=2), Case("learnt", val=False, every=3)])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Hosting, "predictions"),
        (Hosting, "states"),
        (Hosting, "kept_states"),
        (Hosting, "delivered"),
        (SiloSide, "train"),
        (SiloSide, "commit"),
        (SiloSide, "measure"),
        (SiloSide, "keep"),
    ],
)
def test_a_worker_may_be_lost_at_any_question(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case, owner: type, name: str, step: int
) -> None:
    """Rounds come again from what was saved, nobody hears of one twice, and what is delivered is the same."""
    expected = found(whole(case).path)
    monkeypatch.setattr(Hosting, "at_hand", False)  # as where workers host the silos
    for call in range(1, 100, step):
        heard: list[Event] = []
        with monkeypatch.context() as patch:
            count = fail_at(patch, owner, name, call, LostWorker)
            run_ready(ready(case), out=tmp_path / str(call), listen=heard.append)
        assert found(tmp_path / str(call)) == expected
        assert [event.round for event in heard if event.what == "recorded"] == list(range(1, ROUNDS + 1))
        assert sum(event.what == "lost" for event in heard) == (count[0] >= call)
        assert (tmp_path / str(call) / "checkpoint").exists()
        if count[0] < call:
            break
