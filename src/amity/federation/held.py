"""Tensors that are not sent twice: a letter may refer to those that the silo holds, by the hash of the letter that has
brought them.

    Measure(round 4, down)        whole: its tensors are what the server has after round 4
    Keep(round 4, down)           the same tensors: the header alone, which names the letter of Measure
    Train(round 5, down)          the same again

A silo's worker holds the tensors of the last letter that has brought some, in memory. One that was started anew holds
none: it answers Forgotten, and is sent the whole letter. Which letter is meant stands in the audit of either side, with
that letter's own line before it.
"""

from __future__ import annotations

from typing import NamedTuple

from amity.contract import State
from amity.federation.messages import Answer, Keep, Measure, Message, Train

LEAST = 1024
"""Bytes of tensors that are worth a reference: it takes about a hundred itself."""


class Brought(NamedTuple):
    """What a letter has brought to a silo, as the server knows it."""

    letter: str  # sha256 of the whole letter
    tensors: str  # sha256 of its tensors as they are sent


class LastTensors:
    """The silo's side: the tensors of the last letter that has brought some."""

    def __init__(self) -> None:
        self._letter = ""
        self._tensors: State = {}

    def find(self, letter: str) -> State | None:
        """The tensors of a letter, by its hash; None where another was the last."""
        return self._tensors if letter == self._letter and letter else None

    def hold(self, letter: str, message: Message | Answer) -> None:
        """Hold the tensors of a message, which this letter has brought."""
        down = down_of(message)
        if down is not None and down is not self._tensors:
            self._letter, self._tensors = letter, down


def down_of(message: Message | Answer) -> State | None:
    """What a message brings to a silo; None where it brings nothing."""
    return message.down if isinstance(message, Train | Measure | Keep) else None


def reference(letter: str) -> str:
    """What an audit says of a letter that refers to the tensors of this one; nothing where it refers to none."""
    return f"with the tensors of {letter}" if letter else ""
