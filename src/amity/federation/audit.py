"""The account of what happened, at the hub and at each silo: a file to which lines are added, each bound to the one
before by its hash.

    audit.jsonl   one line for each thing that happened
    audit.head    a copy of the last line, written before it is added
    audit.lock    held while a line is added, so that several processes can

A line that is changed, taken out, put in or moved breaks the chain; lines that are cut off at the end are missed by the
head. A crash leaves at most the end of the last line unwritten: it is added again from the head, and a line says so.
Whoever may write all three files can write them anew from the start. Against that, note the last hash somewhere else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from amity.errors import DamagedFile
from amity.federation import strict_json as strict
from amity.federation.safe_files import append, lock, replace

MENDED = "mended"
"""A crash has cut the last line short, and it was written again."""

BROKEN = "broken"
"""The file did not end as it was left, which no crash explains."""

LONGEST_WORDS = 1000
FIRST = "0" * 64  # what the first line is bound to


class Entry(NamedTuple):
    """One thing that happened."""

    number: int  # of the line, from 1
    time: str  # ISO 8601, UTC
    who: str  # says so: a silo, or the coordinator
    what: str  # in a word: asked, approved, declined, upload ...
    run: str = ""
    round: int = 0
    silo: str = ""  # that it is about
    bytes: int = 0  # that crossed
    sha256: str = ""  # of what crossed, or of the contract
    words: str = ""
    before: str = FIRST  # the hash of the line before
    hash: str = ""  # of this line without it


class Problem(NamedTuple):
    """Something that is not as it was written."""

    line: int  # in the file, from 1; 0: the file as a whole
    words: str


_NUMBERS = ("number", "round", "bytes")
_HASH, _END = b'"hash":"', b'"}'
_TAIL = len(_HASH) + 64 + len(_END)  # of a line, after the comma


def line_of(entry: Entry) -> bytes:
    """Return the line of an entry, with its hash; the hash that it brings does not matter."""
    body = json.dumps({key: value for key, value in entry._asdict().items() if key != "hash"}, separators=(",", ":"))
    return b"%s,%s%s%s\n" % (body[:-1].encode(), _HASH, _digest(body.encode()).encode(), _END)


class Audit:
    """A log that one party writes, in as many processes as it likes."""

    def __init__(self, path: Path, who: str, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.path = path
        self.who = who
        self._clock = clock

    def add(
        self,
        what: str,
        *,
        run: str = "",
        round: int = 0,
        silo: str = "",
        bytes: int = 0,
        sha256: str = "",
        words: str = "",
    ) -> Entry:
        """Add a line. It is on disk when this returns."""
        with lock(_beside(self.path, "lock")):
            last = self._mend()
            return self._write(last, what, run, round, silo, bytes, sha256, words)

    def _write(
        self,
        last: Entry | None,
        what: str,
        run: str = "",
        round: int = 0,
        silo: str = "",
        size: int = 0,
        sha256: str = "",
        words: str = "",
    ) -> Entry:
        number, before = (1, FIRST) if last is None else (last.number + 1, last.hash)
        time = self._clock().astimezone(UTC).isoformat(timespec="milliseconds")
        who, what, run, silo, sha256, words = map(_visible, (self.who, what, run, silo, sha256, words))
        line = line_of(Entry(number, time, who, what, run, round, silo, size, sha256, words, before))
        replace(_beside(self.path, "head"), line)
        append(self.path, line)
        return _entry(line[:-1])

    def _mend(self) -> Entry | None:
        """Return the last line, after bringing the file's end in order where it is not."""
        head = None
        with suppress(DamagedFile):
            head = _head(self.path)
        if head is not None and _ends_with(self.path, line_of(head)):
            return head
        lines, torn = _lines(self.path)
        last = next(_readable(lines[::-1]), None)
        if head is None and last is None and not torn:
            return None
        if torn:
            with self.path.open("rb+") as file:
                file.truncate(sum(len(line) + 1 for line in lines))
        if head is not None and (last.hash if last else FIRST) == head.before:
            append(self.path, line_of(head))
            what, words = MENDED, f"line {head.number} was cut short, and is written again"
        elif head is not None:
            what, words = BROKEN, f"line {head.number} was not the end of the file: lines were cut off or added"
        else:
            what, words = BROKEN, "the head file is missing or damaged: lines may have been cut off"
        return self._write(head or last, what, size=len(torn), sha256=_digest(torn) if torn else "", words=words)


def verify(path: Path) -> list[Problem]:
    """Return all that is not as it was written. A log that was never begun has no problems."""
    lines, torn = _lines(path)
    problems: list[Problem] = []
    number, before = 0, FIRST
    for at, line in enumerate(lines, 1):
        try:
            entry = _entry(line)
        except ValueError as error:
            problems.append(Problem(at, str(error)))
            number, before = number + 1, _stated_hash(line)
            continue
        if entry.number != number + 1:
            problems.append(Problem(at, f"its number is {entry.number}, after {number}"))
        if entry.before != before:
            problems.append(Problem(at, "it does not follow the line before"))
        if entry.what == BROKEN:
            problems.append(Problem(at, entry.words))
        number, before = entry.number, entry.hash
    if torn:
        problems.append(Problem(len(lines) + 1, "it is cut short; the next line that is added mends it"))
    return problems + _against_head(path, len(lines), before)


def _against_head(path: Path, lines: int, last: str) -> list[Problem]:
    try:
        head = _head(path)
    except DamagedFile as error:
        return [Problem(0, str(error))]
    if head is None:
        return [Problem(0, f"{_beside(path, 'head').name} is missing, which says where the file ends")] if lines else []
    if head.hash == last:
        return []
    if head.before == last:
        return [Problem(lines + 1, f"line {head.number} is missing: it was cut off, or a crash came before it")]
    return [Problem(lines, f"the file does not end with line {head.number}, which was written last")]


def entries(path: Path, last: int | None = None) -> list[Entry]:
    """Return the lines that can be read, or the last few of them."""
    lines, _ = _lines(path)
    return list(_readable(lines if last is None else lines[max(0, len(lines) - last) :]))


def _readable(lines: list[bytes]) -> Iterator[Entry]:
    for line in lines:
        with suppress(ValueError):
            yield _entry(line)


def _entry(line: bytes) -> Entry:
    """Return the entry of a line, whose hash is right."""
    body, comma, tail = line[: -_TAIL - 1], line[-_TAIL - 1 : -_TAIL], line[-_TAIL:]
    if comma != b"," or tail[: len(_HASH)] != _HASH or tail[-len(_END) :] != _END:
        raise ValueError("it is no line of this log")
    if _digest(body + b"}") != _stated_hash(line):
        raise ValueError("it was changed: its hash is not that of its content")
    try:
        found = strict.table(json.loads(line), Entry._fields, "it")
        for key, value in found.items():
            strict.of_type(value, int if key in _NUMBERS else str, key)
    except (ValueError, RecursionError):
        raise ValueError("it is no line of this log") from None
    return Entry(**found)


def _stated_hash(line: bytes) -> str:
    return line[-len(_END) - 64 : -len(_END)].decode("ascii", "replace")


def _head(path: Path) -> Entry | None:
    file = _beside(path, "head")
    try:
        return _entry(file.read_bytes().removesuffix(b"\n"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DamagedFile(f"{file} cannot be read ({error}): bring back a copy of it and of {path.name}") from None


def _lines(path: Path) -> tuple[list[bytes], bytes]:
    """Return the whole lines of a file, and what stands after them."""
    try:
        *lines, torn = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], b""
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read ({error.strerror}): see to its rights and its disk") from None
    return lines, torn


def _ends_with(path: Path, line: bytes) -> bool:
    """Whether a file's last line is this one, without reading the rest."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - len(line) - 1))
            return (b"\n" + file.read()).endswith(b"\n" + line)
    except FileNotFoundError:
        return False


def _beside(path: Path, what: str) -> Path:
    return path.with_suffix(f".{what}")


def _visible(text: str) -> str:
    """Return a text that changes nothing in a terminal, and is not longer than a line should be."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text[:LONGEST_WORDS])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
