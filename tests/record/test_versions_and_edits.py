"""Run directories of other versions, edited ones, and the leftovers of killed processes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from listening import run_ready
from record.damaged_runs import (
    ROUNDS,
    STOPPED,
    Runs,
    damaged_copy,
    files_of,
    ready,
    reported,
    without_time,
)

from amity import record
from amity.errors import InputError
from amity.report import write_report


def as_earlier(path: Path) -> Path:
    """The run as versions without checksums have left it."""
    for file in path.rglob("checksums.json"):
        file.unlink()
    lines = [json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()]
    texts = [json.dumps({key: value for key, value in line.items() if key != "check"}) + "\n" for line in lines]
    (path / "rounds.jsonl").write_text("".join(texts))
    shutil.rmtree(path / "checkpoint.old", ignore_errors=True)
    return path


@pytest.mark.parametrize("state", list(STOPPED))
def test_runs_of_earlier_versions_are_reported_and_only_finished_ones_stay(
    runs: Runs, tmp_path: Path, state: str
) -> None:
    path = as_earlier(damaged_copy(runs, tmp_path, state))
    assert reported(path) == reported(runs["fedamp", state])
    before = {file: (path / file).read_bytes() for file in files_of(path)}
    if state == "finished":
        result = run_ready(ready("fedamp"), out=path, resume=True)
        assert without_time(result.summary) == without_time(record.read(runs["fedamp", state]).results)
    else:
        with pytest.raises(InputError, match="checksums.json is missing: runs of earlier versions of Amity have none"):
            run_ready(ready("fedamp"), out=path, resume=True)
    assert {file: (path / file).read_bytes() for file in files_of(path)} == before


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_edited_runs_of_earlier_versions_end_in_no_traceback(runs: Runs, tmp_path: Path, every: int) -> None:
    """Without checksums other numbers cannot be told; other types can."""
    path = as_earlier(damaged_copy(runs, tmp_path, "finished"))
    refused = 0
    for name in ("facts.json", "manifest.json", "summary.json", "rounds.jsonl"):
        whole = (path / name).read_text()
        first, _, rest = whole.partition("\n") if name == "rounds.jsonl" else (whole, "", "")
        for edit in list(other_types(json.loads(first)))[len(name) % every :: every]:
            (path / name).write_text(json.dumps(edit) + "\n" + rest)
            try:
                write_report([record.read(path)], tmp_path / "report.html")
            except InputError as error:
                assert name in str(error) and "\n" not in str(error)
                refused += 1
        (path / name).write_text(whole)
    assert refused > 20


def other_types(content: dict[str, Any]) -> Iterator[Any]:
    """The content with each of its values, and the first of each list, of another type."""
    for key, value in content.items():
        for other in (None, "x", -1, 0.5, [], [None], {}, {"a": None}, True):
            yield {**content, key: other}
            if isinstance(value, list) and value:
                yield {**content, key: [other, *value[1:]]}
            if isinstance(value, list) and value and isinstance(value[0], dict):
                yield from ({**content, key: [{**value[0], inner: other}, *value[1:]]} for inner in value[0])
            if isinstance(value, dict):
                yield from ({**content, key: {**value, inner: other}} for inner in value)
        yield {other: value for other, value in content.items() if other != key}


def test_a_run_of_a_newer_version_is_refused(runs: Runs, tmp_path: Path) -> None:
    path = damaged_copy(runs, tmp_path, "interrupted")
    text = (path / "checksums.json").read_text()
    (path / "checksums.json").write_text(text.replace('"format": 2', '"format": 3'))
    words = r"written by a newer version of Amity \(record format 3, this one knows 2\): use that version"
    with pytest.raises(InputError, match=words):
        record.read(path)
    with pytest.raises(InputError, match=words):
        run_ready(ready("fedamp"), out=path, resume=True)


def test_a_run_that_another_version_began_is_continued_and_that_is_said(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = damaged_copy(runs, tmp_path, "killed")
    began = ready("fedamp").facts["version"]
    monkeypatch.setattr("amity.prepare.version", lambda name: "99.1.0")
    said: list[str] = []
    run_ready(ready("fedamp"), out=path, resume=True, note=said.append)
    assert said == [f"{path} was begun by Amity {began}, this is 99.1.0: its rounds may be of two kinds"]


def test_an_edited_configuration_says_what_to_do(runs: Runs, tmp_path: Path) -> None:
    path = damaged_copy(runs, tmp_path, "interrupted")
    whole = (path / "config.toml").read_text()
    (path / "config.toml").write_text("# my notes\n" + whole.replace(" = ", "  =  "))  # the values are the same
    assert reported(path) == reported(runs["fedamp", "interrupted"])
    (path / "config.toml").write_text(whole.replace(f"rounds = {ROUNDS}", "rounds = 30"))
    words = r"config.toml is not as the run wrote it: undo .* --resume takes changes as options, such as --rounds 30"
    for look in (record.read, record.own_config, lambda path: run_ready(ready("fedamp"), out=path, resume=True)):
        with pytest.raises(InputError, match=words):
            look(path)


def test_what_killed_processes_leave_is_removed(runs: Runs, tmp_path: Path) -> None:
    """Files that were about to replace others, and a checkpoint of which a part was being written."""
    leftovers = [".summary.json.tmp", ".checksums.json.tmp", "models/.silo-00.safetensors.tmp", "models/.tmpAb3dE9"]
    for how in ("resume", "force"):
        path = damaged_copy(runs, tmp_path / how, "killed")
        for name in (*leftovers, "checkpoint.new/server.safetensors", "checkpoint.new/.tmpXyZ012", ".mine.tmp"):
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_bytes(b"half")
        run_ready(ready("fedamp"), out=path, resume=how == "resume", force=how == "force")
        assert files_of(path) == sorted([*files_of(runs["fedamp", "finished"]), ".mine.tmp"])
