"""Crashes, signals and full disks at every step: what was recorded before stays, and the run goes on from there."""

from __future__ import annotations

import errno
import os
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
    add_round,
    assert_same,
    contents,
    models,
    record_rounds,
    saved_at,
    whole,
)
from safetensors import SafetensorError

from amity import record
from amity.errors import DiskFull, InputError
from amity.record import Line, Recorder, checkpoint, outputs, read, writer
from amity.record.files import written_to


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
    counted("save_file", outputs)
    counted("sync", checkpoint)
    counted("sync", writer)
    counted("rename", Path)
    counted("mkdir", Path)
    counted("write_bytes", Path)
    counted("rmtree", shutil)
    counted("unlink", Path)
    counted("replace", os)
    return count


@pytest.mark.parametrize("first", [False, True])
def test_a_crash_at_any_step_leaves_the_old_checkpoint_or_the_new(tmp_path: Path, first: bool) -> None:
    before = 0 if first else 1
    outcomes = []
    for call in range(1, 100):
        path = tmp_path / str(call)
        recorder = Recorder.create(path, CONFIG, SILOS, FACTS)
        record_rounds(recorder, range(1, before + 1))
        add_round(recorder, before + 1)
        with pytest.MonkeyPatch.context() as patch:
            count = crash_at(patch, call)
            try:
                recorder.checkpoint(saved_at(before + 1))
            except Crash:
                pass
        recorder.close()  # as the end of its process does
        _, saved = Recorder.resume(path, CONFIG)
        outcomes.append(saved.progress.round if saved else 0)
        if saved:
            assert_same(saved, saved_at(saved.progress.round))
        assert not (path / "checkpoint.new").exists()
        if count[0] < call:
            break
    assert outcomes == sorted(outcomes) and set(outcomes) == {before, before + 1}


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_a_crash_at_any_step_of_resuming_and_finishing_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """An interrupted run, with a summary and all, is resumed for more rounds, stopped again and finished."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # the disk takes its time, and nobody pulls the plug here
    begun = tmp_path / "begun"
    recorder = Recorder.create(begun, {**CONFIG, "rounds": 3}, SILOS, FACTS, manifest=MANIFEST)
    record_rounds(recorder, [1, 2])
    recorder.interrupted()
    whole(tmp_path / "whole")
    expected = read(tmp_path / "whole")
    for call in range(1, 400, every):
        path = tmp_path / str(call)
        shutil.copytree(begun, path)
        with pytest.MonkeyPatch.context() as patch:
            count = crash_at(patch, call)
            resumed: Recorder | None = None
            try:
                resumed, _ = Recorder.resume(path, CONFIG)
                record_rounds(resumed, [3, 4])
                resumed.interrupted()
                resumed.finish(models())
            except Crash:
                pass
        if resumed is not None:
            resumed.close()  # as the end of its process does
        half = read(path)
        assert half.results["rounds"] == len(half.lines) >= 2 and half.predictions is not None
        again, saved = Recorder.resume(path, CONFIG)
        assert saved is not None
        record_rounds(again, range(saved.progress.round + 1, 5))
        again.finish(models())
        run = read(path)
        assert run.lines == expected.lines and run.results["per_client"] == expected.results["per_client"]
        assert all(np.array_equal(run.weights[r], expected.weights[r], equal_nan=True) for r in range(1, 5))
        assert run.predictions.keys() == expected.predictions.keys() and run.has_models
        assert run.events == expected.events
        shutil.rmtree(path)
        if count[0] < call:
            break
    assert 40 < call < 390


def test_leftovers_of_a_crash_do_not_hinder_the_next_checkpoint(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    record_rounds(recorder, [1])
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "checkpoint.old")
    (tmp_path / "checkpoint.new").mkdir()
    (tmp_path / "checkpoint.new" / "server.safetensors").write_bytes(b"half")
    record_rounds(recorder, [2])
    assert sorted(file.name for file in tmp_path.glob("checkpoint*")) == ["checkpoint", "checkpoint.old"]
    recorder.close()
    _, saved = Recorder.resume(tmp_path, CONFIG)
    assert saved is not None and saved.progress.round == 2


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    whole(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(RuntimeError), record.replacing(tmp_path / "summary.json") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert contents(tmp_path) == before


class Cut(list[Line]):
    """Rounds of which the next is on disk when a signal comes, and no sooner known."""

    def append(self, line: Line) -> None:
        raise KeyboardInterrupt


def test_a_signal_between_a_line_on_disk_and_its_round_leaves_a_readable_run(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    record_rounds(recorder, [1, 2])
    recorder.lines = Cut(recorder.lines)
    with pytest.raises(KeyboardInterrupt):
        add_round(recorder, 3)
    recorder.interrupted()
    run = read(tmp_path)
    assert len(run.lines) == run.results["rounds"] == 2 and list(run.weights) == [1, 2]
    recorder, saved = Recorder.resume(tmp_path, CONFIG)
    assert saved is not None and saved.progress.round == 2
    record_rounds(recorder, [3, 4])
    recorder.finish(models())
    assert len(read(tmp_path).lines) == 4


@pytest.mark.parametrize("error", [SafetensorError("No space left on device"), OSError(28, "No space left on device")])
def test_a_full_disk_is_one_line_and_costs_no_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    record_rounds(recorder, [1])

    def full(*_: object) -> None:
        raise error

    add_round(recorder, 2)
    with monkeypatch.context() as patch, pytest.raises(DiskFull) as refused:
        patch.setattr(checkpoint, "save_file", full)
        recorder.checkpoint(saved_at(2))
    said = f"cannot write to {tmp_path} (No space left on device): make room there, then --resume continues it"
    assert str(refused.value) == said
    with monkeypatch.context() as patch, pytest.raises(DiskFull, match="No space left on device"):
        patch.setattr(outputs, "save_file", full)
        recorder.finish(models())
    recorder.close()
    assert Recorder.resume(tmp_path, CONFIG)[1] is not None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DiskFull),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), DiskFull),
        (
            SafetensorError(f"Error while serializing: I/O error: Disk quota exceeded (os error {errno.EDQUOT})"),
            DiskFull,
        ),
        (PermissionError(errno.EACCES, "Permission denied"), InputError),
        (SafetensorError("Error while serializing: I/O error: Permission denied (os error 13)"), InputError),
    ],
)
def test_want_of_room_is_told_from_other_trouble(error: Exception, kind: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(kind, match="cannot write to .* make room there, then --resume continues it") as refused:
        with written_to(tmp_path):
            raise error
    assert type(refused.value) is kind
