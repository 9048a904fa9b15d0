"""Runs that were stopped go on, and come to the same end as those that were not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from four_silos import (
    NAMES,
    OWN,
    arrays,
    equal,
    found,
    known,
    linear,
    network,
    own,
    quick,
    weights_of,
)
from listening import recorded, run_ready

import amity
from amity import record
from amity.contract import State
from amity.federation.silo import SiloSide
from amity.prepare import prepare
from amity.report import write_report
from amity.report.figures import tables
from amity.report.view import view_of


@pytest.mark.parametrize("every", ["auto", 0, 2])
@pytest.mark.parametrize("method", ["heurfedamp", "fedavg-local", "apple"])
def test_resumed_equals_uninterrupted(method: str, every: int | Literal["auto"], tmp_path: Path) -> None:
    def stop(line: dict[str, Any]) -> None:
        if line["round"] == 3:
            raise KeyboardInterrupt

    run = quick(method, rounds=5, epochs=1, checkpoint_every=every, participation=0.6)
    with pytest.raises(KeyboardInterrupt):
        amity.run(run, own(), model=network, out=tmp_path / "run", listen=recorded(stop))
    rounds: list[int] = []
    resumed = amity.run(
        run,
        own(),
        model=network,
        out=tmp_path / "run",
        resume=True,
        listen=recorded(lambda line: rounds.append(line["round"])),
    )
    whole = amity.run(run, own(), model=network)
    assert rounds == [4, 5]
    assert found(resumed) == found(whole)
    assert equal(weights_of(resumed), weights_of(whole))
    assert all(np.array_equal(resumed.weights[n], whole.weights[n], equal_nan=True) for n in whole.weights)


def test_a_delivered_round_survives_an_interruption(tmp_path: Path) -> None:
    run = quick("fedamp", rounds=8, epochs=1, val_fraction=0.25, lr=0.6)
    whole = amity.run(run, own(), model=linear)
    assert 1 < whole.round < 7

    def stop(line: dict[str, Any]) -> None:
        if line["round"] == whole.round + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        amity.run(run, own(), model=linear, out=tmp_path / "run", listen=recorded(stop))
    again = amity.run(run, own(), model=linear, out=tmp_path / "run", resume=True)
    assert again.round == whole.round and equal(weights_of(again), weights_of(whole))


def test_seldom_evaluated_runs_are_the_same_runs(tmp_path: Path) -> None:
    """Stopped before the first evaluation, resumed, and the best of the evaluated rounds alone."""

    def stop(line: dict[str, Any]) -> None:
        if line["round"] == 1:
            raise KeyboardInterrupt

    often = amity.run(quick("fedavg-ft", rounds=5), own(), model=network)
    run = quick("fedavg-ft", rounds=5, evaluate_every=2)
    with pytest.raises(KeyboardInterrupt):
        amity.run(run, own(), model=network, out=tmp_path / "run", listen=recorded(stop))
    begun = amity.record.read(tmp_path / "run").results
    assert [begun[key] for key in ("delivered", "delivered_round", "chosen_by", "bmta", "last", "worst")] == [None] * 6
    assert begun["per_client"] == []
    write_report([amity.record.read(tmp_path / "run")], tmp_path / "begun.html")
    seldom = amity.run(run, own(), model=network, out=tmp_path / "run", resume=True)
    assert equal(weights_of(often), weights_of(seldom))
    for line, reference in zip(seldom.lines, often.lines, strict=True):
        due = line["round"] in (2, 4, 5)
        for key in ("mean", "worst", "accuracy", "loss"):
            assert line[key] == (reference[key] if due else None)
        assert line["bytes_eval"] == (reference["bytes_eval"] if due else 0)
    best = max((seldom.lines[at] for at in (1, 3, 4)), key=lambda line: known([line["mean"]]))
    assert (seldom.bmta, seldom.summary["best_on_test_round"]) == (best["mean"], best["round"])
    assert seldom.summary["last"] == often.summary["last"]
    _, *curve = tables.curves(view_of([amity.record.read(tmp_path / "run")]), lambda course: course["mean"])
    assert [row[0] for row in curve] == [2, 4, 5] and all(row[1] is not None for row in curve)


def test_a_finished_run_gives_its_models_again(tmp_path: Path) -> None:
    first = amity.run(quick("fedavg-ft"), own(), model=network, out=tmp_path / "run")
    again = amity.run(quick("fedavg-ft"), own(), model=network, out=tmp_path / "run", resume=True)
    assert again.summary == first.summary
    assert equal(weights_of(again), weights_of(first))


def test_a_finished_run_without_its_checkpoint_stays_as_it_is(tmp_path: Path) -> None:
    """Checkpoints are large: to remove those of finished runs must cost nothing but going on."""
    first = amity.run(quick("fedamp"), own(), model=network, out=tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}

    def stop(*_: object) -> None:
        raise AssertionError("nothing is left to be computed")

    again = amity.run(quick("fedamp"), own(), model=network, out=tmp_path / "run", resume=True, listen=stop)
    assert again.summary == first.summary and equal(weights_of(again), weights_of(first))
    with pytest.raises(amity.InputError, match="no checkpoint to continue from"):
        amity.run(quick("fedamp", rounds=9), own(), model=network, out=tmp_path / "run", resume=True)
    assert before == {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}


def test_a_run_that_was_killed_while_it_was_created_starts_again(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    (place / "manifest.json").write_text("{}")
    (place / "facts.json").write_text('{"silos": ')
    ready = prepare(quick("separate"), own(), model=linear)
    assert record.holds_run(place)
    with pytest.warns(UserWarning, match=f"{place} holds no run yet: this one begins at round 1"):
        run_ready(ready, out=place, resume=record.holds_run(place))
    assert record.read(place).summary is not None


def test_a_run_is_not_resumed_with_other_silos(tmp_path: Path) -> None:
    amity.run(quick("separate"), own(), model=linear, out=tmp_path / "run")
    renamed = amity.own_silos({f"{name}-2": arrays for name, arrays in OWN.items()})
    with pytest.raises(amity.InputError, match="north"):
        amity.run(quick("separate"), renamed, model=linear, out=tmp_path / "run", resume=True)


def test_a_run_is_not_resumed_with_other_data(tmp_path: Path) -> None:
    amity.run(quick("separate"), own(), model=linear, out=tmp_path / "run")
    with pytest.raises(amity.InputError, match="data"):
        amity.run(quick("separate"), own(east=arrays(9)), model=linear, out=tmp_path / "run", resume=True)


def test_cloud_models_survive_an_interruption(tmp_path: Path) -> None:
    """Killed after the last round and before the end, the models that were sent in it are known from the checkpoint."""
    run = quick("heurfedamp")
    whole = amity.run(run, own(), model=linear)

    def stop(line: dict[str, Any]) -> None:
        if line["round"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        amity.run(run, own(), model=linear, out=tmp_path / "run", listen=recorded(stop))
    for _ in range(2):  # resumed, and asked for once more when it is finished
        again = amity.run(run, own(), model=linear, out=tmp_path / "run", resume=True)
        for name in NAMES:
            assert equal(dict(again.cloud(name).state_dict()), dict(whole.cloud(name).state_dict()))


def test_cloud_models_of_an_earlier_end_are_not_left(tmp_path: Path) -> None:
    """Given more rounds, other silos take part in the last one: what they were sent before is not what is delivered."""
    for rounds in (3, 4, 5, 6):
        run = quick("fedamp", rounds=rounds, participation=0.5)
        last = amity.run(run, own(), model=linear, out=tmp_path / "run", resume=rounds > 3)
        assert record.read(tmp_path / "run").clouds.keys() == set(last.lines[-1]["took_part"])


@pytest.mark.parametrize("engine", ["loop", "memory"])
def test_an_upload_that_comes_again_after_a_resume_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Literal["loop", "memory"]
) -> None:
    """A silo sends its first upload once more: in a run that was let alone, and in one that was stopped before."""
    real, first = SiloSide.train, dict[str, State]()

    def repeating(silo: SiloSide, round: int, down: State) -> State:
        upload = {key: value.clone() for key, value in real(silo, round, down).items()}
        first.setdefault(silo.name, upload)
        return first[silo.name] if (silo.name, round) == ("east", 4) else upload

    def stop(line: dict[str, Any]) -> None:
        if line["round"] == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(SiloSide, "train", repeating)
    run = quick("fedavg-local", rounds=5, robust="norm", engine=engine)
    whole = amity.run(run, own(), model=linear)
    assert list(whole.lines[3]["dropped"]) == ["east"] and "came before" in whole.lines[3]["dropped"]["east"]
    first.clear()
    with pytest.raises(KeyboardInterrupt):
        amity.run(run, own(), model=linear, out=tmp_path / "run", listen=recorded(stop))
    again = amity.run(run, own(), model=linear, out=tmp_path / "run", resume=True)
    assert [line["dropped"] for line in again.lines] == [line["dropped"] for line in whole.lines]
    assert equal(weights_of(again), weights_of(whole))
