"""Large letters travel in parts, so that a slow link is never blocked for long: signs of life pass in between, and what
breaks costs one part and not the whole. Nothing of FLARE is needed here.

    server -> silo                                   silo -> server
    Part(letter, 0 of n) ... Part(letter, n-2)       Got
    Part(letter, n-1)                                the work is done now: Part(answer, 0 of m)
    Fetch(1) ... Fetch(m-1)                          Part(answer, k)

A silo's process that was started anew knows no part of before: it says Again, and the letter begins from its first one.
The silo's worker answers what it was asked before from what it has saved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

PART = 4 * 2**20
"""Bytes of a part: a second or two on a slow link, and little beside what a part costs on a quick one."""


class Part(NamedTuple):
    """One part of a letter or of an answer."""

    letter: str  # that it belongs to, or is the answer to
    number: int
    of: int
    content: bytes


class Fetch(NamedTuple):
    """The question for a further part of an answer."""

    letter: str
    number: int


class Got(NamedTuple):
    """A part has come."""

    letter: str
    number: int


class Again(NamedTuple):
    """The parts of before are gone: begin anew."""

    letter: str


class Trouble(NamedTuple):
    """The silo's worker gives no answer."""

    words: str


Sent = Part | Fetch
Reply = Part | Got | Again | Trouble


def part_of(letter: str, content: bytes, number: int) -> Part:
    """One part of what is sent."""
    count = max(1, -(-len(content) // PART))
    return Part(letter, number, count, content[number * PART : (number + 1) * PART])


class Exchange:
    """The server's end: a letter that is sent part by part, and an answer that is fetched part by part."""

    def __init__(self, letter: str, content: bytes) -> None:
        self._letter = letter
        self._content = content
        self._answer: list[bytes] = []

    def first(self) -> Sent:
        """What is sent first, or again from the beginning."""
        self._answer = []
        return part_of(self._letter, self._content, 0)

    def next(self, reply: Reply) -> Sent | bytes | Trouble:
        """What is sent next after a reply; or the whole answer, or what is in its way."""
        match reply:
            case Got(letter=self._letter, number=number):
                return part_of(self._letter, self._content, number + 1)
            case Part(letter=self._letter, number=number, of=count) if number == len(self._answer):
                self._answer.append(reply.content)
                done = len(self._answer) == count
                return b"".join(self._answer) if done else Fetch(self._letter, number + 1)
            case Trouble():
                return reply
        return self.first()

    def works(self, sent: Sent) -> bool:
        """Whether the silo works before it answers this: parts alone are quick."""
        return isinstance(sent, Part) and sent.number == sent.of - 1


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
            return part_of(sent.letter, self._answer or b"", sent.number) if there else Again(sent.letter)
        if sent.number == 0:
            self._letter, self._parts, self._answer = sent.letter, [], None
        if sent.letter != self._letter or sent.number != len(self._parts):
            return Again(sent.letter)
        self._parts.append(sent.content)
        if sent.number < sent.of - 1:
            return Got(sent.letter, sent.number)
        content, self._parts = b"".join(self._parts), []
        answer = work(content)
        if isinstance(answer, Trouble):
            return answer
        self._answer = answer
        return part_of(sent.letter, answer, 0)
