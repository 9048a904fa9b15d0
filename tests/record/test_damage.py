"""Run directories that were damaged: refused in one line, or as good as whole. Never a traceback, never other numbers.

Small runs on digits, finished, interrupted and killed. Each of their files is cut off, emptied, removed, changed in a
byte and edited; then the run is read as reports read it, and resumed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from record.damaged_runs import (
    CASES,
    Runs,
    files_of,
    reported,
    resumed,
)

from amity.errors import DamagedFile, InputError


def damages(file: Path) -> Iterator[tuple[str, bytes | None]]:
    """What may become of a file; None: it is gone."""
    whole = file.read_bytes()
    yield "gone", None
    if not whole:
        yield "garbage", b"\x00\xff garbage"
        return
    yield "empty", b""
    size = len(whole)
    for place in sorted({0, size // 3, 2 * size // 3, size - 1}):
        yield f"cut at {place}", whole[:place]
    for place in sorted({0, 9, size // 4, size // 2, 3 * size // 4, size - 2, size - 1} & set(range(size))):
        yield f"bit of {place}", whole[:place] + bytes([whole[place] ^ 1 << place % 7]) + whole[place + 1 :]
    yield "longer", whole + b"\x00\x00"
    if file.suffix in (".json", ".jsonl", ".toml"):
        yield from edits(file, whole)


def edits(file: Path, whole: bytes) -> Iterator[tuple[str, bytes]]:
    lines = whole.splitlines(keepends=True)
    if len(lines) > 2:
        yield "two lines in each other's place", b"".join([lines[1], lines[0], *lines[2:]])
        yield "a line too few", b"".join([*lines[:1], *lines[2:]])
        yield "the last line gone", b"".join(lines[:-1])
        yield "a line twice", b"".join([*lines[:2], *lines[1:]])
        yield "the last line twice", whole + lines[-1]
    at = next((place for place, byte in enumerate(whole) if place > size_of_head(file) and byte in b"0123456789"), 0)
    yield "another digit", whole[:at] + bytes([b"1234567890"[whole[at] - ord("0")]]) + whole[at + 1 :] if at else whole
    if file.suffix == ".toml":
        yield "deep", b"a = " + b"[" * 3000 + b"]" * 3000
        return
    for text in ("null", "[]", "{}", '{"round": "x"}', "3", "[" * 100_000):
        yield f"JSON {text[:20]}", f"{text}\n".encode()
    if file.suffix == ".jsonl":
        yield "a round of text", b"".join([*lines[:-1], b'{"round": "x"}\n'])


def size_of_head(file: Path) -> int:
    return 12 if file.suffix == ".jsonl" else 0  # the number of round 1 is no result


@pytest.mark.parametrize(("method", "state"), CASES, ids=lambda name: name)
@pytest.mark.parametrize("use", ["report", "resume"])
@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_damage_is_refused_in_one_line_or_changes_nothing(
    runs: Runs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    state: str,
    use: str,
    every: int,
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # nobody pulls the plug here, and the disk takes its time
    whole, path = runs[method, state], tmp_path / "run"
    look: Callable[[Path], Any] = reported if use == "report" else lambda path: resumed(path, method)
    shutil.copytree(whole, path)
    wanted = look(path)
    shutil.rmtree(path)
    wrong, refused = [], 0
    for number, file in enumerate(files_of(whole)):
        for damage, content in list(damages(whole / file))[number % every :: every]:
            if not path.exists():
                shutil.copytree(whole, path)
            (path / file).unlink() if content is None else (path / file).write_bytes(content)
            try:
                if look(path) != wanted:
                    wrong.append(f"{file}, {damage}: other results, without a word")
                if use == "resume":
                    shutil.rmtree(path)
                    continue
            except InputError as error:
                refused += 1
                if not isinstance(error, DamagedFile) and not file.endswith("checksums.json"):  # as of other versions
                    wrong.append(f"{file}, {damage}: not called damage: {error}")
                if "\n" in str(error) or str(path) not in str(error):
                    wrong.append(f"{file}, {damage}: not a line that names it: {error}")
            except Exception as error:
                wrong.append(f"{file}, {damage}: {type(error).__name__}: {error}")
                shutil.rmtree(path)
                continue
            shutil.copy(whole / file, path / file)
            if files_of(path) != files_of(whole):
                wrong.append(f"{file}, {damage}: refused, and yet the directory is another")
    assert not wrong, f"{len(wrong)} of which:\n" + "\n".join(wrong[:40])
    assert refused > 10
