"""Signals, and streams that are full, closed or gone: a run ends as it should, with all that it has done."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.commands import without_alone

from amity import record
from amity.cli import app as cli
from amity.cli.signals import ONE_EVENT, stopping

LONG_RUN = (
    "run heurfedamp --data synthetic --setting iid --clients 4 --model mlr --rounds 40 --epochs 4 --workers 1 "
    "--no-alone --out a"
)
SHORT_RUN = (
    "run fedamp --data synthetic --setting iid --clients 2 --model mlr --rounds 2 --epochs 1 --workers 1 --out a"
)
# Installed anew: a shell may have started us with a signal ignored, which children inherit.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
for name in ("SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
{}
import amity.cli.app as c
c.main()
"""


def begin(words: str, cwd: Path, before: str = "", **streams: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM.format(before), *without_alone(words.split())]
    return subprocess.Popen(command, cwd=cwd, text=True, **streams)


def rounds_on_disk(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    for _ in range(6000):
        if process.poll() is not None or true():
            return
        time.sleep(0.01)


def call(words: str, monkeypatch: pytest.MonkeyPatch, cwd: Path) -> int:
    monkeypatch.chdir(cwd)
    monkeypatch.setattr(sys, "argv", ["amity", *without_alone(shlex.split(words))])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def found(path: Path) -> list[Any]:
    run = record.read(path)
    models = {silo: {key: value.tolist() for key, value in model.items()} for silo, model in run.models.items()}
    return [[{**line, "seconds": None} for line in run.lines], {**run.results, "seconds": None}, models]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_run_that_is_told_to_end_can_be_read_and_continued(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after Ctrl-C; twice the same signal at once, as `timeout` sends it, is one."""
    number = getattr(signal, name)
    with begin(LONG_RUN, tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: rounds_on_disk(tmp_path / "a" / "rounds.jsonl") >= 2, process)
            process.send_signal(number)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    (last,) = [line for line in err.splitlines() if line.startswith("interrupted")]
    assert last == f"interrupted: a is readable, and this continues it: amity {LONG_RUN} --resume"
    half = record.read(tmp_path / "a")
    assert 2 <= len(half.lines) < 40 and half.summary is not None and half.results["rounds"] == len(half.lines)
    assert call(f"{LONG_RUN} --resume", monkeypatch, tmp_path) == 0
    assert call(LONG_RUN.replace("--out a", "--out b"), monkeypatch, tmp_path) == 0
    assert found(tmp_path / "a") == found(tmp_path / "b")
    capsys.readouterr()


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """Also in the middle of what is done about the first."""
    stuck = "import amity.record as r, time; r.Recorder.interrupted = lambda self: print('saving') or time.sleep(60)"
    with begin(LONG_RUN, tmp_path, stuck, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: rounds_on_disk(tmp_path / "a" / "rounds.jsonl") >= 2, process)
            process.send_signal(signal.SIGTERM)
            time.sleep(ONE_EVENT + 0.2)
            process.send_signal(signal.SIGHUP)
            process.wait(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGHUP
    assert record.read(tmp_path / "a").lines


def test_what_was_ignored_stays_ignored() -> None:
    """As `nohup` asks for."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def unhandled() -> Iterator[None]:
    """SIGTERM as a new process has it: a Ray cluster of other tests may listen to it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("unhandled")
def test_handlers_are_there_for_the_command_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stopping() as stop:
        handler: object = signal.getsignal(signal.SIGTERM)
        assert handler is stop
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        assert stop.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_in_another_thread_no_handler_can_be_set_and_none_is_needed() -> None:
    codes = []

    def within() -> None:
        with stopping() as stop:
            codes.append(stop.code)

    thread = threading.Thread(target=within)
    thread.start()
    thread.join()
    assert codes == [130]


# Streams --------------------------------------------------------------------------------------------------------


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = shlex.join([sys.executable, "-m", "amity"])
    return subprocess.run(f"{program} {command}", shell=True, cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
@pytest.mark.parametrize(
    ("streams", "code", "said"),
    [
        ("2>/dev/full", 0, ""),
        ("2>&-", 0, ""),
        (">&-", 2, "standard output is closed"),
        pytest.param("<&- >&- 2>&-", 2, "", marks=pytest.mark.slow),  # each of them alone is above
        (">/dev/full 2>/dev/full", 2, ""),
    ],
)
def test_a_run_is_not_lost_with_what_it_prints(streams: str, code: int, said: str, tmp_path: Path) -> None:
    done = shell(f"{SHORT_RUN} {streams}", tmp_path)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("amity: ")] == (
        [next(line for line in done.stderr.splitlines() if said in line)] if said else []
    )
    assert ("report: a/report.html" in done.stdout) == (code == 0)
    run = record.read(tmp_path / "a")
    assert run.summary is not None and run.has_models and (tmp_path / "a" / "report.html").exists()
    names = {file.name for file in (tmp_path / "a").iterdir()}
    assert names >= {"config.toml", "facts.json", "rounds.jsonl", "checksums.json"}


@pytest.mark.parametrize("words", ["--version", "run fedamq"])
def test_closed_streams_are_one_line_or_none(words: str, tmp_path: Path) -> None:
    done = shell(f"{words} >&-", tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("amity: ") and done.stderr.count("\n") == 1
    assert ("standard output is closed" in done.stderr) == (words != "run fedamq")
    done = shell(f"{words} 2>&-", tmp_path)
    assert done.returncode == (2 if words == "run fedamq" else 0)
    assert bool(done.stdout) == (words != "run fedamq") and done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
@pytest.mark.parametrize("words", [["methods"], ["--version"]])
def test_output_that_finds_no_room_is_told_in_one_line(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "amity", *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and done.stderr.startswith("amity: there is no room") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["methods", "--json"], ["--version"]])
def test_a_reader_that_has_left_gets_no_traceback(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:
        done = subprocess.run([sys.executable, "-m", "amity", *words], stdout=pipe, stderr=subprocess.PIPE)
    assert done.returncode == 1 and done.stderr == b""
