"""A silo's service and its session with the server: what it says, when it asks by another way or registers anew."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from amity.engines.flare.asking import AFTER, AGAIN, Asking
from amity.engines.flare.kept_running import KeptRunning
from amity.engines.flare.serve_site import SessionWatch
from amity.federation.presence import Greeting, Service
from amity.site.session import FILE, NAMELESS, REMOVED, TWICE, Session

ONE, TWO = "1" * 32, "2" * 32


class House:
    """A service whose network process only sleeps, and whose session is what a test says."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self.said: list[str] = []
        self.ahead = 0.0
        command = [sys.executable, "-c", "import time; time.sleep(99)"]
        self.network = KeptRunning(command, os.environ, site / "log", self.said.append)
        self.network.look()
        self.asking = Asking(site, os.environ, now=lambda: time.time() + self.ahead)
        self.watch = SessionWatch(site, self.network, self.asking, self.said.append)

    def look(self, words: str = "", pid: int | None = None) -> None:
        session = Session(ONE, pid or self.network.pid or 0, time.time(), time.time(), 0.0, "0.1.0", words)
        (self.site / FILE).write_text(json.dumps(session._asdict()))
        self.watch.look()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.asking.end()
    house.network.end()


def test_what_is_wrong_is_said_once_and_so_is_its_end(house: House) -> None:
    for words in ("", REMOVED, REMOVED, TWICE, ""):
        house.look(words)
    assert house.said == [REMOVED, TWICE, "the server answers again, and all is well"]
    house.look(TWICE, pid=1)
    assert len(house.said) == 3, "that is of a process before this one"


def test_a_service_without_its_name_registers_anew(house: House) -> None:
    before = house.network.pid
    house.look(NAMELESS)
    assert house.network.pid is None and house.said == [NAMELESS]
    house.network.look()
    assert house.network.pid not in (None, before)


def test_a_service_without_answers_asks_by_another_way(house: House) -> None:
    greeting = Greeting(100.0, "0.1.0", False, (Service(ONE, 0, 99, 0, ""), Service(TWO, 50, 99, 0, "")))
    code = f"print({json.dumps(greeting.table())!r})"
    house.asking._command = [sys.executable, "-c", code]  # the server's answer, as the real process prints it
    house.look()
    assert house.asking._process is None, "its heartbeats are answered"
    house.ahead = AFTER + 1
    asked_until(house, TWICE)
    house.ahead = 0.0
    house.look()
    assert house.said[-1] == "the server answers again, and all is well"


def test_a_server_that_does_not_answer_is_asked_ever_more_seldom(house: House) -> None:
    house.asking._command = [sys.executable, "-c", ""]
    house.ahead = AFTER + 1
    times = []
    for _ in range(3):
        house.look()
        process = house.asking._process
        assert process is not None
        process.wait(30)
        house.look()
        times.append(house.asking._next - time.time() - house.ahead)
        house.ahead += times[-1] + 1
    assert [round(one / AGAIN) for one in times] == [2, 4, 8] and house.said == []


def asked_until(house: House, words: str) -> None:
    until = time.monotonic() + 30
    while words not in house.said:
        assert time.monotonic() < until, house.said
        house.look()
        time.sleep(0.05)
