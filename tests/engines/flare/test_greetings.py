"""What is added to FLARE's heartbeats and challenges: for whom it is, and what is left alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.f3.cellnet.defs import CellChannel, CellChannelTopic, MessageHeaderKey, MessagePropKey, ReturnCode
from nvflare.fuel.f3.message import Message
from nvflare.private.defs import CellMessageHeaderKeys

from amity.engines.flare.greetings import HEADER, ServerGreetings, SiloGreetings
from amity.federation.presence import beat_of, greeting_of
from amity.hub.presence import read_presence
from amity.site.session import REMOVED, read_session


class Cell:
    """A cell as far as filters go: all that is added to it is for every channel, beside what FLARE has added."""

    def __init__(self) -> None:
        self.core_cell = self
        self.filters: dict[str, Any] = {}

    def _add(self, kind: str, channel: str, topic: str, filter: Any) -> None:
        assert (channel, topic) == ("*", "*"), "a narrower one would take the place of FLARE's own"
        self.filters[kind] = filter

    def add_incoming_request_filter(self, *given: Any) -> None:
        self._add("heard", *given)

    def add_outgoing_reply_filter(self, *given: Any) -> None:
        self._add("greets", *given)

    def add_outgoing_request_filter(self, *given: Any) -> None:
        self._add("says", *given)

    def add_incoming_reply_filter(self, *given: Any) -> None:
        self._add("hears", *given)


class Process:
    """FLARE's object of a site."""

    def __init__(self, removed: str = "") -> None:
        self.cell = Cell()
        self.client_manager = self
        self._removed = removed

    def is_client_disabled(self, name: str) -> bool:
        return name == self._removed


def begun(greetings: ServerGreetings | SiloGreetings, process: Process, event: str) -> dict[str, Any]:
    context = FLContext()
    context.set_prop(FLContextKey.SITE_OBJ, process, private=True, sticky=False)
    greetings.handle(event, context)
    greetings.handle(event, context)
    return process.cell.filters


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("AMITY_HUB", str(tmp_path))
    return begun(ServerGreetings(), Process(removed="west"), EventType.SYSTEM_START)


@pytest.fixture
def silo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("AMITY_SITE", str(tmp_path))
    return begun(SiloGreetings(), Process(), EventType.BEFORE_CLIENT_REGISTER)


def message(
    topic: str = CellChannelTopic.HEART_BEAT, channel: str = CellChannel.SERVER_MAIN, **headers: Any
) -> Message:
    return Message({MessageHeaderKey.CHANNEL: channel, MessageHeaderKey.TOPIC: topic, **headers})


def beat_from(silo: dict[str, Any], name: str) -> Message:
    beat = message(**{CellMessageHeaderKeys.CLIENT_NAME: "whatever it says"})
    assert silo["says"](beat) is None, "what a filter gives back would be taken for the answer"
    return certified(beat, name)


def certified(beat: Message, name: str) -> Message:
    """A message over a connection with this name in its certificate."""
    beat.set_prop(MessagePropKey.COMMON_NAME, name)
    return beat


def greeted(server: dict[str, Any], cell: str, topic: str = CellChannelTopic.Challenge, **headers: Any) -> Message:
    reply = message(topic, **{MessageHeaderKey.TO_CELL: cell, **headers})
    assert server["greets"](reply) is None
    return reply


def test_a_heartbeat_is_heard_and_answered(server: dict[str, Any], silo: dict[str, Any], tmp_path: Path) -> None:
    beat = beat_from(silo, "north")
    assert server["heard"](beat) is None
    (known,) = read_presence(tmp_path)["north"]
    session = read_session(tmp_path)
    assert session is not None and known.mark == session.mark and abs(known.skew) < 1
    silo["hears"](greeted(server, "north", CellChannelTopic.HEART_BEAT))
    session = read_session(tmp_path)
    assert session is not None and session.heard is not None and session.words == "" and abs(session.skew or 0) < 1


def test_nobody_is_told_of_others(server: dict[str, Any], silo: dict[str, Any]) -> None:
    server["heard"](beat_from(silo, "north"))
    for cell in ("north", "north.hello-1", "north.job"):
        greeting = greeting_of(greeted(server, cell).get_header(HEADER))
        assert greeting is not None and len(greeting.services) == 1 and abs(greeting.time - time.time()) < 1
    for cell in ("south", "south.north", "server", "_admin_x"):
        lies = {MessageHeaderKey.DESTINATION: "north", CellMessageHeaderKeys.CLIENT_NAME: "north"}
        greeting = greeting_of(greeted(server, cell, **lies).get_header(HEADER))
        assert greeting is not None and greeting.services == ()


def test_a_silo_that_was_removed_is_told(server: dict[str, Any], silo: dict[str, Any], tmp_path: Path) -> None:
    greeting = greeting_of(greeted(server, "west").get_header(HEADER))
    assert greeting is not None and greeting.removed
    refused = {MessageHeaderKey.RETURN_CODE: ReturnCode.UNAUTHENTICATED, MessageHeaderKey.ERROR: "Client is disabled"}
    silo["hears"](message(**refused))
    session = read_session(tmp_path)
    assert session is not None and session.words == REMOVED


def test_other_messages_are_left_alone(server: dict[str, Any], silo: dict[str, Any], tmp_path: Path) -> None:
    for other in (message("get_task"), message(channel="another"), message(channel=CellChannel.CELLNET)):
        before = dict(other.headers)
        for filter in (*server.values(), *silo.values()):
            assert filter(other) is None
        assert other.headers == before
    assert read_presence(tmp_path) == {}


def test_a_heartbeat_of_another_version_is_no_trouble(server: dict[str, Any], tmp_path: Path) -> None:
    odd: list[Any] = [None, "x", {"mark": 1}, {"mark": "1" * 32, "time": float("nan"), "amity": ""}]
    for said in odd:
        assert beat_of(said) is None
        server["heard"](certified(message(**{HEADER: said}), "north"))
    assert read_presence(tmp_path) == {}


def test_a_service_is_also_heard_by_a_challenge_but_nobody_without_a_certificate(
    server: dict[str, Any], silo: dict[str, Any], tmp_path: Path
) -> None:
    beat = beat_from(silo, "north").get_header(HEADER)
    claimed = {CellMessageHeaderKeys.CLIENT_NAME: "north", MessageHeaderKey.ORIGIN: "north", HEADER: beat}
    server["heard"](message(**claimed))
    server["heard"](certified(message(**claimed), "west"))  # it was removed
    assert read_presence(tmp_path) == {}
    server["heard"](certified(message(CellChannelTopic.Challenge, **claimed), "south"))
    assert set(read_presence(tmp_path)) == {"south"}
