"""Disks that are full, read-only or gone, and clocks that are set back: a line, and `--resume` mends it."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli.commands import TINY, Amity, lines, models, summary, tree, worked
from listening import recorded

from amity import Run, record, run
from amity.errors import AmityError, DiskFull
from amity.record import checkpoint, files
from amity.watch.run_folder import RunFolder

WORDS = ["run", "fedamp", *TINY, "--rounds", "3"]


@contextmanager
def no_file_longer_than(most: int) -> Iterator[None]:
    """A limit on the size of files stands for a disk that is full at some time: what is small still fits."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def told(said: str) -> list[str]:
    """The lines about what is wrong."""
    assert "Traceback" not in said
    return [line for line in said.splitlines() if line.startswith("amity: ")]


@pytest.mark.parametrize("most", [0, 2_000, 4_000, 9_000, 40_000])
def test_a_run_that_finds_no_room_says_so_and_goes_on_where_it_was(amity: Amity, tmp_path: Path, most: int) -> None:
    with no_file_longer_than(most):
        said = amity(*WORDS, "--out", "full")
        assert said.code == 2
        (line,) = told(said.err)
        assert "cannot write" in line and "File too large" in line
        before = tree(tmp_path)
        assert not [name for name in before if name.endswith(".tmp") or "checkpoint.new" in name and not before[name]]
        if (tmp_path / "full").exists():  # resumed on the same disk it is refused again, and loses nothing
            done = len(record.read(tmp_path / "full").lines)
            again = amity(*WORDS, "--out", "full", "--resume")
            assert again.code == 2 and len(told(again.err)) == 1
            assert len(record.read(tmp_path / "full").lines) >= done
    worked(amity(*WORDS, "--out", "full", "--resume"))
    worked(amity(*WORDS, "--out", "whole"))
    assert summary(tmp_path / "full") == summary(tmp_path / "whole")
    assert models(tmp_path / "full") == models(tmp_path / "whole")


def test_a_directory_that_is_gone_is_said_and_no_part_of_it_is_made_again(tmp_path: Path) -> None:
    asked = Run("fedamp", data="synthetic", setting="iid", clients=3, model="mlr", rounds=3, epochs=1, workers=1)
    place = tmp_path / "run"
    with pytest.raises(AmityError, match=r"cannot write to .*run \(No such file or directory\)"):
        run(asked, out=place, listen=recorded(lambda line: shutil.rmtree(place) if line["round"] == 2 else None))
    assert not list(tmp_path.iterdir())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "amity", str(place)]
    try:
        done = subprocess.run(command, capture_output=True)
    except OSError:
        pytest.skip("nothing can be mounted here")
    if done.returncode:
        pytest.skip("nothing may be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_is_read_only_or_full_by_others(amity: Amity, small_disk: Path, tmp_path: Path) -> None:
    worked(amity(*WORDS, "--out", "disk/run"))
    before = tree(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for words in (
        ["--out", "disk/new"],
        ["--out", "disk/run", "--resume", "--rounds", "5"],
        ["--out", "disk/run", "--force"],
    ):
        said = amity(*WORDS, *words)
        assert said.code == 2
        (line,) = told(said.err)
        assert "Read-only file system" in line
    worked(amity("report", "disk/run", "--out", "elsewhere.html"))
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert tree(small_disk) == before
    with (small_disk / "others").open("wb") as file, pytest.raises(OSError):
        for _ in range(100):
            os.write(file.fileno(), bytes(65536))
    said = amity(*WORDS, "--out", "disk/run", "--resume", "--rounds", "5")
    assert said.code == 2 and "No space left" in told(said.err)[0]
    (small_disk / "others").unlink()
    worked(amity(*WORDS, "--out", "disk/run", "--resume", "--rounds", "5"))
    assert len(lines(small_disk / "run")) == 5


def test_a_clock_that_is_set_back_changes_nothing(
    amity: Amity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an hour between any two events, while a run goes on, when it is resumed, and when somebody looks."""
    worked(amity(*WORDS, "--out", "whole"))
    now = [time.time()]

    def back() -> float:
        now[0] -= 3600.0
        return now[0]

    def stop(line: dict[str, int]) -> None:
        if line["round"] == 2:
            raise KeyboardInterrupt

    asked = Run("fedamp", data="synthetic", setting="iid", clients=3, model="mlr", rounds=3, epochs=1, workers=1)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", back)
        with pytest.raises(KeyboardInterrupt):
            run(asked, out=tmp_path / "back", listen=recorded(stop))
        worked(amity(*WORDS, "--out", "back", "--resume"))
        worked(amity("report", "back", "--out", "back.html"))
        (look,) = RunFolder(tmp_path / "back", "back").look(now[0])
        assert look.live["phase"] == "ended"
    assert summary(tmp_path / "back") == summary(tmp_path / "whole")
    assert models(tmp_path / "back") == models(tmp_path / "whole")
    times = [event.time for event in record.read(tmp_path / "back").events]
    assert times == sorted(times, reverse=True) and len(set(times)) > 5


def test_what_is_written_aside_is_gone_when_it_cannot_be_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "save_file", lambda *_: None)
    with no_file_longer_than(10), pytest.raises(DiskFull), files.written_to(tmp_path):
        files.replace(tmp_path / "summary.json", bytes(100))
    assert not list(tmp_path.iterdir())
