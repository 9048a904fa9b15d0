"""Directories that a run may be written to, and those that hold none that can be read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record.rounds_by_hand import (
    CONFIG,
    FACTS,
    SILOS,
    contents,
    models,
    record_rounds,
    whole,
)

from amity.errors import DamagedFile, DiskFull, InputError
from amity.federation import safe_files
from amity.record import Recorder, file_names, read
from amity.record.files import replace


def test_create_refuses_a_directory_with_a_run_and_leaves_it(tmp_path: Path) -> None:
    whole(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="already holds a run"):
        Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("mark", ["config.toml", "rounds.jsonl", "events.jsonl", "summary.json", "weights.npz"])
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
    Recorder.create(tmp_path, CONFIG, ["other"], {**FACTS, "groups": None}, force=True)
    fresh = ["config.toml", "facts.json", "rounds.jsonl", "weights.part", "checksums.json"]
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
    with pytest.raises(DiskFull, match="No space left"):
        Recorder.create(tmp_path / "new" / "deep", CONFIG, SILOS, FACTS)
    assert list(contents(tmp_path)) == ["file"] and not (tmp_path / "new").exists()


def test_create_refuses_silos_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'a' more than once"):
        Recorder.create(tmp_path / "run", CONFIG, ["a", "b", "a"], FACTS)
    assert not (tmp_path / "run").exists()


def test_read_refuses_what_is_not_a_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="holds no run"):
            read(path)


@pytest.mark.parametrize(
    "file", ["config.toml", "facts.json", "rounds.jsonl", "events.jsonl", "summary.json", "weights.npz"]
)
def test_read_refuses_a_corrupt_run_in_one_line(tmp_path: Path, file: str) -> None:
    whole(tmp_path)
    (tmp_path / file).write_text("{nonsense\n{}")
    with pytest.raises(DamagedFile) as refusal:
        assert read(tmp_path).weights and read(tmp_path).events
    assert "\n" not in str(refusal.value) and str(tmp_path) in str(refusal.value)


@pytest.mark.parametrize("name", ["summary.json", "manifest.json", "weights.npz"])
def test_a_file_that_says_nothing_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    whole(tmp_path)
    (tmp_path / name).write_bytes(b"" if name == "weights.npz" else b"{}")
    with pytest.raises(DamagedFile, match=rf"{name} (is damaged|cannot be read)"):
        run = read(tmp_path)
        assert run.results and run.weights and run.manifest


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


HOLDER = """
import sys
from amity.record import Recorder
from record.rounds_by_hand import CONFIG, FACTS, SILOS
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
        cwd=Path(__file__).parents[1],
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


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is locked there")
def test_whoever_fails_to_resume_a_run_lets_go_of_it_at_once(tmp_path: Path) -> None:
    """Also while somebody still has the error in hand, and with it all that was under way."""
    path = tmp_path / "run"
    Recorder.create(path, CONFIG, SILOS, FACTS).close()
    with pytest.raises(InputError) as kept:
        Recorder.resume(path, {**CONFIG, "seed": 12345})
    recorder, _ = Recorder.resume(path, CONFIG)
    recorder.close()
    assert "seed" in str(kept.value)


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders")
def test_a_device_is_written_to_and_no_file_takes_its_place(tmp_path: Path) -> None:
    """Whoever is root and gives /dev/null for a report would be left without one; a pipe stands for it here."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    replace(pipe, b"said")
    assert os.read(reading, 9) == b"said" and pipe.is_fifo()
    os.close(reading)
    with pytest.raises(OSError, match="no place for a file"):
        safe_files.replace(pipe, b"a key")
    assert pipe.is_fifo() and [item.name for item in tmp_path.iterdir()] == ["pipe"]
    assert safe_files.is_device(Path("/dev/stdout")) and not safe_files.is_device(tmp_path / "new")
