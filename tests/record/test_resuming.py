"""Runs that are resumed: from their checkpoint, from the beginning, for more rounds, or not at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from record.rounds_by_hand import (
    CONFIG,
    FACTS,
    MANIFEST,
    SILOS,
    SUMMARY_KEYS,
    add_round,
    assert_same,
    assert_same_server,
    contents,
    models,
    progress_at,
    record_rounds,
    saved_at,
    whole,
)

from amity import record
from amity.errors import InputError
from amity.federation.events import Event
from amity.record import Recorder, read


def test_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    whole(tmp_path / "whole")
    record_rounds(Recorder.create(tmp_path / "two", CONFIG, SILOS, FACTS, manifest=MANIFEST), [1, 2])
    recorder, saved = Recorder.resume(tmp_path / "two", CONFIG)
    assert saved is not None
    assert_same(saved, saved_at(2))
    record_rounds(recorder, [3, 4])
    recorder.finish(models())

    expected, got = contents(tmp_path / "whole"), contents(tmp_path / "two")
    assert expected.keys() == got.keys()
    timed = ("summary.json", "checkpoint/progress.json")
    sums = ("checksums.json", "checkpoint/checksums.json")  # of the others, with their times
    for file in expected.keys() - {*timed, *sums}:
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
    for file in sums:
        a, b = json.loads(expected[file]), json.loads(got[file])
        assert a["files"].keys() == b["files"].keys()
        assert all(a[key] == b[key] for key in ("format", "config", "rounds", "lines"))


@pytest.mark.parametrize("done", [1, 3])
def test_resume_forgets_rounds_after_the_checkpoint(tmp_path: Path, done: int) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    record_rounds(recorder, range(1, done + 1))
    add_round(recorder, done + 1)
    with (tmp_path / "rounds.jsonl").open("a") as file:
        file.write('{"round": ')
    with (tmp_path / "weights.part").open("ab") as part:
        part.write(b"cut off")
    recorder.close()
    recorder, saved = Recorder.resume(tmp_path, CONFIG)
    assert saved is not None and saved.progress.round == done
    assert [line["round"] for line in read(tmp_path).lines] == list(range(1, done + 1))
    assert list(read(tmp_path).weights) == list(range(1, done + 1))
    record_rounds(recorder, range(done + 1, 5))
    recorder.finish(models())
    found = read(tmp_path).results
    assert (found["best_on_test_round"], found["delivered_round"]) == (2, 3)
    assert recorder.chosen is not None
    assert_same_server(recorder.chosen, progress_at(3))
    saved = Recorder.resume(tmp_path, CONFIG)[1]
    assert saved is not None
    assert_same(saved, saved_at(4))  # with what the silos were in round 3
    assert list(read(tmp_path).weights) == [1, 2, 3, 4]


def test_resume_without_a_checkpoint_starts_at_the_beginning(tmp_path: Path) -> None:
    add_round(Recorder.create(tmp_path, CONFIG, SILOS, FACTS), 1)
    recorder, saved = Recorder.resume(tmp_path, CONFIG)
    assert saved is None and recorder.lines == [] and read(tmp_path).lines == []
    record_rounds(recorder, [1])


def test_resume_of_a_finished_run_changes_nothing_in_it(tmp_path: Path) -> None:
    whole(tmp_path)
    before = contents(tmp_path)
    recorder, saved = Recorder.resume(tmp_path, {**CONFIG, "workers": 1})
    assert recorder.finished and saved is not None and saved.progress.round == 4
    recorder.listen(Event("ended"))
    assert recorder.finish(models()) == json.loads(before["summary.json"])
    assert recorder.interrupted() is None
    assert contents(tmp_path) == before


def test_a_run_stopped_between_its_last_round_and_its_end_can_be_finished(tmp_path: Path) -> None:
    record_rounds(Recorder.create(tmp_path, CONFIG, SILOS, FACTS), [1, 2, 3, 4])
    recorder, saved = Recorder.resume(tmp_path, CONFIG)
    assert saved is not None and saved.progress.round == 4 and not recorder.finished
    recorder.interrupted()
    assert not recorder.finished
    recorder.finish(models())
    assert recorder.finished
    assert read(tmp_path).results["block_score"] == pytest.approx(4.0)
    assert read(tmp_path).predictions["north"]["delivered"].sum() == 3
    assert recorder.chosen is not None
    assert_same_server(
        recorder.chosen, progress_at(3)
    )  # whose models are delivered, read back from round 4's checkpoint
    assert_same(saved, saved_at(4))


def test_a_finished_run_can_be_given_more_rounds(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, {**CONFIG, "rounds": 2}, SILOS, FACTS)
    record_rounds(recorder, [1, 2])
    recorder.finish(models())
    recorder, saved = Recorder.resume(tmp_path, CONFIG)
    assert saved is not None and saved.progress.round == 2 and not recorder.finished
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


def test_a_run_of_a_version_without_an_option_goes_on_with_what_auto_is_now(tmp_path: Path) -> None:
    record_rounds(Recorder.create(tmp_path, CONFIG, SILOS, FACTS), [1])
    recorder, saved = Recorder.resume(tmp_path, {**CONFIG, "momentum": 0.9})
    assert saved is not None and saved.progress.round == 1
    assert recorder.config["momentum"] == read(tmp_path).config["momentum"] == 0.9


def test_resume_refuses_lost_rounds_and_broken_checkpoints(tmp_path: Path) -> None:
    record_rounds(Recorder.create(tmp_path, CONFIG, SILOS, FACTS), [1])
    (tmp_path / "rounds.jsonl").write_text("")
    with pytest.raises(InputError, match="rounds were lost"):
        Recorder.resume(tmp_path, CONFIG)
    Recorder.create(tmp_path, CONFIG, SILOS, FACTS, force=True).close()
    record_rounds(Recorder.resume(tmp_path, CONFIG)[0], [1])
    (tmp_path / "checkpoint" / "server.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="server.safetensors is damaged.* no older checkpoint: --force runs it anew"):
        Recorder.resume(tmp_path, CONFIG)


def test_interrupted_leaves_a_readable_run_that_resumes(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    assert recorder.interrupted() is None and not (tmp_path / "summary.json").exists()
    record_rounds(recorder, [1, 2])
    add_round(recorder, 3)
    recorder.interrupted()
    run = read(tmp_path)
    assert run.summary is not None and list(run.summary) == SUMMARY_KEYS
    assert (run.summary["rounds"], run.summary["best_on_test_round"], run.summary["delivered_round"]) == (3, 2, 3)
    assert list(run.weights) == [1, 2, 3] and (tmp_path / "weights.npz").exists()
    recorder, saved = Recorder.resume(tmp_path, CONFIG)
    assert saved is not None and saved.progress.round == 2 and read(tmp_path).summary is None
    record_rounds(recorder, [3, 4])
    recorder.finish(models())
    assert read(tmp_path).results["rounds"] == 4


def test_a_run_that_was_stopped_after_its_last_round_gets_its_models(tmp_path: Path) -> None:
    """Also where the weights of its rounds are left in the archive alone."""
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    record_rounds(recorder, [1, 2, 3, 4])
    recorder.interrupted()
    (tmp_path / "weights.part").unlink()
    recorder, _ = Recorder.resume(tmp_path, CONFIG)
    assert not recorder.finished
    recorder.finish(models())
    assert read(tmp_path).models.keys() == set(SILOS) and list(read(tmp_path).weights) == [1, 2, 3, 4]


def test_results_without_a_checkpoint_are_not_forgotten(tmp_path: Path) -> None:
    whole(tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")
    before = contents(tmp_path)
    recorder, saved = Recorder.resume(tmp_path, CONFIG)
    assert saved is None and recorder.finished and len(recorder.lines) == 4
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
    Recorder.create(path, CONFIG, SILOS, FACTS, manifest=MANIFEST).close()
    assert record.begun(path)
    for file in path.iterdir():
        if file.name not in left:
            file.unlink()
    assert record.holds_run(path) and not record.begun(path) and not record.begun(tmp_path)
    (path / "rounds.jsonl").write_text('{"round": 1}')  # what cannot be read is not therefore worthless
    assert record.begun(path)
