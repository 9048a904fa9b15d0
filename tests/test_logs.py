"""Logs of the package: silent unless somebody listens, one line for each thing that happened."""

from __future__ import annotations

import logging
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from amity import logs
from amity.errors import InputError
from amity.federation.events import Event, Stream

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d (DEBUG|INFO|WARNING|ERROR) amity(\.\w+)*: .+")


@pytest.fixture(autouse=True)
def silent_afterwards() -> Iterator[None]:
    yield
    logs.stop()


def test_the_package_says_nothing_by_itself() -> None:
    program = (
        "import logging, amity.logs as logs; from amity.federation.events import Event\n"
        "logging.getLogger('amity.somewhere').error('unheard'); logs.log_event(Event('lost', words='unheard'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_program_listens_as_with_any_library(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="amity"):
        logs.log_event(Event("recorded", 3, words="mean 91.20 worst 80.00"))
        logs.log_event(Event("trained", 3, "silo-01", done=1, total=2))  # for debugging only
    assert caplog.record_tuples == [("amity.events", logging.INFO, "round 3, recorded: mean 91.20 worst 80.00")]


@pytest.mark.parametrize(
    ("event", "level", "text"),
    [
        (Event("ended"), "INFO", "ended"),
        (Event("round", 1, words="5 silos"), "INFO", "round 1, round: 5 silos"),
        (
            Event("trained", 2, "north", bytes=840, seconds=0.12, done=1, total=5),
            "DEBUG",
            "round 2, trained, north, 1 of 5, 840 bytes, 0.120 s",
        ),
        (Event("measured", 2, "north", done=0, total=5), "DEBUG", "round 2, measured, north, 0 of 5"),
        (Event("refused", 2, "north", words="not finite"), "WARNING", "round 2, refused, north: not finite"),
        (Event("lost", 7, words="a machine is gone"), "WARNING", "round 7, lost: a machine is gone"),
        (Event("note", words="two\nlines"), "INFO", "note: two\\nlines"),
        (Event("left", 4, "a\rb\u2028c"), "INFO", "round 4, left, a\\nb\\nc"),
        (Event("aside", 4, words="\x1b[2Jgone"), "WARNING", "round 4, aside: \\x1b[2Jgone"),
    ],
)
def test_an_event_is_one_line(event: Event, level: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.start("debug")
    capsys.readouterr()
    Stream(logs.log_event)(event)
    (line,) = capsys.readouterr().err.splitlines()
    assert LINE.fullmatch(line) and line.endswith(f" {level} amity.events: {text}")


def test_the_first_line_tells_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    logs.start()
    logs.log_torch()
    first, second = capsys.readouterr().err.splitlines()
    assert LINE.fullmatch(first) and "amity 0." in first and f"Python {sys.version.split()[0]}" in first
    assert LINE.fullmatch(second) and f"torch {sys.modules['torch'].__version__}" in second


def test_torch_that_is_not_loaded_is_not_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    logs.start()
    logs.log_torch()
    assert "torch" not in capsys.readouterr().err


def test_levels_leave_out_what_is_below_them(capsys: pytest.CaptureFixture[str]) -> None:
    logs.start(" Warning ")
    for level in logs.LEVELS:
        logging.getLogger("amity.somewhere").log(logging.getLevelNamesMapping()[level.upper()], level)
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["WARNING", "ERROR"]


def test_to_start_again_takes_the_place_of_what_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.start("debug")
    logs.start("error", str(tmp_path / "log"))
    capsys.readouterr()
    logging.getLogger("amity").error("heard once")
    logging.getLogger("amity").info("not heard")
    logs.stop()
    logging.getLogger("amity").error("not heard")
    assert capsys.readouterr().err == ""
    (line,) = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert line.endswith("ERROR amity: heard once")
    assert [type(one) for one in logging.getLogger("amity").handlers] == [logging.NullHandler]


@pytest.mark.skipif(sys.platform == "win32", reason="other rights there")
def test_a_new_log_is_its_owners_alone_and_an_old_one_goes_on(tmp_path: Path) -> None:
    for _ in range(2):
        logs.start(file=str(tmp_path / "log"))
        logs.stop()
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
    assert len((tmp_path / "log").read_text().splitlines()) == 2


@pytest.mark.parametrize("level", ["loud", "", "10", "critical"])
def test_a_level_that_does_not_exist_is_refused(level: str) -> None:
    with pytest.raises(InputError, match="--log-level needs one of debug, info, warning, error, got"):
        logs.start(level)


@pytest.mark.parametrize("file", [".", "nowhere/log", "", "a\0b", "~nobody-has-this-name/log"])
def test_a_file_that_cannot_be_written_is_refused(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="cannot write the log file"):
        logs.start(file=file)
    assert [type(one) for one in logging.getLogger("amity").handlers] == [logging.NullHandler]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_log_that_finds_no_room_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    logs.start(file="/dev/full")
    logging.getLogger("amity").error("lost")
    logs.stop()
    said = capsys.readouterr().err
    assert said.startswith("amity: the log is not complete: ") and said.count("\n") == 1
