"""The events of a run on disk, in `events.jsonl`: one JSON line for each, in the order in which they happened.

Events tell how a run went, and nothing is computed from them. So they are buffered, and written a few times a second
for whoever watches, when a round is recorded, when a checkpoint is saved and at the end: a killed process loses the
last ones. A checkpoint knows the length and the SHA-256 of the events up to its round; a resumed run keeps exactly
these.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import cast, get_args

from amity.errors import DamagedFile
from amity.federation.events import Event, What
from amity.record.checksums import BLOCK
from amity.record.contents import EventLine, EventsPrefix
from amity.record.files import load_bytes, parse_json, plain
from amity.record.shapes import is_event
from amity.record.sharing import allow, begin_file

OFTEN = 0.2
"""Seconds after which events do not wait for the end of their round: somebody may be watching a long one."""


class EventLog:
    """Appends events to a file, which is made when the first one is written."""

    def __init__(self, path: Path, size: int = 0, digest: hashlib._Hash | None = None) -> None:
        """Go on after the first `size` bytes of the file, of which `digest` is the SHA-256; at first there are none."""
        self.path = path
        self._size = size  # of all events so far, on disk or not
        self._digest = digest or hashlib.sha256()
        self._on_disk = size
        self._waiting: list[bytes] = []
        self._starts: dict[int, EventsPrefix] = {}  # round -> all that came before its first event
        self._flushed = time.monotonic()
        self._guard = threading.Lock()  # workers may report from threads of their own

    @classmethod
    def resume(cls, path: Path, prefix: EventsPrefix | None) -> tuple[EventLog, str | None]:
        """Keep the events that belong to a checkpoint and forget the later ones.

        Without a prefix the file begins anew. So it does where the prefix is not as it was written, and a note says so.
        """
        if prefix is not None:
            digest = _digest_of(path, prefix["bytes"])
            if digest is not None and digest.hexdigest() == prefix["sha256"]:
                if path.exists():
                    with path.open("r+b") as file:
                        file.truncate(prefix["bytes"])
                return cls(path, prefix["bytes"], digest), None
        path.unlink(missing_ok=True)
        note = f"{path} is not as it was written: the events of earlier rounds are lost, it begins anew"
        return cls(path), None if prefix is None else note

    def listen(self, event: Event) -> None:
        """Take one event; it reaches the disk with its round's first event, a moment later, or with `flush`."""
        text = _text_of(event)
        with self._guard:
            if event.round not in self._starts:
                self._starts[event.round] = self._all()
            self._digest.update(text)
            self._size += len(text)
            self._waiting.append(text)
            if event.what == "round" or time.monotonic() - self._flushed >= OFTEN:
                with suppress(OSError):  # the end of the round tries again, and says so
                    self._write()

    def flush(self) -> None:
        """Write the events that have come since the last time."""
        with self._guard:
            self._write()

    def _write(self) -> None:
        self._flushed = time.monotonic()
        if not self._waiting:
            return
        if not self._on_disk:
            begin_file(self.path)
            allow(self.path)
        with self.path.open("r+b") as file:
            file.seek(self._on_disk)
            file.truncate()  # what an earlier attempt has left when the disk was full
            file.writelines(self._waiting)
        self._on_disk = self._size
        self._waiting = []

    def until(self, round: int) -> EventsPrefix:
        """Return the length and the SHA-256 of the events that came before the first one of a later round."""
        with self._guard:
            self._starts = {number: start for number, start in self._starts.items() if number > round}
            return min(self._starts.values(), key=lambda start: start["bytes"], default=self._all())

    def _all(self) -> EventsPrefix:
        return {"bytes": self._size, "sha256": self._digest.hexdigest()}


def _digest_of(path: Path, size: int) -> hashlib._Hash | None:
    """Return the SHA-256 of the first bytes of a file, to go on from; None where there are fewer."""
    digest = hashlib.sha256()
    if not size:
        return digest
    try:
        with path.open("rb") as file:
            while size and (block := file.read(min(size, BLOCK))):
                digest.update(block)
                size -= len(block)
    except OSError:
        return None
    return None if size else digest


def _text_of(event: Event) -> bytes:
    fields = {key: value for key, value in plain(event._asdict()).items() if value is not None and value != ""}
    return (json.dumps(fields, allow_nan=False, separators=(",", ":")) + "\n").encode()


def read_events(path: Path, *, whole: bool) -> list[Event]:
    """Return the events in a file. `whole`: every line must be one; else a last line that was cut off is left out."""
    *raws, tail = load_bytes(path).split(b"\n")
    if tail and whole:
        raws.append(tail)
    return [event_of(raw, Path(f"{path} line {number}")) for number, raw in enumerate(raws, start=1)]


def event_of(raw: bytes, where: Path) -> Event:
    """Return the event that a whole line holds; `where` names it in errors."""
    line = parse_json(where, raw)
    if not is_event(line) or line["what"] not in get_args(What):
        raise DamagedFile(f"{where} is no event: the run's events cannot be read")
    known: EventLine = line
    return Event(
        what=cast(What, known["what"]),
        round=known["round"],
        silo=known.get("silo"),
        bytes=known.get("bytes"),
        seconds=known.get("seconds"),
        words=known.get("words", ""),
        done=known.get("done"),
        total=known.get("total"),
        time=known["time"],
    )
