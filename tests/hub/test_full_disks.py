"""A server whose disk is full in the middle of a run waits and says so, and the run comes to its end all the same."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from networks import Pauses, trial_of
from safetensors import SafetensorError

from amity.errors import DiskFull, LostWorker
from amity.federation.audit import Audit
from amity.federation.stored_server import StoredServer
from amity.hub import board as boards
from amity.hub import room
from amity.hub.board import Board, new_status
from amity.hub.recording import Journal
from amity.hub.room import no_room, wait_for_room

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
PLACES = [(StoredServer, "save"), (StoredServer, "save_roster"), (Journal, "add"), (Journal, "finish"), (Audit, "add")]


@pytest.mark.parametrize("place", PLACES, ids=lambda at: f"{at[0].__name__}.{at[1]}")
def test_a_run_outlives_a_full_disk_at_the_server(
    place: tuple[type, str], tmp_path: Path, turns: Counter[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    of, name = place
    trial, real, calls = trial_of(tmp_path, "scaffold", terms={"least_rounds": 3}), getattr(of, name), [0]
    wanted = trial.simulated()
    turns.clear()

    def full(*given: Any, **named: Any) -> Any:
        if of is Audit and given[0].who != "server":  # those of silos are another matter
            return real(*given, **named)
        calls[0] += 1
        if calls[0] == (20 if of is Audit else 1 if name in ("finish", "save_roster") else 2):
            raise DiskFull("cannot write") if of is Journal else FULL
        return real(*given, **named)

    with trial.network() as network:
        with monkeypatch.context() as patch:
            patch.setattr(of, name, full)
            with pytest.raises(LostWorker, match="the server had no room on its disk for 0 s"):
                trial.conduct(network)
        assert trial.phase == "waiting" and "no room on its disk" in trial.status["words"]
        trial.conduct(network)
    assert trial.phase == "ended", trial.status["words"]
    trial.check_models(wanted)
    assert [line["round"] for line in trial.record.lines] == [1, 2, 3]
    assert set(turns.values()) == {1} and len(turns) == 9


def test_it_waits_as_long_as_the_contract_says_and_no_trial_is_left(
    tmp_path: Path, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([False, False, True])
    with monkeypatch.context() as patch:
        patch.setattr(room, "_takes", lambda folder: next(looks))
        assert wait_for_room(tmp_path, 100.0, pauses.sleep) == pauses.now == 20.0
        patch.setattr(room, "_takes", lambda folder: False)
        assert wait_for_room(tmp_path, 100.0, pauses.sleep) == 100.0
    assert wait_for_room(tmp_path, 100.0, pauses.sleep) == 0.0 and not list(tmp_path.iterdir())


def test_a_board_that_finds_no_room_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(tmp_path, new_status("trial", ("ash",), 3, "wait", 1))

    def full(*_: object) -> None:
        raise FULL

    def gone(*_: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(boards, "replace", full)
        board.phase("running")
        patch.setattr(boards, "replace", gone)
        with pytest.raises(PermissionError):
            board.phase("running")
    assert not list(tmp_path.iterdir())
    board.silo("ash", "connected")
    assert boards.read_status(tmp_path) == board.status


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (FULL, True),
        (OSError(errno.EFBIG, "File too large"), True),
        (DiskFull("no room"), True),
        (SafetensorError(f"I/O error: No space left on device (os error {errno.ENOSPC})"), True),
        (SafetensorError("I/O error: Permission denied (os error 13)"), False),
        (OSError(errno.EACCES, "Permission denied"), False),
        (ValueError("No space left on device"), False),
    ],
)
def test_want_of_room_is_told_from_other_trouble(error: Exception, full: bool) -> None:
    assert no_room(error) == full
