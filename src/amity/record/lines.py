"""The lines of `rounds.jsonl`: one per round, each with a check that goes on from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from amity.errors import DamagedFile
from amity.record.checksums import FIRST, Check, Sums, checked, damaged, has_check
from amity.record.contents import Line
from amity.record.files import load_bytes, parse_json
from amity.record.shapes import is_line
from amity.small_files import parse_json as parse_text

Lines = tuple[list[Line], list[Check | None]]


def read_lines(path: Path, silos: int, written: Sums | None, *, must: bool) -> Lines:
    """Return the rounds on disk and their checks. A last line that a crash cut off is left out.

    `written`: what is known of rounds that are there. `must`: whether every line must have its check.
    """
    if not path.exists() and not must:
        return [], []
    *raws, tail = load_bytes(path).split(b"\n")
    lines: list[Line] = []
    checks: list[Check | None] = []
    for number, raw in enumerate([*raws, tail] if tail else raws, start=1):
        try:
            found, check = _parsed(path, raw, number, last_of(checks), must)
        except DamagedFile:
            if number > len(raws) or (number == len(raws) and not tail and not must):
                break
            raise
        lines.append(_of_round(path, found, number, silos))
        checks.append(check)
    _compare(path, checks, written)
    return lines, checks


def read_line(
    path: Path, raw: bytes, number: int, before: Check, silos: int, *, must: bool
) -> tuple[Line, Check | None]:
    """Return the round that one whole line of the file holds, and its check. `before`: that of the line before."""
    found, check = _parsed(path, raw, number, before, must)
    return _of_round(path, found, number, silos), check


def _of_round(path: Path, line: object, number: int, silos: int) -> Line:
    if not is_line(line, silos) or line["round"] != number:
        raise DamagedFile(f"{path} line {number} is not round {number}: the run cannot be read")
    return line


def _parsed(path: Path, raw: bytes, number: int, before: Check, must: bool) -> tuple[object, Check | None]:
    check = checked(raw, before)
    if check is None and (must or has_check(raw)):
        raise damaged(Path(f"{path} line {number}"))
    line = parse_json(Path(f"{path} line {number}"), raw)
    if check is not None:
        line.pop("check")  # a line that has a right one was written as an object
    return line, check


def last_of(checks: Sequence[Check | None]) -> Check:
    """Return the check that the next line goes on from."""
    return checks[-1] or FIRST if checks else FIRST


def _compare(path: Path, checks: list[Check | None], written: Sums | None) -> None:
    """Refuse rounds that are fewer than, or not, those that were written."""
    if written is None or not written.rounds:
        return
    if len(checks) < written.rounds:
        raise DamagedFile(
            f"{path} ends at round {len(checks)}, {written.rounds} were written: rounds were lost, --force runs it anew"
        )
    check = checks[written.rounds - 1]
    if check is None or check.lines != written.check:
        raise damaged(path)


class NewLines:
    """The lines of a run under way, as they come: for those who hear of a round and want its numbers.

    They are not checked: whoever reads a run as a whole does that.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = 0  # that were read
        self._ahead: list[Line] = []  # that were read and not asked for

    def until(self, round: int) -> list[Line]:
        """Return the lines up to a round that were not returned before."""
        with self._path.open("rb") as file:
            file.seek(self._bytes)
            *texts, _ = file.read().split(b"\n")
        self._bytes += sum(len(text) + 1 for text in texts)
        read = self._ahead + [cast(Line, parse_text(text)) for text in texts]
        self._ahead = [line for line in read if line["round"] > round]
        return [line for line in read if line["round"] <= round]
