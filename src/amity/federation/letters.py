"""Letters to silos: messages that become bytes when somebody asks for them, and are not kept as such.

A round's letters together are as large as all models. They are needed for a moment each, when they are sent, and again
only if something breaks; encoding one anew is quick. What is the same for several silos is encoded once, and what a
silo holds already is not sent again (`held.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from amity.contract import nbytes
from amity.federation.encoding import encode, encoded_header, encoded_tensors
from amity.federation.held import LEAST, Brought, down_of
from amity.federation.messages import Message
from amity.federation.narrowing import Wire, narrowed
from amity.federation.transport import Letter, sha256


class Body(NamedTuple):
    """The tensors of messages, encoded."""

    of: tuple[tuple[object, ...], ...]  # which tensors: their names and places in memory
    content: bytes
    digest: str


class Letters(Mapping[str, Letter]):
    """Messages by the name of the silo that they are for, as the bytes that are sent."""

    def __init__(self, messages: Mapping[str, Message], wire: Wire, held: dict[str, Brought] | None = None) -> None:
        """`held`: what each silo holds; it is brought up to date when a letter is answered."""
        self._messages = dict(messages)
        self._wire: Wire = wire
        self._held = {} if held is None else held
        self._brings: dict[str, Brought] = {}
        self._spared: dict[str, int] = {}  # bytes of tensors that a letter refers to
        self._body: Body | None = None  # the last: for most methods there is one for all silos

    def __getitem__(self, name: str) -> Letter:
        message = self._messages[name]
        body = self._encoded(message)
        self._spared.pop(name, None)
        if body is None:
            return Letter(encode(narrowed(message, self._wire)))
        held = self._held.get(name)
        if held is not None and held.tensors == body.digest:
            self._spared[name] = nbytes(down_of(message) or {})
            return Letter(encoded_header(message, held.letter), encoded_tensors(None))
        header = encoded_header(message)
        if name not in self._brings:
            self._brings[name] = Brought(sha256(header, body.content), body.digest)
        return Letter(header, body.content, self._brings[name].letter)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._messages))

    def __len__(self) -> int:
        return len(self._messages)

    def kind(self, name: str) -> type[Message]:
        """What kind of message a silo is sent."""
        return type(self._messages[name])

    def refers(self, name: str) -> bool:
        """Whether a letter refers to tensors, and does not bring them."""
        return name in self._spared

    def answered(self, name: str) -> int:
        """Note that a silo has got its letter, which is dropped. The bytes that need not be sent come back."""
        del self._messages[name]
        if name in self._brings:
            self._held[name] = self._brings.pop(name)
        return self._spared.pop(name, 0)

    def forgotten(self, name: str) -> None:
        """Note that a silo does not hold what its letter refers to."""
        self._held.pop(name, None)

    def lost(self, name: str) -> None:
        """Drop a letter that was not answered."""
        del self._messages[name]

    def _encoded(self, message: Message) -> Body | None:
        """The tensors of a message as they are sent; None where it has too few for a reference."""
        down = down_of(message)
        if not down or sum(value.nbytes for value in down.values()) < LEAST:
            return None
        places = tuple((key, v.data_ptr(), v.dtype, v.shape, v.stride()) for key, v in sorted(down.items()))
        if self._body is None or self._body.of != places:
            self._body = None  # now: two would be in the way
            content = encoded_tensors(narrowed(message, self._wire))
            self._body = Body(places, content, sha256(content))
        return self._body
