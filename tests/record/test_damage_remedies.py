"""What helps a damaged run: the checkpoint before the last, results written anew, --force."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from listening import recorded, run_ready
from record.damaged_runs import (
    ROUNDS,
    STOP,
    Runs,
    damaged_copy,
    ready,
    reported,
    without_time,
)

from amity import record
from amity.contract import InputError
from amity.federation.events import Event


@pytest.mark.parametrize("state", ["interrupted", "killed"])
def test_where_the_newest_checkpoint_is_damaged_the_one_before_is_used_and_that_is_said(
    runs: Runs, tmp_path: Path, state: str
) -> None:
    path = damaged_copy(runs, tmp_path, state, "checkpoint/clients.safetensors")
    said: list[str] = []
    seen: list[int] = []
    run_ready(
        ready("fedamp"),
        out=path,
        resume=True,
        note=said.append,
        listen=recorded(lambda line: seen.append(line["round"])),
    )
    (note,) = said
    assert note.startswith(f"{path / 'checkpoint' / 'clients.safetensors'} is damaged")
    assert note.endswith(f"continued from the checkpoint before it, round {STOP - 1}")
    assert seen == [STOP, ROUNDS]
    assert (path / "models").is_dir() and not (path / "checkpoint.old").exists()
    whole = record.read(runs["fedamp", "finished"])
    assert [without_time(line) for line in record.read(path).lines] == [without_time(line) for line in whole.lines]
    assert without_time(record.read(path).results) == without_time(whole.results)


def test_where_both_checkpoints_are_damaged_nothing_is_continued(runs: Runs, tmp_path: Path) -> None:
    names = ["checkpoint/server.safetensors", "checkpoint.old/scores.safetensors"]
    path = damaged_copy(runs, tmp_path, "killed", *names)
    with pytest.raises(InputError, match="checkpoint/server.safetensors is damaged.*no older.*--force runs it anew"):
        run_ready(ready("fedamp"), out=path, resume=True)
    run_ready(ready("fedamp"), out=path, force=True)
    assert reported(path)[5:7] == reported(runs["fedamp", "finished"])[5:7]


def test_results_of_a_finished_run_are_written_anew_from_its_checkpoint(runs: Runs, tmp_path: Path) -> None:
    path = damaged_copy(runs, tmp_path, "finished", "models/silo-01.safetensors")
    (path / "predictions" / "silo-00.npz").unlink()
    said: list[str] = []
    run_ready(ready("fedamp"), out=path, resume=True, note=said.append)
    (note,) = said
    assert "silo-01.safetensors is damaged" in note and note.endswith("results are written anew from the checkpoint")
    model = Path("models") / "silo-01.safetensors"
    assert (path / model).read_bytes() == (runs["fedamp", "finished"] / model).read_bytes()
    assert reported(path)[5:] == reported(runs["fedamp", "finished"])[5:]
    shutil.rmtree(path / "checkpoint")  # and without one it is refused
    (path / model).write_bytes(b"")
    with pytest.raises(InputError, match="silo-01.safetensors is damaged"):
        run_ready(ready("fedamp"), out=path, resume=True)


def test_there_are_never_more_than_two_checkpoints(tmp_path: Path) -> None:
    """Nor more on the disk at any time than the one in place and the one that is being written."""
    most: list[list[str]] = []

    def look(event: Event) -> None:
        most.append(sorted(folder.name for folder in tmp_path.glob("run/checkpoint*")))

    run_ready(ready("fedamp"), out=tmp_path / "run", listen=look)
    assert max(most, key=len) == ["checkpoint", "checkpoint.old"]
    assert [folder.name for folder in tmp_path.glob("run/checkpoint*")] == ["checkpoint"]
