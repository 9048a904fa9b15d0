"""Approvals by hand: for one contract at one silo, and nothing else that lies in the folder counts."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signed_contracts import CONTRACT

from amity.errors import InputError
from amity.federation.approvals import (
    Approval,
    approve,
    offer,
    offered,
    read_approvals,
    runs_offered,
    settle,
    withdraw,
)

WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def given_at(state: Path, silo: str = "aurora") -> Path:
    """The file of an approval."""
    approve(state, CONTRACT, silo, "ada", WHEN)
    return state / "approvals" / f"{CONTRACT.name}.{CONTRACT.hash()}.json"


def test_an_approval_is_read_back_and_withdrawn(tmp_path: Path) -> None:
    assert read_approvals(tmp_path, "aurora") == ((), ())
    file = given_at(tmp_path)
    wanted = Approval(CONTRACT.hash(), "sepsis-1", "aurora", "ada", "2026-03-01T12:00:00+00:00")
    assert read_approvals(tmp_path, "aurora") == ((wanted,), ())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    other = approve(tmp_path, replace(CONTRACT, name="other"), "aurora", "ada", WHEN)
    assert withdraw(tmp_path, "sepsis-1", "aurora") == [wanted] and not file.exists()
    assert withdraw(tmp_path, "sepsis-1", "aurora") == []
    assert read_approvals(tmp_path, "aurora").given == (other,)


def test_an_approval_given_at_another_silo_does_not_count(tmp_path: Path) -> None:
    given_at(tmp_path, "borea")
    given, refused = read_approvals(tmp_path, "aurora")
    assert given == () and "it was given at 'borea', this is 'aurora'" in refused[0]


@given(contract=st.sampled_from(["0" * 64, CONTRACT.hash()]), run=st.sampled_from(["other", "sepsis-1"]))
def test_name_and_content_must_agree(tmp_path_factory: pytest.TempPathFactory, contract: str, run: str) -> None:
    state = tmp_path_factory.mktemp("state")
    file = given_at(state)
    content = {**json.loads(file.read_text()), "contract": contract, "run": run}
    file.write_text(json.dumps(content))
    unchanged = (contract, run) == (CONTRACT.hash(), "sepsis-1")
    given, refused = read_approvals(state, "aurora")
    assert bool(given) == unchanged == (not refused)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is no JSON"),
        ("[]", "it is no table"),
        ("{}", "it lacks contract"),
        ('{"who": 1}', "it lacks"),
        ("x" * 5000, "it is no plain file of an approval"),
        ("\xff", "no JSON"),
    ],
)
def test_what_is_no_approval_keeps_no_other_from_counting(tmp_path: Path, content: str, why: str) -> None:
    file = given_at(tmp_path)
    (file.parent / "wrong.json").write_text(content)
    (file.parent / "wrong.json").chmod(0o600)
    given, refused = read_approvals(tmp_path, "aurora")
    assert len(given) == 1 and len(refused) == 1 and why in refused[0] and refused[0].endswith("approve anew")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_can_write_does_not_count(tmp_path: Path, mode: int) -> None:
    given_at(tmp_path).chmod(mode)
    given, refused = read_approvals(tmp_path, "aurora")
    assert given == () and "others than its owner can write to it" in refused[0]


def test_a_link_is_no_approval(tmp_path: Path) -> None:
    file = given_at(tmp_path)
    file.rename(tmp_path / "elsewhere.json")
    file.symlink_to(tmp_path / "elsewhere.json")
    assert read_approvals(tmp_path, "aurora").given == ()


@pytest.mark.parametrize("who", ["a\nb", "\x1b[2J"])
def test_who_approves_is_a_plain_name(tmp_path: Path, who: str) -> None:
    with pytest.raises(InputError, match="an approval says who gives it"):
        approve(tmp_path, CONTRACT, "aurora", who, WHEN)


def test_contracts_wait_until_they_are_settled(tmp_path: Path) -> None:
    assert runs_offered(tmp_path) == []
    offer(tmp_path, "sepsis-1", "{}")
    offer(tmp_path, "other", "[]")
    assert offered(tmp_path, "sepsis-1") == "{}" and runs_offered(tmp_path) == ["other", "sepsis-1"]
    settle(tmp_path, "sepsis-1")
    settle(tmp_path, "sepsis-1")
    with pytest.raises(InputError, match="no contract of run 'sepsis-1' waits for an approval here, waiting: other"):
        offered(tmp_path, "sepsis-1")


def test_runs_are_no_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a run's name is letters"):
        offer(tmp_path, "../../etc/passwd", "")
    with pytest.raises(InputError, match="a run's name is letters"):
        offered(tmp_path, "../../etc/passwd")
    (tmp_path / "pending").mkdir(exist_ok=True)
    (tmp_path / "pending" / "long.json").write_text(" " * 10**6)
    with pytest.raises(InputError, match="too long for a contract"):
        offered(tmp_path, "long")
    (tmp_path / "pending" / "odd.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        offered(tmp_path, "odd")
