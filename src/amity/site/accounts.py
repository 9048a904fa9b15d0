"""The account of all that crosses at a silo: what is not in its audit is not answered, and not sent."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import NamedTuple

from amity.engines.memory import answered
from amity.errors import AmityError
from amity.federation.audit import Audit
from amity.federation.encoding import encode
from amity.federation.messages import Answer, Failed, Message, blame_of, failure
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
        self._heard: Heard | None = None

    def exchange(self, content: bytes) -> bytes:
        """The bytes of the answer to the bytes of a message."""
        self._content, self._heard = content, None
        answer = answered(self, content)
        heard = self._heard or Heard()
        try:
            if self._heard is None:  # it could not even be read
                self._crossed(f"received {heard.message}", content, heard.head)
            self._crossed(f"sent {heard.answer}", answer, heard.head)
        except AmityError as error:
            return encode(Failed(*heard.head, blame_of(error), str(error)))
        return answer

    def safely(self, message: Message) -> Answer:
        """The answer, and a message about it where something goes wrong."""
        head, kind = message[:3], type(message).__name__
        try:
            self._crossed(f"received {kind}", self._content, head)
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

    def _crossed(self, what: str, content: bytes, head: Head) -> None:
        digest = hashlib.sha256(content).hexdigest()
        with writing(self._site):
            self._audit.add(what, run=head[0], round=head[1], bytes=len(content), sha256=digest)
