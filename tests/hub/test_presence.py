"""Who is heard of at the server: one service of a silo, one that was started again, and two at once."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import MemoryNetwork

from amity.federation.audit import entries
from amity.federation.presence import LATELY, Beat, Greeting, Service, beat_of, greeting_of, twice_since
from amity.hub.accounts import AUDIT
from amity.hub.board import Board, new_status, read_status
from amity.hub.doubles import Doubles
from amity.hub.presence import FILE, MOST, Presence, read_presence, twice
from amity.hub.watching import Watcher

ONE, TWO = "1" * 32, "2" * 32
BEAT = 4.0


class Server:
    """A server's presence, whose clock goes on by heartbeats."""

    def __init__(self, hub: Path) -> None:
        self.hub = hub
        self.now = 1000.0
        self.presence = Presence(hub, now=lambda: self.now)

    def hears(self, *marks: str, times: int = 1, name: str = "north", ahead: float = 0.0) -> None:
        for _ in range(times):
            self.now += BEAT
            for mark in marks:
                self.presence.heard(name, Beat(mark, self.now + ahead, "0.1.0"))

    def twice(self) -> dict[str, float]:
        return twice(self.hub, self.now)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_one_service_is_one(server: Server) -> None:
    server.hears(ONE, times=50, ahead=7.0)
    (service,) = server.presence.services("north")
    assert service == Service(ONE, 1004.0, server.now, 7.0, "0.1.0")
    assert server.twice() == {} and server.presence.services("south") == ()
    known = read_presence(server.hub, server.now)["north"]
    assert [one.mark for one in known] == [ONE]


def test_a_service_that_was_started_again_is_not_two(server: Server) -> None:
    server.hears(ONE, times=5)
    server.hears(ONE, TWO)  # the last words of the first one come late
    server.hears(TWO, times=20)
    assert server.twice() == {}


def test_two_at_once_are_said_within_a_minute_until_one_ends(server: Server) -> None:
    server.hears(ONE, times=5)
    began = server.now + BEAT
    server.hears(ONE, TWO, times=5)
    assert server.twice() == {"north": began} and server.now - began < 60
    server.hears(TWO, times=int(LATELY / BEAT) + 1)
    assert server.twice() == {}


def test_two_at_once_where_the_first_gets_no_answers_any_more(server: Server) -> None:
    """FLARE waits half a minute for an answer that goes astray, before it sends the next heartbeat."""
    server.hears(ONE, times=5)
    began = server.now
    server.hears(TWO, times=8)
    server.hears(ONE, TWO)
    assert server.twice() and server.now - began < 60


def test_silos_do_not_mix(server: Server) -> None:
    for _ in range(9):
        server.hears(ONE, name="north")
        server.hears(TWO, name="south")
    assert server.twice() == {} and set(read_presence(server.hub, server.now)) == {"north", "south"}


def test_what_a_silo_says_of_itself_fills_no_memory(server: Server) -> None:
    server.hears(*(f"{number:032x}" for number in range(100)))
    assert len(server.presence.services("north")) == MOST


def test_who_was_not_heard_of_for_long_is_not_there(server: Server) -> None:
    server.hears(ONE)
    assert read_presence(server.hub, server.now + LATELY) and not read_presence(server.hub, server.now + LATELY + 1)


@pytest.mark.parametrize("content", ["", "[]", '{"north": 1}', '{"north": [{"mark": 1}]}', '{"north": [null]}'])
def test_a_file_that_is_none_is_nobody(tmp_path: Path, content: str) -> None:
    assert read_presence(tmp_path) == {}
    (tmp_path / FILE).write_text(content)
    assert read_presence(tmp_path) == {}


def test_two_at_once_are_told_once_and_in_the_audit(tmp_path: Path) -> None:
    said: list[str] = []
    doubles, presence = Doubles(tmp_path, said.append), presence_of_two(tmp_path)
    doubles.look()
    doubles.look()
    assert len(said) == 1 and said[0].startswith("silo north: two services run under its name")
    (tmp_path / FILE).write_text(json.dumps({"north": presence["north"][1:]}))
    doubles.look()
    assert said[1] == "silo north: one of its two services is heard of no more"
    assert [(line.what, line.silo) for line in entries(tmp_path / AUDIT)] == [
        ("runs twice", "north"),
        ("runs once again", "north"),
    ]


def presence_of_two(hub: Path) -> dict[str, list[dict[str, object]]]:
    """Two services of north, as a server has heard of them right now."""
    now = time.time()
    services = [Service(ONE, now - 100, now, 0.0, "0.1.0"), Service(TWO, now - 50, now, 0.0, "0.1.0")]
    content = {"north": [one._asdict() for one in services]}
    (hub / FILE).write_text(json.dumps(content))
    return content


def test_the_board_of_a_run_under_way_says_it(tmp_path: Path) -> None:
    presence = presence_of_two(tmp_path)
    board = Board(tmp_path, new_status("trial", ("north", "south"), 3, "wait", 2))
    with Watcher(board, MemoryNetwork({}), ["north", "south"], lambda: twice(tmp_path)):
        silos = wait_for_board(tmp_path)
    assert silos["north"]["twice"] == presence["north"][1]["since"] and silos["south"]["twice"] is None


def wait_for_board(folder: Path) -> dict[str, dict[str, object]]:
    for _ in range(100):
        status = read_status(folder)
        if status is not None and status["silos"]["north"]["twice"] is not None:
            break
        time.sleep(0.1)
    assert status is not None
    return status["silos"]  # type: ignore[return-value]


KEYS = st.sampled_from(["mark", "time", "amity", "removed", "services"])
LEAVES = st.none() | st.booleans() | st.floats() | st.text() | st.just(ONE)


@given(value=st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)))
def test_whatever_comes_in_a_header_is_read_or_is_none(value: object) -> None:
    beat, greeting = beat_of(value), greeting_of(value)
    assert beat is None or len(beat.mark) == 32
    assert greeting is None or isinstance(greeting.removed, bool)


def test_a_greeting_reads_back() -> None:
    greeting = Greeting(5.0, "0.1.0", False, (Service(ONE, 1.0, 2.0, 0.5, "0.1.0"),))
    assert greeting_of(json.loads(json.dumps(greeting.table()))) == greeting
    assert twice_since(greeting.services) is None
