"""What Amity adds to FLARE's heartbeats, and to its answer to a first question: a header. Filters of the cell, which is
FLARE's end of the network in each process, write and read it.

A silo's heartbeat says which service it is. The server's answer says what time it is there, and which services of this
silo it hears of. The same answer is given to whoever asks for the server's challenge, with which every silo begins: for
that nobody has to register, which would take the name from the service that runs. So `check` can ask, too (`hello.py`).

Whoever sends something is known by the certificate of its connection, whatever its letter says. A silo is told of its
own services alone.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.f3.cellnet.defs import CellChannel, CellChannelTopic, MessageHeaderKey, MessagePropKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.message import Message

from amity.federation.presence import Greeting, beat_of, greeting_of
from amity.hub.presence import Presence
from amity.site.session import Kept

HEADER = "amity"

ANSWERED = (CellChannelTopic.HEART_BEAT, CellChannelTopic.Challenge)


Filter = Callable[[Any, Message], None]

_log = logging.getLogger("amity.greetings")


def harmless(filter: Filter) -> Filter:
    """Return a filter whose faults are logged: FLARE would give an error in place of the heartbeat's answer."""

    @wraps(filter)
    def filtered(self: Any, message: Message) -> None:
        try:
            filter(self, message)
        except Exception:
            _log.exception("a heartbeat's header")

    return filtered


class ServerGreetings:
    """The server's side: hears heartbeats, and greets."""

    def __init__(self) -> None:
        self._presence: Presence | None = None
        self._manager: Any = None

    def handle(self, event_type: str, fl_ctx: FLContext) -> None:
        """Begin when the server is there."""
        if event_type == EventType.SYSTEM_START and self._presence is None:
            server = fl_ctx.get_prop(FLContextKey.SITE_OBJ)
            self._presence, self._manager = Presence(Path(os.environ["AMITY_HUB"])), server.client_manager
            server.cell.core_cell.add_incoming_request_filter("*", "*", self._hear)
            server.cell.core_cell.add_outgoing_reply_filter("*", "*", self._greet)  # "*": FLARE's own stays in force

    @harmless
    def _hear(self, request: Message) -> None:
        """Note which service says that it is there, by a heartbeat or in another way."""
        if _is_about(request, *ANSWERED) and self._presence is not None:
            beat, name = beat_of(request.get_header(HEADER)), request.get_prop(MessagePropKey.COMMON_NAME)
            if beat is not None and isinstance(name, str) and not self._manager.is_client_disabled(name):
                self._presence.heard(name, beat)

    @harmless
    def _greet(self, reply: Message) -> None:
        if _is_about(reply, *ANSWERED) and self._presence is not None:
            name = FQCN.split(str(reply.get_header(MessageHeaderKey.TO_CELL)))[0]  # of the connection, not the letter
            removed = bool(self._manager.is_client_disabled(name))
            greeting = Greeting(time.time(), version("amity"), removed, self._presence.services(name))
            reply.set_header(HEADER, greeting.table())


class SiloGreetings:
    """A silo's side: says which service it is, and hears what the server says."""

    def __init__(self) -> None:
        self._kept: Kept | None = None

    def handle(self, event_type: str, fl_ctx: FLContext) -> None:
        """Begin when the silo is about to register."""
        if event_type == EventType.BEFORE_CLIENT_REGISTER and self._kept is None:
            self._kept = Kept(Path(os.environ["AMITY_SITE"]), version("amity"))
            core = fl_ctx.get_prop(FLContextKey.SITE_OBJ).cell.core_cell
            core.add_outgoing_request_filter("*", "*", self._say)
            core.add_incoming_reply_filter("*", "*", self._hear)

    @harmless
    def _say(self, request: Message) -> None:
        if _is_about(request, CellChannelTopic.HEART_BEAT) and self._kept is not None:
            request.set_header(HEADER, self._kept.beat()._asdict())

    @harmless
    def _hear(self, reply: Message) -> None:
        if _is_about(reply, CellChannelTopic.HEART_BEAT) and self._kept is not None:
            refused = reply.get_header(MessageHeaderKey.RETURN_CODE) not in (None, ReturnCode.OK)
            error = str(reply.get_header(MessageHeaderKey.ERROR) or "it does not say why") if refused else ""
            self._kept.greeted(greeting_of(reply.get_header(HEADER)), error)


def _is_about(message: Message, *topics: str) -> bool:
    channel, topic = (message.get_header(key) for key in (MessageHeaderKey.CHANNEL, MessageHeaderKey.TOPIC))
    return channel == CellChannel.SERVER_MAIN and topic in topics
