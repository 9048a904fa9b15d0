"""Messages over a pipe: eight bytes of length, then the message."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO


def serve(answer: Callable[[bytes], bytes], source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer messages until there are no more."""
    while (content := read(source)) is not None:
        write(sink, answer(content))


def read(source: IO[bytes]) -> bytes | None:
    """Return the next message; None where there is none, or only the beginning of one."""
    head = source.read(8)
    if len(head) < 8:
        return None
    length = int.from_bytes(head, "big")
    content = source.read(length)
    return content if len(content) == length else None


def write(sink: IO[bytes], content: bytes) -> None:
    """Send a message."""
    sink.write(len(content).to_bytes(8, "big"))
    sink.write(content)
    sink.flush()
