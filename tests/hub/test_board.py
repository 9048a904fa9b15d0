"""The board: each silo's step, when it was seen, and nothing that a silo says is trusted."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pytest
from networks import MemoryNetwork

from amity.errors import InputError
from amity.federation.messages import (
    Answer,
    Commit,
    Declined,
    Done,
    Failed,
    Hello,
    Left,
    Measure,
    Measured,
    Message,
    Propose,
    Standing,
    Train,
    Upload,
)
from amity.federation.transport import SILENT
from amity.hub import board as boards
from amity.hub.board import Board, Status, new_status, read_status
from amity.hub.watching import Watcher

NAMES = ("ash", "birch")


def empty() -> Status:
    return new_status("trial", NAMES, 5, "quorum", 1)


def read(folder: Path) -> Status:
    status = read_status(folder)
    assert status is not None
    return status


def test_a_board_is_written_with_every_change(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    board = Board(tmp_path, empty())
    board.silo("ash", "training")
    board.phase("running", "all is well")
    found = read(tmp_path)
    assert found["silos"]["ash"]["step"] == "training" and (found["phase"], found["words"]) == (
        "running",
        "all is well",
    )
    since = found["silos"]["ash"]["since"]
    board.silo("ash", "training")
    assert read(tmp_path)["silos"]["ash"]["since"] == since  # what has not changed is no news


def test_rounds_are_counted_once_and_can_be_counted_anew(tmp_path: Path) -> None:
    board = Board(tmp_path, empty())
    board.took_part(1, ["ash", "birch"])
    board.took_part(1, ["ash"])
    board.took_part(3, ["ash"])
    assert [(one["round"], one["rounds"]) for one in board.status["silos"].values()] == [(3, 2), (1, 1)]
    board.recount([(1, ["birch"]), (2, ["birch"])])
    found = read(tmp_path)
    assert [(one["round"], one["rounds"]) for one in found["silos"].values()] == [(0, 0), (2, 2)] and found[
        "round"
    ] == 2
    board.recount([])
    assert read(tmp_path)["round"] == 0


def test_a_board_in_use_is_written_though_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "EVERY", 0.01)
    with Board(tmp_path, empty()):
        first = read(tmp_path)["written"]
        until = time.monotonic() + 20
        while read(tmp_path)["written"] == first:
            assert time.monotonic() < until
    last = read(tmp_path)["written"]
    time.sleep(0.05)
    assert read(tmp_path)["written"] == last  # nobody's any more


def test_a_sign_of_life_is_not_more_than_that(tmp_path: Path) -> None:
    board = Board(tmp_path, empty())
    now = time.time() + 1
    board.seen("ash", now, {"amity": "0.2.0", "time": now + 30})
    one = board.status["silos"]["ash"]
    assert (one["step"], one["seen"], one["skew"], one["amity"]) == ("connected", now, 30.0, "0.2.0")
    for step in ("training", "declined", "left", "finished"):
        board.silo("ash", step)
        board.seen("ash", now + 9, {"amity": "0.2.0", "time": now})
        assert board.status["silos"]["ash"]["step"] == step
    board.silo("ash", "absent", "no room")
    board.seen("ash", now - 60, {})  # from before it was absent
    assert board.status["silos"]["ash"]["step"] == "absent"
    board.seen("ash", time.time() + 9, {})
    found = read(tmp_path)["silos"]["ash"]
    assert (found["step"], found["words"]) == ("connected", "no room")


@pytest.mark.parametrize(
    "sign",
    [
        *({"time": "noon"}, {"time": None}, {"time": [1]}, {"time": 10**400}, {"time": math.inf}, {"time": math.nan}),
        *({"amity": "x" * 9999}, {}),
    ],
    ids=lambda sign: str(sign)[:20],
)
def test_a_sign_that_makes_no_sense_harms_nothing(tmp_path: Path, sign: dict[str, Any]) -> None:
    board = Board(tmp_path, empty())
    board.seen("ash", 5.0, sign)
    board.write()
    assert read(tmp_path)["silos"]["ash"]["skew"] is None and len(str(board.status["silos"]["ash"]["amity"])) <= 40


@pytest.mark.parametrize("content", ["[]", "{}", '{"phase": "running"}'])
def test_what_is_no_board_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "status.json").write_text(content)
    with pytest.raises(InputError, match="is no status of a run: remove it"):
        read_status(tmp_path)


@pytest.mark.parametrize(
    ("kind", "answer", "step", "words"),
    [
        (Train, None, "training", ""),
        (Measure, None, "invited", ""),
        (Train, Upload("trial", 1, 0, {}), "uploaded", ""),
        (Train, Failed("trial", 1, 0, "upload", "refused"), "uploaded", "refused"),
        (Measure, Failed("trial", 1, 0, "upload", "no score"), "evaluated", "no score"),
        (Hello, Failed("trial", 1, 0, "upload", "no word"), "absent", "no word"),
        (Train, Failed("trial", 1, 0, "absent", "gone"), "absent", "gone"),
        (Measure, Measured("trial", 1, 0, 5, 1.0, 1.0, {}), "evaluated", ""),
        (Propose, Standing("trial", 0, 0), "configured", ""),
        (Hello, Standing("trial", 0, 0), "invited", ""),
        (Propose, Declined("trial", 0, 0, "not now"), "declined", "not now"),
        (Train, Left("trial", 0, 0), "left", ""),
        (Commit, Done("trial", 1, 0), "invited", ""),
    ],
)
def test_what_a_silo_shows_is_its_step(
    tmp_path: Path, kind: type[Message], answer: Answer | None, step: str, words: str
) -> None:
    board = Board(tmp_path, empty())
    Watcher(board, MemoryNetwork({}), NAMES).notice("ash", kind, answer)
    one = board.status["silos"]["ash"]
    assert (one["step"], one["words"]) == (step, words)


def test_a_silo_without_a_sign_of_life_is_absent_within_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SILENT < 60
    now = [1000.0]
    monkeypatch.setattr("amity.hub.watching.time.time", lambda: now[0])
    network = MemoryNetwork({}, signs={"ash": (1000.0, {}), "birch": (1000.0, {})})
    board = Board(tmp_path, empty())
    watcher = Watcher(board, network, NAMES)

    def look() -> dict[str, str]:
        for name in NAMES:
            watcher._look_at(name)
        return {name: one["step"] for name, one in board.status["silos"].items()}

    board.silo("ash", "training")
    assert look() == {"ash": "training", "birch": "connected"}
    now[0] += SILENT - 1
    assert look() == {"ash": "training", "birch": "connected"}  # slow is not dead
    now[0] += 2
    network.signs["birch"] = (now[0], {})
    assert look() == {"ash": "absent", "birch": "connected"}
    assert board.status["silos"]["ash"]["words"].startswith("no sign of life since ")
    now[0] += 5
    network.signs["ash"] = (now[0], {})
    assert look()["ash"] == "connected"
    network.away["birch"] = "gone"
    network.signs.pop("birch")
    assert look()["birch"] == "connected" and math.isfinite(board.status["written"])  # never seen is nobody's absence
