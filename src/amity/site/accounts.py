"""The account of all that crosses at a silo: what is not in its audit is not answered, and not sent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from amity.engines.memory import answered
from amity.errors import AmityError
from amity.federation.audit import Audit
from amity.federation.encoding import encode, title
from amity.federation.held import LastTensors, reference
from amity.federation.messages import Answer, Failed, Forgotten, Message, blame_of, failure
from amity.federation.transport import sha256
from amity.site.config import Site
from amity.site.keeping import writing

AUDIT = "audit.jsonl"

_log = logging.getLogger("amity.site")

Head = tuple[str, int, int]
"""The run, the round and the silo that a message names."""


class Heard(NamedTuple):
    """A message that was answered, as the audit names it."""

    head: Head = ("", 0, 0)
    message: str = "what is no message"
    answer: str = "Failed"


class Accounts:
    """Takes the bytes of messages to whoever answers them, and brings the bytes of the answers, with an account."""

    def __init__(self, site: Site, answer: Callable[[Message], Answer]) -> None:
        self._site = site
        self._answer = answer
        self._audit = Audit(site.state / AUDIT, site.name)
        self._content = b""  # of the message that is being answered
        self._digest = ""  # of it
        self._held = LastTensors()
        self._heard: Heard | None = None

    def exchange(self, content: bytes) -> bytes:
        """The bytes of the answer to the bytes of a message."""
        self._content, self._digest, self._heard = content, sha256(content), None
        answer = answered(self, content, self._held.find)
        heard = self._heard or _unread(content, answer)
        try:
            if self._heard is None:  # it could not even be read, or refers to what is not held here
                self._received(heard.message, heard.head)
            self._crossed(f"sent {heard.answer}", len(answer), sha256(answer), heard.head)
        except AmityError as error:
            return encode(self._without_paths(Failed(*heard.head, blame_of(error), str(error))))
        finally:
            self._content = b""
        return answer

    def safely(self, message: Message) -> Answer:
        """The answer, and a message about it where something goes wrong."""
        head, kind = message[:3], type(message).__name__
        try:
            self._received(kind, head)
            self._held.hold(self._digest, message)
            answer = self._answer(message)
        except Exception as error:
            _log.warning("%s of run %s, round %d", kind, *message[:2], exc_info=error)
            answer = self._without_paths(failure(message, error))
        self._heard = Heard(head, kind, type(answer).__name__)
        return answer

    def decided(self, what: str, run: str, words: str, contract: str = "") -> None:
        """Add what was decided about a contract, and why."""
        with writing(self._site):
            self._audit.add(what, run=run, sha256=contract, words=words)

    def _without_paths(self, failed: Failed) -> Failed:
        """The same without the names of the silo's own folders: they help nobody elsewhere, and its log has them."""
        words = failed.words.replace(str(self._site.state), "STATE").replace(str(self._site.folder), "SITE")
        return failed._replace(words=words)

    def _received(self, kind: str, head: Head) -> None:
        words = reference(title(self._content).letter)
        self._crossed(f"received {kind}", len(self._content), self._digest, head, words)

    def _crossed(self, what: str, size: int, digest: str, head: Head, words: str = "") -> None:
        with writing(self._site):
            self._audit.add(what, run=head[0], round=head[1], bytes=size, sha256=digest, words=words)


def _unread(content: bytes, answer: bytes) -> Heard:
    """A message that could not be read. One that refers to what is not held here is known by its title."""
    found = title(content)
    if title(answer).kind != Forgotten.__name__:
        return Heard()
    return Heard((found.run, found.round, 0), found.kind, Forgotten.__name__)
