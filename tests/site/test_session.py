"""What a silo's service knows of its session with the server, and says about it in a line."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from amity.federation.presence import Greeting, Service
from amity.site.session import FILE, NAMELESS, REMOVED, SILENCE, TWICE, Kept, read_session

ONE, TWO = "1" * 32, "2" * 32
ALONE = (Service(ONE, 0.0, 100.0, 0.0, "0.1.0"),)
BOTH = (*ALONE, Service(TWO, 50.0, 100.0, 0.0, "0.1.0"))


def greeting(*services: Service, removed: bool = False, ahead: float = 0.0) -> Greeting:
    return Greeting(time.time() + ahead, "0.1.7", removed, services)


def test_a_new_service_has_a_mark_of_its_own(tmp_path: Path) -> None:
    first, second = Kept(tmp_path, "0.1.0"), Kept(tmp_path, "0.1.0")
    assert first.session.mark != second.session.mark and second.beat().mark == second.session.mark
    assert read_session(tmp_path) == second.session and second.session.pid == os.getpid()
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_what_the_server_says_is_kept(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "0.1.0")
    kept.greeted(greeting(*ALONE, ahead=30.0), "")
    session = read_session(tmp_path)
    assert session is not None and session.server == "0.1.7" and session.words == ""
    assert session.skew == pytest.approx(30.0, abs=1.0)


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        (greeting(*BOTH), "", TWICE),
        (greeting(removed=True), "", REMOVED),
        (None, "Client 'north' is disabled", REMOVED),
        (greeting(*ALONE), "Client ID already registered as a client: north", NAMELESS),
        (greeting(*BOTH), "Client ID already registered as a client: north", TWICE),
        (None, "not in the mood", "the server refuses it (not in the mood)"),
        (None, "", ""),
        (greeting(*ALONE), "", ""),
    ],
)
def test_trouble_is_one_line(said: Greeting | None, error: str, words: str, tmp_path: Path) -> None:
    kept = Kept(tmp_path, "0.1.0")
    kept.greeted(said, error)
    session = read_session(tmp_path)
    assert session is not None and session.trouble(time.time()) == words


def test_a_server_that_is_silent_for_a_minute_is_told(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "0.1.0")
    assert kept.session.trouble(time.time() + 999) == "", "it was never heard of, and connecting takes its time"
    kept.greeted(greeting(), "")
    assert kept.session.trouble(time.time() + SILENCE - 5) == ""
    assert kept.session.trouble(time.time() + SILENCE + 5).startswith("the server has not answered since ")


def test_a_full_disk_keeps_no_heartbeat_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path, "0.1.0")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("amity.site.session.replace", full)
    kept.greeted(greeting(*BOTH), "")
    assert kept.session.words == TWICE


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"mark": "x"}'])
def test_a_file_that_is_none(tmp_path: Path, content: str) -> None:
    assert read_session(tmp_path) is None
    (tmp_path / FILE).write_text(content)
    assert read_session(tmp_path) is None
