"""What a network must offer to carry messages: letters to silos by name, and a sign of life from each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

SILENT = 45.0
"""Seconds without a sign of life after which a silo is taken for absent: it is named within a minute."""

BEAT = 5.0
"""Seconds between two signs of life of a silo."""


class Away(NamedTuple):
    """A silo that has not answered, and why, in words that name no silo."""

    words: str


class Transport(Protocol):
    """Letters to silos, by their names, which the network has bound to certificates."""

    def send(self, letters: Mapping[str, bytes], seconds: Mapping[str, float]) -> Iterator[tuple[str, bytes | Away]]:
        """Bring each letter to its silo, and the answers back as they come.

        A letter is made when it is looked up: it need not be kept, and may be looked up again until it is answered.

        A silo that does not answer in its time, or gives no sign of life, is away. Each name comes back once.
        """

    @property
    def stopped(self) -> bool:
        """Whether the run is being stopped: nothing more is sent then."""
