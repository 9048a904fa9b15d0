"""Gathering: who founds a run, who joins it later, and for whom it waits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from networks import Pauses, Trial, trial_of

from amity.errors import LostWorker
from amity.federation.encoding import encode
from amity.federation.messages import Describe, Described, Failed, Left, Message, Standing
from amity.federation.run_contract import Limits
from amity.federation.stored_server import Roster
from amity.federation.transport import Away
from amity.hub.board import Board, new_status
from amity.hub.gathering import SELDOM, gather

NAMES = ["silo-00", "silo-01", "silo-02"]
NOBODY = Roster((), ())


def board_of(trial: Trial) -> Board:
    return Board(trial.folder, new_status("trial", trial.contract.invited, 3, trial.contract.policy, 2))


def gathered(trial: Trial, before: Roster = NOBODY, board: Board | None = None, **how: Any) -> tuple[Roster, Board]:
    document = (trial.folder / "contract.json").read_text()
    board = board or board_of(trial)
    with trial.network() as network:
        for key, value in how.items():
            setattr(network, key, value)
        roster = gather(trial.contract, document, before, network, board, lambda: None)
    return roster, board


def steps(board: Board) -> dict[str, str]:
    return {name: silo["step"] for name, silo in board.status["silos"].items()}


def test_all_who_approve_found_the_run_in_the_order_of_the_invitation(tmp_path: Path) -> None:
    roster, board = gathered(trial_of(tmp_path, "fedavg"))
    assert [member.name for member in roster.founders] == NAMES and roster.joined == ()
    assert set(steps(board).values()) == {"approved"} and all(member.size > 0 for member in roster.founders)


def test_a_name_is_that_of_the_certificate(tmp_path: Path) -> None:
    """Whatever a silo says in its line: the network has bound its name to its key."""
    trial = trial_of(tmp_path, "fedavg")

    def lie(name: str, message: Message, answer: bytes) -> bytes:
        return answer.replace(b'\\"silo-01\\"', b'\\"silo-77\\"') if name == "silo-01" else answer

    roster, _ = gathered(trial, after=lie)
    assert [member.name for member in roster.founders] == NAMES


def test_with_a_quorum_the_others_have_a_little_time(
    tmp_path: Path, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amity.hub.gathering.GRACE", 30.0)
    trial = trial_of(tmp_path, "fedavg", terms={"policy": "quorum", "quorum": 2})
    roster, board = gathered(trial, away={"silo-01": "no sign of life"})
    assert [member.name for member in roster.founders] == ["silo-00", "silo-02"] and 30 <= pauses.now < 40
    assert board.status["silos"]["silo-01"]["words"] == "no sign of life"
    again, board = gathered(trial, roster)  # a run that has begun waits for no newcomer, and takes in who is there
    assert again.founders == roster.founders and [member.name for member in again.joined] == ["silo-01"]
    final, _ = gathered(trial, again)
    assert final == again


def test_a_run_that_has_begun_asks_newcomers_once(tmp_path: Path, pauses: Pauses) -> None:
    trial = trial_of(tmp_path, "fedavg", terms={"policy": "quorum", "quorum": 2})
    roster, _ = gathered(trial, away={"silo-01": "away"})
    before = pauses.count
    again, _ = gathered(trial, roster, away={"silo-01": "away"})
    assert again == roster and pauses.count == before


def test_below_a_quorum_and_where_all_are_needed_it_waits_to_its_limit(tmp_path: Path, pauses: Pauses) -> None:
    trial = trial_of(tmp_path, "fedavg", terms={"limits": Limits(absence=100)})
    board = board_of(trial)
    with pytest.raises(LostWorker, match=r"for silo-01 \(absent: no sign of life\): see to them"):
        gathered(trial, board=board, away={"silo-01": "no sign of life"})
    assert (
        100 < pauses.now <= 100 + SELDOM and board.status["phase"] == "gathering" and "2 of 3" in board.status["words"]
    )


@pytest.mark.parametrize(
    ("answer", "step", "words"),
    [
        (Failed("trial", 0, 1, "input", "its data cannot be read"), "connected", "its data cannot be read"),
        (Left("trial", 0, 1), "left", ""),
        (Standing("trial", 0, 1), "absent", "it gives an answer that is none: look at its version"),
        (Describe("trial", 0, 1, ""), "absent", "it gives an answer that is none: look at its version"),
        (b"\x00" * 30, "absent", "it gives an answer that is none: look at its version"),
        (
            Described("trial", 0, 1, "[" * 100_000),
            "absent",
            "what it says of its data is not what the contract is about",
        ),
        (Described("trial", 0, 1, "9" * 5_000), "absent", "what it says of its data is not what the contract is about"),
        (Away("gone"), "absent", "gone"),
    ],
    ids=["failed", "left", "another answer", "a message", "garbage", "nested deeply", "a long number", "away"],
)
def test_whoever_does_not_describe_itself_is_on_the_board_with_the_reason(
    tmp_path: Path, answer: Any, step: str, words: str
) -> None:
    trial = trial_of(tmp_path, "fedavg", terms={"policy": "quorum", "quorum": 2})
    given = answer if isinstance(answer, bytes | Away) else encode(answer)
    roster, board = gathered(trial, after=lambda name, message, found: given if name == "silo-01" else found)
    assert [member.name for member in roster.founders] == ["silo-00", "silo-02"]
    one: Mapping[str, Any] = board.status["silos"]["silo-01"]
    assert (one["step"], one["words"]) == (step, words)


def test_a_run_that_is_stopped_gathers_nobody(tmp_path: Path) -> None:
    with pytest.raises(LostWorker, match="the run was stopped at the server"):
        gathered(trial_of(tmp_path, "fedavg"), stopped=True)
