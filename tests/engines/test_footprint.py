"""The memory of a run, known beforehand: by hand, against tensors that are alive, and against what a process takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engines.wide_plans import ON, WIDE, plan_of, wide
from small import silos

import amity
from amity.cli import app as cli
from amity.contract import Split
from amity.engines.local import footprint
from amity.engines.local.footprint import Needs, check, estimate
from amity.errors import OutOfMemory
from amity.methods import METHODS


@pytest.fixture
def needs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a method needs for its tensors alone."""
    monkeypatch.setattr(footprint, "_HOLES", 1.0)

    def of(name: str, count: int = 5, settings: Any = None, **rule: Any) -> Needs:
        found = estimate(plan_of(name, ON, count, settings, **rule), silos(count), engine="loop", workers=1)
        assert found is not None
        return found

    return of


D = sum(p.numel() for p in wide().parameters()) + 2 * WIDE  # buffers included
MODEL = 4 * D


def near(found: int, want: int) -> bool:
    """Up to keys, counters and the like."""
    return abs(found - want) < 2000


def said_by(program: str, *words: str) -> Any:
    """Run a program of this folder in a process of its own, and return what it prints."""
    command = [sys.executable, str(Path(__file__).with_name(program)), *words]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_by_hand_averaging_keeps_one_model_and_collects_all(needs: Any) -> None:
    found = needs("fedavg")
    assert near(found.server, (2 + 5) * MODEL) and found.clients == 0 and near(found.matrices, 5 * MODEL)
    assert near(needs("fedavg", participation=0.4).server, max(2 + 2, 1 + 5) * MODEL)  # or five models at the end


def test_by_hand_attention_has_two_matrices(needs: Any) -> None:
    """And the cloud models of the round that is delivered. What silos hold are rows of them."""
    found = needs("fedamp")
    assert near(found.server, 3 * 5 * MODEL) and found.clients < 2000 and near(found.matrices, 2 * 5 * MODEL)


@pytest.mark.parametrize("count", [3, 5, 20])
def test_by_hand_apple_keeps_every_core_at_every_silo_twice(count: int, needs: Any) -> None:
    found = needs("apple", count)
    assert abs(found.clients / (2 * count * count * MODEL) - 1) < 0.01
    half = needs("apple", count, participation=1 / count)  # the others' states stay what they are
    assert abs(half.clients / ((count + 1) * count * MODEL) - 1) < 0.01


def test_by_hand_own_models_and_control_variates(needs: Any) -> None:
    assert near(needs("separate").clients, 2 * 5 * MODEL)
    assert near(needs("ditto").clients, 2 * 5 * MODEL)
    found = needs("scaffold")
    assert near(found.clients, 2 * 5 * 2 * MODEL) and near(found.server, 2 * 2 * MODEL + 5 * 2 * MODEL)


def test_validation_data_keep_a_third_state() -> None:
    at = [s._replace(val=Split(s.test.x, s.test.y)) for s in silos()]
    plan = plan_of("separate", ON)
    two, three = (estimate(plan, one, engine="loop", workers=1) for one in (silos(), at))
    assert two is not None and three is not None and near(three.clients, two.clients * 3 // 2)


def test_matrices_in_files_are_not_in_memory() -> None:
    plan = plan_of("fedamp", ON)
    found, filed = (estimate(plan, silos(), engine="loop", workers=1, in_files=x) for x in (False, True))
    assert found is not None and filed is not None
    assert near(filed.server, found.server - found.matrices) and filed.matrices == 0


def test_a_method_that_cannot_be_outlined_is_not_weighed() -> None:
    class Strange:
        def __getattr__(self, name: str) -> Any:
            raise ValueError("a mistake of its author")

    plan = plan_of("fedavg", ON)._replace(method=Strange())
    assert estimate(plan, silos(), engine="loop") is None


def test_no_more_tensors_are_alive_than_was_said() -> None:
    """When all have trained, and the states before the round and after it are there; uploads no longer wait."""
    found = said_by("tensors_alive.py")
    assert list(found) == list(METHODS)
    # Nobody is at work, so layers' outputs are not there: a third of the total where silos keep nothing.
    wrong = {
        name: one
        for name, one in found.items()
        if not 0.45 * (one["estimated"] - one["waiting"]) < one["most"] <= one["estimated"]
    }
    assert not wrong


# What is refused


def test_a_run_that_does_not_fit_is_refused_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """300 silos that keep 300 ResNets each: terabytes."""
    words = "run apple --data digits --setting iid --clients 300 --batch 2 --model resnet18 --rounds 1 --out never"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["amity", *words.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == 2 and not Path("never").exists()
    assert said.startswith("amity: apple with 300 silos and 11,172,810 parameters needs about 7")
    assert "are available: take fewer silos or a smaller model" in said and said.count("\n") == 1


@pytest.mark.parametrize("spare", [0.5, 0.9, 1.1, 2.0])
def test_what_nearly_does_not_fit_is_said(spare: float, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("fedamp", ON)
    found = estimate(plan, silos(), engine="loop", workers=1)
    assert found is not None
    monkeypatch.setattr(footprint, "available", lambda: round(spare * found.total))

    def said() -> tuple[str, ...]:
        return check(plan, silos(), name="fedamp", engine="loop", workers=1)

    if spare < 1:
        with pytest.raises(OutOfMemory, match="fedamp with 5 silos and 36,003 parameters needs about") as caught:
            said()
        assert ("--matrix-dir" in str(caught.value)) == (found.total - found.matrices < 0.8 * spare * found.total)
    else:
        assert bool(said()) == (spare < 1.25)


def test_a_run_says_so_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the notes about its data."""
    from amity.prepare import prepare

    at = amity.own_silos({s.name: (*s.train, *s.test) for s in silos()})
    run = amity.Run("fedamp", engine="loop", workers=1)
    ready = prepare(run, at, model=wide)
    found = estimate(ready.plan, ready.silos.silos, engine="loop", workers=1)
    assert found is not None and not any("memory" in note for note in ready.silos.notes)
    monkeypatch.setattr(footprint, "available", lambda: round(1.1 * found.total))
    (note,) = [note for note in prepare(run, at, model=wide).silos.notes if note.startswith("memory: ")]
    assert "fedamp with 5 silos and 36,003 parameters will take about" in note


def test_small_runs_are_not_even_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "available", lambda: 1 << 40)
    monkeypatch.setattr(footprint, "estimate", lambda *parts, **how: pytest.fail("not needed"))
    assert check(plan_of("apple", ON), silos(), name="apple", engine="auto") == ()


# What a process takes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedavg", "fedamp", "scaffold", "ditto", "fedfomo", "apple", "separate", "vrlsgd"])
def test_the_estimate_is_what_a_process_takes(name: str) -> None:
    """Within a factor of 1.6, for a few hundred megabytes: freed memory that is kept counts too."""
    found = said_by("peak_memory.py", name)
    assert 1 / 1.6 < found["estimated"] / found["measured"] < 1.6, found
