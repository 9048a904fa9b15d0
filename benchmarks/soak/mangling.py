"""Bytes changed at random, in the ways in which files come to harm, and in some that only malice finds."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

LARGE = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
WORDS = (
    *(b"../../../etc/passwd", b"cos\nsystem\n(S'id'\ntR.", b"\x80\x04\x95", b"<script>alert(1)</script>", b"NaN"),
    *(b"1e999", b"-Infinity", b"[" * 5000, b'{"a":' * 3000, b"\x00" * 64, b"\xff" * 64, b"9" * 5000, b'"', b"\n", b""),
    *(b"__import__('os')", b"\xef\xbb\xbf", b"\xff\xfe", "\u202e\u2028".encode(), b"\x1b[31m", b"null", b"-1", b"true"),
)


def mangled(draw: random.Random, content: bytes) -> bytes:
    """Return the content after one to four changes."""
    out = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        out = bytearray(draw.choice(WAYS)(draw, bytes(out)))
    return bytes(out)


def _flip(draw: random.Random, content: bytes) -> bytes:
    out = bytearray(content or b"\0")
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(8 * len(out))
        out[at // 8] ^= 1 << at % 8
    return bytes(out)


def _cut(draw: random.Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _drop(draw: random.Random, content: bytes) -> bytes:
    start, size = draw.randrange(len(content) + 1), draw.choice((1, 2, 8, 100))
    return content[:start] + content[start + size :]


def _repeat(draw: random.Random, content: bytes) -> bytes:
    start, size = draw.randrange(len(content) + 1), draw.choice((1, 8, 100, 1000))
    return content[:start] + content[start : start + size] * draw.choice((2, 3, 50)) + content[start + size :]


def _insert(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(WORDS) + content[at:]


def _number(draw: random.Random, content: bytes) -> bytes:
    """Put a number that is near a limit over some bytes."""
    kind = draw.choice(("<B", "<H", ">H", "<I", ">I", "<Q", ">Q"))
    size = struct.calcsize(kind)
    number = draw.choice([value for value in LARGE if value < 256**size])
    at = draw.choice((draw.randrange(len(content) + 1), draw.randrange(min(64, len(content)) + 1)))
    return content[:at] + struct.pack(kind, number) + content[at + size :]


def _digit(draw: random.Random, content: bytes) -> bytes:
    """Put another number, or none, in the place of a digit."""
    places = [at for at, byte in enumerate(content) if byte in b"0123456789"]
    if not places:
        return _insert(draw, content)
    at = draw.choice(places)
    return content[:at] + draw.choice((b"-1", b"99999999999999999999", b"1e400", b"0.5", b"x", b"")) + content[at + 1 :]


def _word(draw: random.Random, content: bytes) -> bytes:
    """Put something else in the place of a line's part."""
    parts = content.split(b",")
    parts[draw.randrange(len(parts))] = draw.choice(WORDS)
    return b",".join(parts)


WAYS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_flip, _flip, _cut, _drop, _repeat, _insert, _number, _number, _digit, _word),
)
