"""Checksums over a run's files: they show a reader whether a file is as it was written.

    rounds.jsonl                 every line ends with "check": a sum over this line and all before it, and one of the
                                 round's collaboration weights, where it has some
    checkpoint/checksums.json    sums of the files beside it, and the "check" of the round that it continues
    checksums.json               sums of all other files. Results are listed once all of them are written; a result
                                 that is not listed does not count. `events.jsonl` is listed with the results

Sums are CRC-32, with the length where a file has one: they are there against damage, not against forgery, and at the
speed of memory. Each file of sums ends with one over itself.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from amity.errors import DamagedFile, InputError
from amity.record.contents import Config, Line, SumsFile
from amity.record.files import load_bytes, parse_json, plain
from amity.record.shapes import are_sums

FORMAT = 2
"""The format of run directories: raise it when a file changes its meaning. The first had no checksums."""

SUMS = "checksums.json"

BLOCK = 1 << 20  # bytes that are read at a time

_STAMP = re.compile(rb',\s*"check": "([0-9a-f]{8})(?:-([0-9a-f]{8}))?"\s*\}\s*\Z')


class Check(NamedTuple):
    """The checksums at the end of a line of `rounds.jsonl`."""

    lines: str  # over this line and all before it
    weights: str | None  # of the round's collaboration weights


FIRST = Check("00000000", None)
"""The check that the first line goes on from."""


class Sums(NamedTuple):
    """The content of a `checksums.json`."""

    folder: Path
    files: Mapping[str, str]  # by their path from the folder
    configs: tuple[str, ...] = ()  # of the configuration's values: now, and before the last resume
    rounds: int | None = None  # that the results, or the checkpoint, are of; None before there are any
    check: str | None = None  # of the last of these rounds

    def lists(self, name: str) -> bool:
        """Return whether a file has its checksum here."""
        return name in self.files

    def whole(self, name: str) -> Path:
        """Return the path of a listed file; refuse one that is missing or not what was written."""
        path = self.folder / name
        try:
            found = file_sum(path)
        except OSError as error:
            raise DamagedFile(f"{path} is part of the run and cannot be read: {error.strerror or error}") from error
        if found != self.files[name]:
            raise damaged(path)
        return path


def damaged(path: Path) -> DamagedFile:
    """Return the error about a file whose checksum differs."""
    return DamagedFile(f"{path} is damaged, not what was written (its checksum differs): put a good copy in its place")


def sum_of(content: bytes) -> str:
    """Return the length and the CRC-32 of a file's content."""
    return f"{len(content)}:{zlib.crc32(content):08x}"


def file_sum(path: Path) -> str:
    """Return `sum_of` a file, which is read block by block."""
    size = total = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            size, total = size + len(block), zlib.crc32(block, total)
    return f"{size}:{total:08x}"


def config_sum(config: Config) -> str:
    """Return the checksum of a configuration's values, however they are laid out in a file."""
    return f"{zlib.crc32(json.dumps(config, sort_keys=True, default=str).encode()):08x}"


def weights_sum(part: bytes) -> str:
    """Return the checksum of a round's entry in `weights.part`."""
    return f"{zlib.crc32(part):08x}"


def checked_line(line: Line, before: Check, part: bytes) -> tuple[bytes, Check]:
    """Return the text of a line of `rounds.jsonl` with its check, and that check.

    `part`: the round's entry in `weights.part`, or nothing.
    """
    body = json.dumps(plain(line), allow_nan=False).encode()[:-1]
    weights = weights_sum(part) if part else None
    check = Check(_chained(body, before, weights), weights)
    stamp = check.lines if weights is None else f"{check.lines}-{weights}"
    return body + f', "check": "{stamp}"}}\n'.encode(), check


def checked_lines(lines: Iterable[Line], parts: Mapping[int, bytes]) -> tuple[list[bytes], list[Check]]:
    """Return the texts of all lines, and their checks. `parts`: by round, the entries in `weights.part`."""
    texts: list[bytes] = []
    checks = [FIRST]
    for line in lines:
        text, check = checked_line(line, checks[-1], parts.get(line["round"], b""))
        texts.append(text)
        checks.append(check)
    return texts, checks[1:]


def checked(raw: bytes, before: Check) -> Check | None:
    """Return the check at the end of a line; None where it has none, or one that is wrong."""
    stamp = _STAMP.search(raw)
    if stamp is None:
        return None
    check = Check(stamp[1].decode(), stamp[2].decode() if stamp[2] else None)
    return check if check.lines == _chained(raw[: stamp.start()], before, check.weights) else None


def has_check(raw: bytes) -> bool:
    """Return whether a line ends with a check, right or wrong."""
    return _STAMP.search(raw) is not None


def _chained(body: bytes, before: Check, weights: str | None) -> str:
    return f"{zlib.crc32(body + (weights or '').encode(), int(before.lines, 16)):08x}"


def sums_text(sums: Sums) -> bytes:
    """Return the text of a `checksums.json`, with a checksum over itself at its end."""
    content: SumsFile = {
        "format": FORMAT,
        "config": list(sums.configs),
        "rounds": sums.rounds,
        "lines": sums.check,
        "files": dict(sums.files),
    }
    body = json.dumps(content, indent=1).encode()[:-2]
    return body + f',\n "check": "{zlib.crc32(body):08x}"\n}}\n'.encode()


def read_sums(folder: Path) -> Sums | None:
    """Return the checksums of a folder; None where it has none, as in runs of earlier versions."""
    path = folder / SUMS
    if not path.exists():
        return None
    raw = load_bytes(path)
    content = parse_json(path, raw)
    known = content.get("format") if isinstance(content, dict) else None
    if isinstance(known, int) and known > FORMAT:
        raise InputError(
            f"{folder} was written by a newer version of Amity (record format {known}, this one knows {FORMAT}): "
            "use that version"
        )
    stamp = _STAMP.search(raw)
    intact = stamp is not None and stamp[1].decode() == f"{zlib.crc32(raw[: stamp.start()]):08x}"
    if not intact or known != FORMAT or not are_sums(content):
        raise damaged(path)
    return Sums(folder, content["files"], tuple(content["config"]), content["rounds"], content["lines"])


def sums_of(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the checksums of these files in a folder, by name."""
    return {name: file_sum(folder / name) for name in names}
