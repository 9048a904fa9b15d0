"""Large letters travel in parts, so that a slow link is never blocked for long: signs of life pass in between, and what
breaks costs one part and not the whole. Nothing of FLARE is needed here.

    server -> silo                                       silo -> server
    Part(letter, from 0) ... Part(letter, from k)        Got(letter, up to here)
    the last Part                                        the work is done now: Part(answer, from 0)
    Fetch(answer, from k) ...                            Part(answer, from k)

A silo's process that was started anew knows no part of before: it says Again, and the letter begins from its first one.
The silo's worker answers what it was asked before from what it has saved.

A silo may be hostile. It cannot fill the server's memory, for there is a most that its answer may have; nor can it keep
a letter under way for ever, for one that is begun too often is given up, and parts are as large as was asked for.

Every part costs a round trip, and a quick link should not pay for many: parts grow as long as they arrive quickly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amity.federation.transport import Letter

LEAST = 4 * 2**20
"""Bytes of a part in the beginning, and on a slow link: it has them in a second or two."""

MOST = 16 * 2**20
"""Bytes of a part at most: FLARE has several copies of what it carries, and a link that becomes slow must not be
blocked for as long as a silo may be silent."""

QUICK, SLOW = 0.5, 3.0
"""Seconds below which parts grow, and above which they shrink."""


AGAINS = 20
"""So often a letter is begun anew before it is given up."""

ANSWER = 1 << 36
"""Bytes that an answer may have, where nothing more is known."""

LONGEST = 500
"""Letters of what a silo says of its trouble, at most."""


class Part(NamedTuple):
    """One part of a letter or of an answer."""

    letter: str  # that it belongs to, or is the answer to
    start: int  # its place in the whole
    total: int  # bytes of the whole
    most: int  # bytes that the first part of the answer may have; 0 in an answer
    content: bytes

    @property
    def last(self) -> bool:
        """Whether nothing comes after it."""
        return self.start + len(self.content) >= self.total


class Fetch(NamedTuple):
    """The question for a further part of an answer."""

    letter: str
    start: int
    most: int  # bytes that it may have


class Got(NamedTuple):
    """Everything up to this place has come."""

    letter: str
    end: int


class Again(NamedTuple):
    """The parts of before are gone: begin anew."""

    letter: str


class Trouble(NamedTuple):
    """The silo's worker gives no answer."""

    words: str


Sent = Part | Fetch
Reply = Part | Got | Again | Trouble


class Pace:
    """The size of parts that suits the link to one silo."""

    def __init__(self) -> None:
        self.size = LEAST

    def took(self, seconds: float) -> None:
        """Note how long a part was on its way."""
        if seconds < QUICK:
            self.size = min(4 * self.size, MOST)
        elif seconds > SLOW:
            self.broke()

    def broke(self) -> None:
        """Note that something did not arrive."""
        self.size = LEAST


class Exchange:
    """The server's end: a letter that is sent part by part, and an answer that is fetched part by part.

    The letter is looked up when it is sent, and is not kept while the silo works: all of them together are large.
    """

    def __init__(
        self, letter: str, look_up: Callable[[], Letter], pace: Pace | None = None, most: int = ANSWER
    ) -> None:
        """`most`: bytes that the answer may have."""
        self._letter = letter
        self._most = most
        self._asked = 0  # bytes of its answer that the silo was asked for last
        self._begun = 0  # how often
        self._look_up = look_up
        self._content: Letter | None = None
        self._sent = 0  # bytes
        self._answer: list[bytes] = []
        self._pace = pace or Pace()

    def first(self) -> Sent:
        """What is sent first, or again from the beginning."""
        self._answer = []
        self._begun += 1
        return self._part(0)

    def next(self, reply: Reply) -> Sent | bytes | Trouble:
        """What is sent next after a reply; or the whole answer, or what is in its way."""
        match reply:
            case Got(letter=self._letter, end=self._sent) if self._content is not None:
                return self._part(self._sent)
            case Part(letter=self._letter, start=start) if start == sum(map(len, self._answer)):
                if reply.total > self._most:
                    return Trouble(
                        f"its answer has {reply.total:,} bytes, more than the {self._most:,} that it may have"
                    )
                if len(reply.content) == min(self._asked, reply.total - start):
                    self._answer.append(reply.content)
                    return b"".join(self._answer) if reply.last else self._fetch(start + len(reply.content))
            case Trouble(words=words):
                return Trouble(" ".join(words[: 2 * LONGEST].split())[:LONGEST])
        if self._begun > AGAINS:
            return Trouble(f"it has asked for its letter {self._begun} times: look at its version")
        return self.first()

    def works(self, sent: Sent) -> bool:
        """Whether the silo works before it answers this: parts alone are quick."""
        return isinstance(sent, Part) and sent.last

    def _fetch(self, start: int) -> Fetch:
        self._asked = self._pace.size
        return Fetch(self._letter, start, self._asked)

    def _part(self, start: int) -> Part:
        size = self._asked = self._pace.size
        whole = self._look_up() if self._content is None else self._content
        part = Part(self._letter, start, len(whole), size, whole.part(start, size))
        self._sent = start + len(part.content)
        self._content = None if part.last else whole
        return part


class Mailbox:
    """The silo's end: parts of one letter that come in, and the parts of its answer that go out."""

    def __init__(self) -> None:
        self._letter = ""
        self._parts: list[bytes] = []
        self._answer: bytes | None = None

    def take(self, sent: Sent, work: Callable[[bytes], bytes | Trouble]) -> Reply:
        """The reply to what was sent; the last part of a letter is worked on with `work`."""
        if isinstance(sent, Fetch):
            there = sent.letter == self._letter and self._answer is not None
            return self._answered(sent.start, sent.most) if there else Again(sent.letter)
        if sent.start == 0:
            self._letter, self._parts, self._answer = sent.letter, [], None
        if sent.letter != self._letter or self._answer is not None or sent.start != sum(map(len, self._parts)):
            return Again(sent.letter)
        self._parts.append(sent.content)
        if not sent.last:
            return Got(sent.letter, sent.start + len(sent.content))
        content, self._parts = b"".join(self._parts), []
        answer = work(content)
        if isinstance(answer, Trouble):
            return answer
        self._answer = answer
        return self._answered(0, sent.most)

    def _answered(self, start: int, most: int) -> Part:
        whole = self._answer or b""
        return Part(self._letter, start, len(whole), 0, whole[start : start + max(1, most)])
