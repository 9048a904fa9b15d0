"""Letters to silos: messages that become bytes when somebody asks for them, and are not kept as such.

A round's letters together are as large as all models. They are needed for a moment each, when they are sent, and again
only if something breaks; encoding one anew is quick.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amity.federation.encoding import encode
from amity.federation.messages import Message
from amity.federation.narrowing import Wire, narrowed


class Letters(Mapping[str, bytes]):
    """Messages by the name of the silo that they are for, as the bytes that are sent."""

    def __init__(self, messages: Mapping[str, Message], wire: Wire) -> None:
        self._messages = dict(messages)
        self._wire: Wire = wire

    def __getitem__(self, name: str) -> bytes:
        return encode(narrowed(self._messages[name], self._wire))

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._messages))

    def __len__(self) -> int:
        return len(self._messages)

    def kind(self, name: str) -> type[Message]:
        """What kind of message a silo is sent."""
        return type(self._messages[name])

    def forget(self, name: str) -> None:
        """Drop a letter that was answered."""
        del self._messages[name]
