"""Folders to watch, made by hand: a run that is written round by round, a hub with a board, a silo's state."""

from __future__ import annotations

from pathlib import Path

from record.rounds_by_hand import CONFIG, FACTS, MANIFEST, SILOS, models, record_rounds
from signed_contracts import CONTRACT, NOW
from sites import ADMIN

from amity.federation.signed import sign, to_json
from amity.hub.board import Board, new_status
from amity.hub.runs import add_run
from amity.record import Record, Recorder
from amity.report.contents import LiveRun
from amity.watch.look import Look
from amity.watch.run_folder import RunFolder

EVIL = "<img src=x onerror=alert(1)></script>"


def begin(path: Path) -> Recorder:
    """A run that is about to have its first round."""
    return Recorder.create(path, CONFIG, SILOS, FACTS, manifest=MANIFEST)


def resume(path: Path) -> Recorder:
    return Recorder.resume(path, CONFIG)[0]


def finish(recorder: Recorder, numbers: list[int]) -> None:
    record_rounds(recorder, numbers)
    recorder.finish(models())


def looked(folder: RunFolder, now: float = 100.0) -> Look:
    (look,) = folder.look(now)
    return look


def live(folder: RunFolder, now: float = 100.0) -> LiveRun:
    return looked(folder, now).live


def record_of(look: Look) -> Record:
    assert look.record is not None
    return look.record


def a_hub(path: Path) -> Board:
    """A hub with one run, and the board of it."""
    path.mkdir()
    (path / "consortium.toml").write_text('name = "north"\n')
    run = add_run(path, sign(CONTRACT, ADMIN.key_pem, ADMIN.pem, NOW))
    board = Board(run.folder, new_status(CONTRACT.name, CONTRACT.invited, 8, "quorum", 2))
    board.write()
    return board


def plan_file() -> dict[str, object]:
    """What a silo keeps of a contract that it has agreed to, as far as a page reads it."""
    return {"contract": to_json(sign(CONTRACT, ADMIN.key_pem, ADMIN.pem, NOW)), "silo": 0, "roster": [], "joined": []}
