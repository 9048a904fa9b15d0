"""The log: whatever is done to its lines is found, crashes are mended, several processes write to it at once."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.errors import DamagedFile
from amity.federation import audit as module
from amity.federation.audit import BROKEN, MENDED, Audit, Entry, entries, line_of, verify


def filled(folder: Path, count: int = 5) -> Path:
    """A log with so many lines."""
    audit = Audit(folder / "audit.jsonl", "aurora")
    for at in range(count):
        audit.add(
            "upload", run="sepsis-1", round=at + 1, silo="aurora", bytes=4000 + at, sha256="ab" * 32, words="sent"
        )
    return audit.path


def head_of(path: Path) -> Path:
    return path.with_suffix(".head")


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def said(path: Path) -> list[str]:
    return [f"{problem.line}: {problem.words}" for problem in verify(path)]


def test_lines_hold_what_happened_and_are_chained(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "state" / "audit.jsonl", "aurora", clock=lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))
    first = audit.add("asked", run="sepsis-1", words="by the coordinator")
    second = audit.add("declined", run="sepsis-1", sha256="ab" * 32)
    assert entries(audit.path) == [first, second] and entries(audit.path, 1) == [second]
    assert entries(audit.path, 0) == []
    assert (first.number, first.time, first.who) == (1, "2026-03-01T12:00:00.000+00:00", "aurora")
    assert (second.number, second.before) == (2, first.hash) and verify(audit.path) == []
    assert [json.loads(line)["what"] for line in lines_of(audit.path)] == ["asked", "declined"]
    assert stat.S_IMODE(audit.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(audit.path.parent.stat().st_mode) == 0o700
    assert {file.name for file in audit.path.parent.iterdir()} == {"audit.jsonl", "audit.head", "audit.lock"}


def test_no_log_has_no_problems(tmp_path: Path) -> None:
    assert verify(tmp_path / "audit.jsonl") == [] and entries(tmp_path / "audit.jsonl") == []


def test_words_cannot_break_a_line_or_a_terminal(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl", "aurora")
    entry = audit.add("failed", words='one\ntwo "three" \x1b[2J \u202e \ud800 ' + "x" * 5000)
    assert entry.words.startswith('one\\u000atwo "three" \\u001b[2J \\u202e \\ud800 xxx') and len(entry.words) < 1200
    assert verify(audit.path) == [] and len(lines_of(audit.path)) == 1


Change = Callable[[list[bytes], st.DataObject], list[bytes]]


def _changed(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    at = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.integers(0, len(lines[at]) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != lines[at][place]))
    return [*lines[:at], lines[at][:place] + bytes([other]) + lines[at][place + 1 :], *lines[at + 1 :]]


def _removed(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    at = data.draw(st.integers(0, len(lines) - 1))
    return lines[:at] + lines[at + 1 :]


def _swapped(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    one = data.draw(st.integers(0, len(lines) - 1))
    two = data.draw(st.integers(0, len(lines) - 1).filter(lambda at: at != one))
    out = list(lines)
    out[one], out[two] = out[two], out[one]
    return out


def _inserted(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    at = data.draw(st.integers(0, len(lines)))
    new = data.draw(st.sampled_from([*lines, b"\n", b"{}\n", b"nothing\n", line_of(Entry(6, "now", "me", "all well"))]))
    return [*lines[:at], new, *lines[at:]]


def _reworded(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    """A line changed by somebody who knows how hashes are made."""
    at = data.draw(st.integers(0, len(lines) - 1))
    forged = Entry(**json.loads(lines[at]))._replace(bytes=data.draw(st.integers(0, 3999)))
    return [*lines[:at], line_of(forged), *lines[at + 1 :]]


def _cut(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    whole = b"".join(lines)
    return [whole[: data.draw(st.integers(0, len(whole) - 1))]]


@pytest.mark.parametrize("change", [_changed, _removed, _swapped, _inserted, _reworded, _cut])
def test_whatever_is_done_to_lines_is_found(change: Change, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = filled(tmp_path_factory.mktemp("log"))
    lines = lines_of(path)
    assert verify(path) == []

    @given(data=st.data())
    def found(data: st.DataObject) -> None:
        path.write_bytes(b"".join(change(lines, data)))
        assert verify(path)

    found()


def test_problems_are_told_by_line(tmp_path: Path) -> None:
    path = filled(tmp_path)
    lines = lines_of(path)
    path.write_bytes(b"".join(lines).replace(b'"bytes":4002', b'"bytes":4003'))
    assert said(path) == ["3: it was changed: its hash is not that of its content"]
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    assert said(path) == ["3: its number is 4, after 2", "3: it does not follow the line before"]
    path.write_bytes(b"".join(lines[:3]))
    assert said(path) == ["3: the file does not end with line 5, which was written last"]
    path.write_bytes(b"".join(lines[:4]))
    assert said(path) == ["5: line 5 is missing: it was cut off, or a crash came before it"]
    path.write_bytes(b"".join(lines))
    head_of(path).unlink()
    assert said(path) == ["0: audit.head is missing, which says where the file ends"]
    head_of(path).write_bytes(b"nothing")
    assert "cannot be read" in said(path)[0]


@pytest.mark.parametrize("kept", [0, 1, 40, -1])
def test_a_line_that_a_crash_has_cut_short_is_mended(tmp_path: Path, kept: int) -> None:
    path = filled(tmp_path)
    lines = lines_of(path)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:kept])
    assert verify(path)
    entry = Audit(path, "aurora").add("upload", round=6)
    assert verify(path) == [] and lines_of(path)[:5] == lines
    mended = entries(path)[5]
    assert (mended.what, mended.number, mended.bytes) == (MENDED, 6, len(lines[4][:kept])) and entry.number == 7
    assert mended.words == "line 5 was cut short, and is written again"


@pytest.mark.parametrize("step", ["replace", "append"])
@pytest.mark.parametrize("count", [0, 3])
def test_a_crash_at_any_step_loses_nothing_that_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, count: int
) -> None:
    path = filled(tmp_path, count)

    def crash(*_: Any) -> None:
        raise OSError("the power is gone")

    with monkeypatch.context() as broken, pytest.raises(OSError, match="power"):
        broken.setattr(module, step, crash)
        Audit(path, "aurora").add("upload", round=99)
    Audit(path, "aurora").add("end")
    assert verify(path) == []
    assert any(entry.round == 99 for entry in entries(path)) == (step == "append")


@pytest.mark.parametrize("left", [0, 2])
def test_lines_cut_off_stay_missing_whatever_is_added(tmp_path: Path, left: int) -> None:
    path = filled(tmp_path)
    path.write_bytes(b"".join(lines_of(path)[:left]))
    Audit(path, "aurora").add("upload")
    assert entries(path)[left].what == BROKEN and entries(path)[left].number == 6
    assert any(problem.line == left + 1 and problem.words.startswith("its number is 6") for problem in verify(path))


@pytest.mark.parametrize("content", [None, b"nothing"])
def test_without_its_head_a_log_goes_on_and_says_so(tmp_path: Path, content: bytes | None) -> None:
    path = filled(tmp_path)
    head_of(path).unlink() if content is None else head_of(path).write_bytes(content)
    Audit(path, "aurora").add("upload")
    assert said(path) == ["6: the head file is missing or damaged: lines may have been cut off"]
    assert len(entries(path)) == 7


def test_lines_added_by_others_are_told(tmp_path: Path) -> None:
    path = filled(tmp_path)
    last = entries(path)[-1]
    forged = Entry(6, last.time, "aurora", "approved", before=last.hash)
    path.write_bytes(path.read_bytes() + line_of(forged))
    assert said(path) == ["6: the file does not end with line 5, which was written last"]
    Audit(path, "aurora").add("upload")
    assert BROKEN in {entry.what for entry in entries(path)} and verify(path)


def test_a_line_of_another_form_is_none(tmp_path: Path) -> None:
    path = filled(tmp_path, 1)
    odd = line_of(entries(path)[0]._replace(round="one"))  # type: ignore[arg-type]
    path.write_bytes(odd)
    assert "1: it is no line of this log" in said(path)


def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(DamagedFile, match="cannot be read"):
        verify(tmp_path / "audit.jsonl")


PROGRAM = """
import sys
from pathlib import Path
from amity.federation.audit import Audit
audit = Audit(Path(sys.argv[1]), sys.argv[2])
for at in range(40):
    audit.add("upload", round=at)
"""


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    command = [sys.executable, "-c", PROGRAM, str(path)]
    both = [subprocess.Popen([*command, name], env=os.environ) for name in ("one", "two")]
    assert [process.wait(60) for process in both] == [0, 0]
    assert verify(path) == []
    for name in ("one", "two"):
        assert [entry.round for entry in entries(path) if entry.who == name] == list(range(40))


ENDLESS = PROGRAM.replace("range(40)", "range(10**9)")


def test_whoever_is_killed_leaves_a_log_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for wanted in (5, 15, 25):
        process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path), "one"], env=os.environ)
        until = time.monotonic() + 60
        while len(entries(path)) < wanted and time.monotonic() < until:
            time.sleep(0.002)
        process.kill()
        process.wait()
        assert len(entries(path)) >= wanted
        Audit(path, "two").add("end")
        assert verify(path) == []
    assert [entry.number for entry in entries(path)] == list(range(1, len(entries(path)) + 1))


def test_ten_thousand_lines_are_verified_in_about_a_second(tmp_path: Path) -> None:
    path, before, lines = tmp_path / "audit.jsonl", module.FIRST, []
    for number in range(1, 10_001):
        entry = Entry(number, "2026-03-01T12:00:00.000+00:00", "aurora", "upload", "sepsis-1", before=before)
        line = line_of(entry)
        before = json.loads(line)["hash"]
        lines.append(line)
    path.write_bytes(b"".join(lines))
    head_of(path).write_bytes(lines[-1])
    began = time.process_time()
    assert verify(path) == []
    assert time.process_time() - began < 2
