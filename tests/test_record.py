"""Rounds made by hand: three silos, four test examples each, the right answers chosen."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.torch import load_file

from amity import record
from amity.contract import InputError, Progress, Round, Score
from amity.record import Recorder, checkpoint, file_names, read, writer

SILOS = ["north", "A/B", ".."]
CONFIG: dict[str, Any] = {"method": "fedamp", "rounds": 4, "workers": 2, "set": {"sigma": 10.0}, "lr": None}
FACTS: dict[str, Any] = {
    "method": "fedamp",
    "data": "digits",
    "setting": "practical",
    "model": "mlp",
    "clients": 3,
    "seed": 0,
    "engine": "simulate",
    "version": "0.1",
    "groups": [0, 0, 1],
}
SUMMARY_KEYS = (
    "method data setting model clients rounds seed score best bmta best_round last worst per_client "
    "validated validated_round validated_per_client metrics seconds "
    "bytes_up bytes_down bytes_eval block_score engine version"
).split()
LINE_KEYS = (
    "round mean worst val metrics accuracy loss train_loss per_silo bytes_up bytes_down bytes_eval seconds executed "
    "took_part dropped epochs collaborators warnings"
).split()
# Right answers of four, per round and silo: means 50, 75, 75, 58.33 percent. Round 2 attains the best first.
VAL = {1: 10.0, 2: 20.0, 3: 30.0, 4: 30.0}  # on validation data, of every silo; round 3 attains the best first
RIGHT = {1: (2, 2, 2), 2: (4, 3, 2), 3: (3, 3, 3), 4: (1, 3, 3)}


def state(round: int) -> Progress:
    values = torch.arange(6.0).reshape(3, 2) + round
    server = {
        "params": values,
        "row": values[1],
        "all": torch.ones(1).expand(5),
        "turned": values.T,
        "step": torch.tensor(round),
        "none": torch.empty(0),
        "flags": torch.tensor([True, False]),
    }
    clients = [{"params": values[i], "a/b": values[0]} for i in range(2)]
    return Progress(round, server, [*clients, {}])


def a_round(number: int, *, weights: bool = True, scores: Sequence[Score] | None = None) -> Round:
    aurocs = (10.0 * number, math.nan, 80.0)
    right = [
        Score(torch.arange(4) < count, 2.0 * number, {"auroc": auroc}, VAL[number])
        for count, auroc in zip(RIGHT[number], aurocs, strict=True)
    ]
    matrix = torch.tensor([[0.5, 0.4, 0.1], [math.nan] * 3, [0.1, 0.1, 0.8]])
    return Round(
        round=number,
        scores=list(scores or right),
        took_part=[0, 2],
        dropped={1: "upload not finite"},
        epochs={0: 5, 2: 3},
        bytes_up=10,
        bytes_down=20,
        bytes_eval=3,
        seconds={"local": 0.5, "evaluate": 0.25},
        weights=matrix * number if weights else None,
        progress=state(number),
        warnings=["slow"] if number == 2 else [],
    )


def models() -> list[tuple[str, dict[str, torch.Tensor]]]:
    shared = torch.arange(4.0)
    return [(silo, {"weight": shared, "tied": shared, "turned": shared.reshape(2, 2).T}) for silo in SILOS]


def record_rounds(recorder: Recorder, numbers: Sequence[int], *, weights: bool = True) -> None:
    for number in numbers:
        recorder.add(a_round(number, weights=weights))
        recorder.checkpoint(state(number))


def whole(path: Path, *, weights: bool = True) -> Recorder:
    recorder = Recorder.create(path, CONFIG, SILOS, FACTS)
    record_rounds(recorder, [1, 2, 3, 4], weights=weights)
    recorder.finish(models())
    return recorder


def strictly(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def assert_same(one: Progress, other: Progress) -> None:
    assert one.round == other.round
    assert len(one.clients) == len(other.clients)
    for a, b in zip([one.server, *one.clients], [other.server, *other.clients], strict=True):
        assert a.keys() == b.keys()
        for key in a:
            assert a[key].dtype == b[key].dtype
            assert torch.equal(a[key], b[key]), key


def test_a_finished_run_holds_these_files(tmp_path: Path) -> None:
    whole(tmp_path / "run")
    assert sorted(contents(tmp_path / "run")) == sorted(
        [
            *("config.toml", "facts.json", "rounds.jsonl", "weights.npz", "summary.json"),
            *(f"models/{silo}.safetensors" for silo in ("north", "A%2FB", "%2E%2E")),
            *(f"predictions/{silo}.npz" for silo in ("north", "A%2FB", "%2E%2E")),
            *(f"checkpoint/{part}.safetensors" for part in ("server", "clients", "scores")),
            "checkpoint/progress.json",
        ]
    )


def test_summary_by_hand(tmp_path: Path) -> None:
    recorder = whole(tmp_path)
    summary = strictly((tmp_path / "summary.json").read_text())
    assert list(summary) == SUMMARY_KEYS
    seconds = summary.pop("seconds")
    assert 0 < seconds <= recorder.seconds
    assert summary == {
        **{key: value for key, value in FACTS.items() if key != "groups"},
        "rounds": 4,
        "score": "accuracy",
        "best": 75.0,
        "bmta": 75.0,
        "best_round": 2,
        "last": pytest.approx(175 / 3),
        "worst": 50.0,
        "per_client": [100.0, 75.0, 50.0],
        "validated": 75.0,
        "validated_round": 3,
        "validated_per_client": [75.0, 75.0, 75.0],
        "metrics": {
            "best": {"auroc": 50.0},
            "validated": {"auroc": 55.0},
            "last": {"auroc": 60.0},
            "last_per_client": {"auroc": [40.0, None, 80.0]},
        },
        "bytes_up": 40,
        "bytes_down": 80,
        "bytes_eval": 12,
        "block_score": pytest.approx(4.0),  # .4 within; (.1 + .1 + .1) / 3 between
    }


def test_one_line_per_round(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    lines = [recorder.add(a_round(number)) for number in (1, 2)]
    written = [strictly(text) for text in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert written == lines
    assert list(lines[1]) == LINE_KEYS
    numbers = [1 / (0.25 + 0.16 + 0.01), 1 / (0.01 + 0.01 + 0.64)]
    assert lines[1] == {
        "round": 2,
        "mean": 75.0,
        "worst": 50.0,
        "val": 20.0,
        "metrics": {"auroc": 50.0},  # the silo where it is undefined does not count
        "per_silo": {"auroc": [20.0, None, 80.0]},
        "accuracy": [100.0, 75.0, 50.0],
        "loss": [1.0, 1.0, 1.0],
        "train_loss": None,
        "bytes_up": 10,
        "bytes_down": 20,
        "bytes_eval": 3,
        "seconds": {"local": 0.5, "evaluate": 0.25},
        "executed": "loop",
        "took_part": ["north", ".."],
        "dropped": {"A/B": "upload not finite"},
        "epochs": {"north": 5, "..": 3},
        "collaborators": pytest.approx(sum(numbers) / 2),
        "warnings": ["slow"],
    }


def test_what_is_not_a_number_is_null(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, {**FACTS, "groups": None})
    empty = Score(torch.empty(0, dtype=torch.bool), 0.0)
    lost = Score(torch.tensor([True, False]), math.inf)
    line = recorder.add(a_round(1, weights=False, scores=[empty, lost, lost]))
    assert strictly((tmp_path / "rounds.jsonl").read_text()) == line
    assert line["accuracy"] == [None, 50.0, 50.0]
    assert line["loss"] == [None, None, None]
    assert line["mean"] == 50.0 and line["collaborators"] is None
    recorder.finish(models())
    summary = strictly((tmp_path / "summary.json").read_text())
    assert summary["per_client"] == [None, 50.0, 50.0] and summary["block_score"] is None
    assert line["val"] is None and summary["validated"] is summary["validated_round"] is None
    assert summary["metrics"] == {"best": {}, "validated": None, "last": {}, "last_per_client": {}}


def test_weights_models_and_predictions(tmp_path: Path) -> None:
    whole(tmp_path)
    with np.load(tmp_path / "weights.npz") as archive:
        assert archive.files == ["round_0001", "round_0002", "round_0003", "round_0004"]
        assert archive["round_0003"].dtype == np.float32
    run = read(tmp_path)
    assert list(run.weights) == [1, 2, 3, 4]
    np.testing.assert_array_equal(run.weights[3], a_round(3).weights)
    best, last = run.predictions["A/B"]["best"], run.predictions["A/B"]["last"]
    assert best.dtype == last.dtype == np.bool_
    assert run.predictions.keys() == set(SILOS)
    assert run.predictions["north"]["best"].tolist() == [True] * 4
    assert run.predictions["north"]["last"].tolist() == [True, False, False, False]
    stored = load_file(tmp_path / "models" / "A%2FB.safetensors")
    assert all(torch.equal(stored[key], value) for key, value in models()[1][1].items())


def test_a_method_without_weights_writes_none(tmp_path: Path) -> None:
    whole(tmp_path, weights=False)
    assert not (tmp_path / "weights.npz").exists()
    assert read(tmp_path).weights == {}
    assert read(tmp_path).results["block_score"] is None


def test_config_can_be_read_again(tmp_path: Path) -> None:
    Recorder.create(tmp_path, {**CONFIG, "data_dir": Path("a/b"), "span": (1, 5)}, SILOS, FACTS)
    config = tomllib.loads((tmp_path / "config.toml").read_text())
    expected = {**CONFIG, "data_dir": str(Path("a/b")), "span": [1, 5]}
    del expected["lr"]  # TOML has no null: an option that is not set is not there
    assert config == expected


def test_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    whole(tmp_path / "whole")
    record_rounds(Recorder.create(tmp_path / "two", CONFIG, SILOS, FACTS), [1, 2])
    recorder, progress = Recorder.resume(tmp_path / "two", CONFIG)
    assert progress is not None
    assert_same(progress, state(2))
    record_rounds(recorder, [3, 4])
    recorder.finish(models())

    expected, got = contents(tmp_path / "whole"), contents(tmp_path / "two")
    assert expected.keys() == got.keys()
    timed = ("summary.json", "checkpoint/progress.json")
    for file in expected.keys() - {*timed}:
        if file.endswith(".npz"):  # archives carry the time of writing
            a, b = (np.load(tmp_path / run / file) for run in ("whole", "two"))
            with a, b:
                assert a.files == b.files
                assert all(np.array_equal(a[key], b[key], equal_nan=a[key].dtype != bool) for key in a.files)
        else:
            assert expected[file] == got[file], file
    for file in timed:
        a, b = json.loads(expected[file]), json.loads(got[file])
        assert a.pop("seconds") > 0 and b.pop("seconds") > 0
        assert a == b


@pytest.mark.parametrize("done", [1, 3])
def test_resume_forgets_rounds_after_the_checkpoint(tmp_path: Path, done: int) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    record_rounds(recorder, range(1, done + 1))
    recorder.add(a_round(done + 1))
    with (tmp_path / "rounds.jsonl").open("a") as file:
        file.write('{"round": ')
    with (tmp_path / "weights.part").open("ab") as part:
        part.write(b"cut off")
    recorder.close()
    recorder, progress = Recorder.resume(tmp_path, CONFIG)
    assert progress is not None and progress.round == done
    assert [line["round"] for line in read(tmp_path).lines] == list(range(1, done + 1))
    assert list(read(tmp_path).weights) == list(range(1, done + 1))
    record_rounds(recorder, range(done + 1, 5))
    recorder.finish(models())
    assert read(tmp_path).results["best_round"] == 2
    assert list(read(tmp_path).weights) == [1, 2, 3, 4]


def test_resume_without_a_checkpoint_starts_at_the_beginning(tmp_path: Path) -> None:
    Recorder.create(tmp_path, CONFIG, SILOS, FACTS).add(a_round(1))
    recorder, progress = Recorder.resume(tmp_path, CONFIG)
    assert progress is None and recorder.lines == [] and read(tmp_path).lines == []
    record_rounds(recorder, [1])


def test_resume_of_a_finished_run_changes_nothing_in_it(tmp_path: Path) -> None:
    whole(tmp_path)
    before = contents(tmp_path)
    recorder, progress = Recorder.resume(tmp_path, {**CONFIG, "workers": 1})
    assert recorder.finished and progress is not None and progress.round == 4
    assert recorder.finish(models()) == json.loads(before["summary.json"])
    assert recorder.interrupted() is None
    assert contents(tmp_path) == before


def test_a_run_stopped_between_its_last_round_and_its_end_can_be_finished(tmp_path: Path) -> None:
    record_rounds(Recorder.create(tmp_path, CONFIG, SILOS, FACTS), [1, 2, 3, 4])
    recorder, progress = Recorder.resume(tmp_path, CONFIG)
    assert progress is not None and progress.round == 4 and not recorder.finished
    recorder.interrupted()
    assert not recorder.finished
    recorder.finish(models())
    assert recorder.finished
    assert read(tmp_path).results["block_score"] == pytest.approx(4.0)
    assert read(tmp_path).predictions["north"]["best"].all()


def test_a_finished_run_can_be_given_more_rounds(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, {**CONFIG, "rounds": 2}, SILOS, FACTS)
    record_rounds(recorder, [1, 2])
    recorder.finish(models())
    recorder, progress = Recorder.resume(tmp_path, CONFIG)
    assert progress is not None and progress.round == 2 and not recorder.finished
    assert read(tmp_path).config["rounds"] == 4 and read(tmp_path).summary is None
    record_rounds(recorder, [3, 4])
    recorder.finish(models())
    assert recorder.finished and list(read(tmp_path).weights) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"set": {"sigma": 5.0}}, "set.sigma = 10.0, got 5.0"),
        ({"seed": 7}, "seed = 0, got 7"),  # a file without the key is of a version that knew the default only
        ({"unknown": 7}, "unknown = not set, got 7"),
        ({"method": None}, "method = 'fedamp', got not set"),
        ({"rounds": 3}, "4 rounds, got 3"),
    ],
)
def test_resume_refuses_another_configuration(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    record_rounds(Recorder.create(tmp_path, CONFIG, SILOS, FACTS), [1])
    before = contents(tmp_path)
    with pytest.raises(InputError, match=words):
        Recorder.resume(tmp_path, {**CONFIG, **change})
    assert contents(tmp_path) == before


def test_resume_refuses_lost_rounds_and_broken_checkpoints(tmp_path: Path) -> None:
    record_rounds(Recorder.create(tmp_path, CONFIG, SILOS, FACTS), [1])
    (tmp_path / "rounds.jsonl").write_text("")
    with pytest.raises(InputError, match="rounds were lost"):
        Recorder.resume(tmp_path, CONFIG)
    (tmp_path / "checkpoint" / "server.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="checkpoint cannot be read"):
        Recorder.resume(tmp_path, CONFIG)


class Crash(BaseException):
    """Not an Exception: nothing may catch it."""


def crash_at(monkeypatch: pytest.MonkeyPatch, call: int) -> list[int]:
    """Let the next checkpoint fail at one of its operations on the file system; gives the count of them."""
    count = [0]

    def counted(name: str, owner: Any) -> None:
        real = getattr(owner, name)

        def operation(*args: Any, **kwargs: Any) -> Any:
            count[0] += 1
            if count[0] == call:
                raise Crash
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, operation)

    counted("save_file", checkpoint)
    counted("sync", checkpoint)
    counted("sync", writer)
    counted("rename", Path)
    counted("mkdir", Path)
    counted("write_bytes", Path)
    counted("rmtree", shutil)
    return count


@pytest.mark.parametrize("first", [False, True])
def test_a_crash_at_any_step_leaves_the_old_checkpoint_or_the_new(tmp_path: Path, first: bool) -> None:
    before = 0 if first else 1
    outcomes = []
    for call in range(1, 100):
        path = tmp_path / str(call)
        recorder = Recorder.create(path, CONFIG, SILOS, FACTS)
        record_rounds(recorder, range(1, before + 1))
        recorder.add(a_round(before + 1))
        with pytest.MonkeyPatch.context() as patch:
            count = crash_at(patch, call)
            try:
                recorder.checkpoint(state(before + 1))
            except Crash:
                pass
        recorder.close()  # as the end of its process does
        _, progress = Recorder.resume(path, CONFIG)
        outcomes.append(progress.round if progress else 0)
        if progress:
            assert_same(progress, state(progress.round))
        assert not (path / "checkpoint.new").exists() and not (path / "checkpoint.old").exists()
        if count[0] < call:
            break
    assert outcomes == sorted(outcomes) and set(outcomes) == {before, before + 1}


def test_leftovers_of_a_crash_do_not_hinder_the_next_checkpoint(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    record_rounds(recorder, [1])
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "checkpoint.old")
    (tmp_path / "checkpoint.new").mkdir()
    (tmp_path / "checkpoint.new" / "server.safetensors").write_bytes(b"half")
    record_rounds(recorder, [2])
    assert sorted(file.name for file in tmp_path.glob("checkpoint*")) == ["checkpoint"]
    recorder.close()
    _, progress = Recorder.resume(tmp_path, CONFIG)
    assert progress is not None and progress.round == 2


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    whole(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(RuntimeError), record.replacing(tmp_path / "summary.json") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert contents(tmp_path) == before


def test_interrupted_leaves_a_readable_run_that_resumes(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    assert recorder.interrupted() is None and not (tmp_path / "summary.json").exists()
    record_rounds(recorder, [1, 2])
    recorder.add(a_round(3))
    recorder.interrupted()
    run = read(tmp_path)
    assert run.summary is not None and list(run.summary) == SUMMARY_KEYS
    assert (run.summary["rounds"], run.summary["best_round"]) == (3, 2)
    assert list(run.weights) == [1, 2, 3] and (tmp_path / "weights.npz").exists()
    recorder, progress = Recorder.resume(tmp_path, CONFIG)
    assert progress is not None and progress.round == 2 and read(tmp_path).summary is None
    record_rounds(recorder, [3, 4])
    recorder.finish(models())
    assert read(tmp_path).results["rounds"] == 4


def test_when_a_checkpoint_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("amity.record.writer.time.perf_counter", lambda: now[0])
    recorder = Recorder.create(tmp_path, {**CONFIG, "rounds": 9}, SILOS, FACTS)
    small = state(1)
    large = Progress(1, {"params": torch.zeros(1).expand(16_000_000)}, [])
    assert recorder.checkpoint_due(small, "auto")
    assert not recorder.checkpoint_due(large, "auto")
    now[0] += 120
    assert recorder.checkpoint_due(large, "auto")
    recorder.add(a_round(1))
    recorder.checkpoint(small)
    assert not recorder.checkpoint_due(large, "auto")
    assert [round for round in range(1, 10) if recorder.checkpoint_due(state(round), 4)] == [4, 8, 9]
    assert [round for round in range(1, 10) if recorder.checkpoint_due(state(round), 0)] == [9]


def test_create_refuses_a_directory_with_a_run_and_leaves_it(tmp_path: Path) -> None:
    whole(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="already holds a run"):
        Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("mark", ["config.toml", "rounds.jsonl", "summary.json", "weights.npz"])
def test_one_file_of_a_run_is_enough_to_refuse(tmp_path: Path, mark: str) -> None:
    (tmp_path / mark).write_text("")
    with pytest.raises(InputError, match="already holds a run"):
        Recorder.create(tmp_path, CONFIG, SILOS, FACTS)


def test_force_removes_only_the_runs_own_files(tmp_path: Path) -> None:
    whole(tmp_path)
    (tmp_path / "report.html").write_text("of the old run")
    foreign = ["notes.txt", "models/mine.safetensors", "predictions/mine.npz", "data/x.npz"]
    for name in foreign:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    Recorder.create(tmp_path, CONFIG, ["other"], FACTS, force=True)
    fresh = ["config.toml", "facts.json", "rounds.jsonl", "weights.part"]
    assert sorted(contents(tmp_path)) == sorted([*foreign, *fresh])
    assert read(tmp_path).silos == ["other"] and read(tmp_path).lines == []


def test_a_report_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    Recorder.create(tmp_path, CONFIG, SILOS, FACTS, force=True)
    assert (tmp_path / "report.html").read_text() == "mine"


def test_force_refuses_to_lose_a_file_inside_the_checkpoint(tmp_path: Path) -> None:
    whole(tmp_path)
    (tmp_path / "checkpoint" / "mine.txt").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InputError, match="mine.txt is not part of a run"):
        Recorder.create(tmp_path, CONFIG, SILOS, FACTS, force=True)
    assert contents(tmp_path) == before


def test_create_refuses_what_is_not_a_writable_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="give another --out") as refusal:
            Recorder.create(path, CONFIG, SILOS, FACTS)
        assert "\n" not in str(refusal.value)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("amity.record.files.os.replace", full)
    with pytest.raises(InputError, match="No space left"):
        Recorder.create(tmp_path / "new" / "deep", CONFIG, SILOS, FACTS)
    assert list(contents(tmp_path)) == ["file"] and not (tmp_path / "new").exists()


def test_create_refuses_silos_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'a' more than once"):
        Recorder.create(tmp_path / "run", CONFIG, ["a", "b", "a"], FACTS)
    assert not (tmp_path / "run").exists()


def test_rounds_come_in_order(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    with pytest.raises(ValueError, match="expected 1, got 2"):
        recorder.add(a_round(2))
    with pytest.raises(ValueError, match="recorded last"):
        recorder.checkpoint(state(1))


def test_read_refuses_what_is_not_a_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="holds no run"):
            read(path)


@pytest.mark.parametrize("file", ["config.toml", "facts.json", "rounds.jsonl", "summary.json", "weights.npz"])
def test_read_refuses_a_corrupt_run_in_one_line(tmp_path: Path, file: str) -> None:
    whole(tmp_path)
    (tmp_path / file).write_text("{nonsense\n{}")
    with pytest.raises(InputError) as refusal:
        assert read(tmp_path).weights
    assert "\n" not in str(refusal.value) and str(tmp_path) in str(refusal.value)


def test_a_run_under_way_can_be_read(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    assert read(tmp_path).results["bmta"] is None
    record_rounds(recorder, [1, 2])
    with (tmp_path / "rounds.jsonl").open("a") as file:
        file.write('{"round": 3, "mean"')
    run = read(tmp_path)
    assert run.summary is None and len(run.lines) == 2 and run.predictions == {}
    assert list(run.results) == SUMMARY_KEYS
    assert (run.results["rounds"], run.results["bmta"], run.results["seconds"]) == (2, 75.0, 1.5)


def test_file_names_by_hand() -> None:
    names = ["Hôpital Nord", "a", "A", "A/B", "..", "", "nul.txt", "x.", "x" * 300, "\ud800"]
    stems = file_names(names)
    assert [stems[name] for name in names[:-2]] == [
        *("Hôpital Nord", "a", "A~2", "A%2FB", "%2E%2E", "%", "%6Eul.txt", "x%2E"),
    ]
    assert len(stems["x" * 300]) < 200 and stems["\ud800"] == "%ED%A0%80"


@given(st.lists(st.text(max_size=300), unique=True, max_size=8))
def test_file_names_are_safe_and_unique(names: list[str]) -> None:
    stems = file_names(names)
    assert len({stem.casefold() for stem in stems.values()}) == len(names)
    for stem in stems.values():
        assert stem and not stem.startswith(".") and len(stem.encode()) <= 210
        assert not set(stem) & set('/\\:*?"<>|\0')


def test_a_manifest_is_kept_beside_the_facts_and_goes_with_the_run(tmp_path: Path) -> None:
    manifest = {
        "sha256": "abc",
        "notes": ["a, b"],
        "silos": [{"name": "é", "train": [1, 2]}, {"name": "b", "val": None}],
    }
    Recorder.create(tmp_path / "run", CONFIG, ["other"], FACTS, manifest=manifest)
    assert read(tmp_path / "run").manifest == manifest
    assert len((tmp_path / "run" / "manifest.json").read_text().splitlines()) == 4 + 2 + 4  # a line for each silo
    Recorder.create(tmp_path / "run", CONFIG, ["other"], FACTS, force=True)
    assert read(tmp_path / "run").manifest is None


def test_a_failed_silo_keeps_its_round_from_winning(tmp_path: Path) -> None:
    """R2 of minus infinity, as null in files, in the round that is best without that silo."""

    def scored(r2: Sequence[float], val: float) -> list[Score]:
        return [Score(torch.tensor([value]), 1.0, {"r2": value}, val) for value in r2]

    recorder = Recorder.create(tmp_path, CONFIG, SILOS, {**FACTS, "score": "r2"})
    recorder.add(a_round(1, scores=scored([10.0, 20.0, math.nan], 5.0)))
    line = recorder.add(a_round(2, scores=scored([90.0, -math.inf, math.nan], -math.inf)))
    assert line["mean"] is line["worst"] is line["val"] is None and line["r2"] == [90.0, None, None]
    assert any(warning.startswith("silo A/B's model is not finite: ") for warning in line["warnings"])
    recorder.checkpoint(state(2))
    del recorder
    again, _ = Recorder.resume(tmp_path, CONFIG)  # from what is on disk
    again.add(a_round(3, scores=scored([5.0, 5.0, math.nan], 1.0)))
    summary = again.interrupted()
    assert summary is not None and (summary["best"], summary["best_round"], summary["worst"]) == (15.0, 1, 10.0)
    assert (summary["validated"], summary["validated_round"]) == (15.0, 1)


def test_many_failed_silos_are_one_warning(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(9)]
    scores = [Score(torch.tensor([False]), math.nan)] * 9
    recorder = Recorder.create(tmp_path, CONFIG, names, FACTS)
    line = recorder.add(a_round(1, scores=scores, weights=False)._replace(took_part=[], dropped={}, epochs={}))
    (warning,) = line["warnings"]
    assert warning.startswith("9 silos' models are not finite, silo s0's among them: ") and line["mean"] == 0.0


HOLDER = """
import sys
from amity.record import Recorder
from test_record import CONFIG, FACTS, SILOS
recorder = Recorder.create(sys.argv[1], CONFIG, SILOS, FACTS)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is locked there")
def test_one_process_at_a_time_writes_a_run(tmp_path: Path) -> None:
    """The other one touches nothing; what a process holds is free as soon as it has ended, by a kill too."""
    path = tmp_path / "run"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        before = contents(path)
        wanted = f"another process is writing {path}: wait for it or choose another --out"
        with pytest.raises(InputError) as refused:
            Recorder.resume(path, CONFIG)
        assert str(refused.value) == wanted
        with pytest.raises(InputError, match="another process is writing"):
            Recorder.create(path, CONFIG, SILOS, FACTS, force=True)
        assert contents(path) == before and read(path).lines == []
    finally:
        holder.kill()
        holder.communicate()
    recorder, _ = Recorder.resume(path, CONFIG)
    record_rounds(recorder, [1, 2, 3, 4])
    recorder.finish(models())
    Recorder.create(path, CONFIG, SILOS, FACTS, force=True)  # the end of a run lets go of its directory


def test_results_without_a_checkpoint_are_not_forgotten(tmp_path: Path) -> None:
    whole(tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")
    before = contents(tmp_path)
    recorder, progress = Recorder.resume(tmp_path, CONFIG)
    assert progress is None and recorder.finished and len(recorder.lines) == 4
    recorder.close()
    with pytest.raises(InputError, match="has results, but no checkpoint to continue from: --force runs it anew"):
        Recorder.resume(tmp_path, {**CONFIG, "rounds": 9})
    (tmp_path / "models" / "north.safetensors").unlink()
    with pytest.raises(InputError, match="has results, but no checkpoint"):
        Recorder.resume(tmp_path, CONFIG)
    assert {**contents(tmp_path), **before} == before


@pytest.mark.parametrize("left", [["manifest.json"], ["facts.json"], ["config.toml"], ["facts.json", "rounds.jsonl"]])
def test_what_was_never_created_is_no_run_to_continue(tmp_path: Path, left: list[str]) -> None:
    path = tmp_path / "run"
    Recorder.create(path, CONFIG, SILOS, FACTS, manifest={"silos": []}).close()
    assert record.begun(path)
    for file in path.iterdir():
        if file.name not in left:
            file.unlink()
    assert record.holds_run(path) and not record.begun(path) and not record.begun(tmp_path)
    (path / "rounds.jsonl").write_text('{"round": 1}')  # what cannot be read is not therefore worthless
    assert record.begun(path)


@pytest.mark.parametrize("name", ["summary.json", "manifest.json", "weights.npz"])
def test_a_file_that_says_nothing_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    whole(tmp_path)
    (tmp_path / name).write_bytes(b"" if name == "weights.npz" else b"{}")
    with pytest.raises(InputError, match=rf"{name} (is not what `amity run` writes|cannot be read)"):
        run = read(tmp_path)
        assert run.results and run.weights and run.manifest


@pytest.mark.parametrize("error", [SafetensorError("No space left on device"), OSError(28, "No space left on device")])
def test_a_full_disk_is_one_line_and_costs_no_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    record_rounds(recorder, [1])

    def full(*_: object) -> None:
        raise error

    recorder.add(a_round(2))
    with monkeypatch.context() as patch, pytest.raises(InputError) as refused:
        patch.setattr(checkpoint, "save_file", full)
        recorder.checkpoint(state(2))
    said = f"cannot write to {tmp_path} (No space left on device): make room there, then --resume continues it"
    assert str(refused.value) == said
    with monkeypatch.context() as patch, pytest.raises(InputError, match="No space left on device"):
        patch.setattr(writer, "save_file", full)
        recorder.finish(models())
    recorder.close()
    assert Recorder.resume(tmp_path, CONFIG)[1] is not None
