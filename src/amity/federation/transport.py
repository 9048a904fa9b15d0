"""What a network must offer to carry messages: letters to silos by name, and a sign of life from each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

SILENT = 45.0
"""Seconds without a sign of life after which a silo is taken for absent: it is named within a minute."""

BEAT = 5.0
"""Seconds between two signs of life of a silo."""


class Away(NamedTuple):
    """A silo that has not answered, and why, in words that name no silo."""

    words: str


def sha256(*parts: bytes) -> str:
    """The hash of these bytes, one after the other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


@dataclass(frozen=True)
class Letter:
    """The bytes of a letter, in two pieces. The second, its tensors, is there once where many silos get the same.

    >>> Letter(b"to ash: ", b"model").part(6, 4)
    b': mo'
    """

    head: bytes
    body: bytes = b""
    known: str = ""  # its hash, where that is known already

    @property
    def sha256(self) -> str:
        """The hash of all its bytes, for an audit."""
        return self.known or sha256(self.head, self.body)

    def __len__(self) -> int:
        return len(self.head) + len(self.body)

    def __bytes__(self) -> bytes:
        return self.head + self.body

    def part(self, start: int, size: int) -> bytes:
        """At most so many bytes, from this place on."""
        beyond = max(0, start - len(self.head))
        first = self.head[start : start + size]
        return first + self.body[beyond : beyond + size - len(first)]


class Transport(Protocol):
    """Letters to silos, by their names, which the network has bound to certificates."""

    def send(self, letters: Mapping[str, Letter], seconds: Mapping[str, float]) -> Iterator[tuple[str, bytes | Away]]:
        """Bring each letter to its silo, and the answers back as they come.

        A letter is made when it is looked up: it need not be kept, and may be looked up again until it is answered.

        A silo that does not answer in its time, or gives no sign of life, is away. Each name comes back once.
        """

    @property
    def stopped(self) -> bool:
        """Whether the run is being stopped: nothing more is sent then."""
