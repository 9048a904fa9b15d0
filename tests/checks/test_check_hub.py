"""A hub: its own certificates, members, port and runs."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amity.checks import hub
from amity.checks.check import check
from amity.checks.findings import Account, Finding
from amity.checks.runs import check_runs
from amity.engines.flare.kits import signing_key
from amity.engines.flare.kits.members import remove
from amity.federation.signed import sign
from amity.hub.run_file import contract_of_file
from amity.hub.runs import HubRun, add_run

DRAFT = """\
name = "sepsis-1"
[data]
shape = [2]
classes = 2
[run]
method = "fedavg"
rounds = 3
"""


class InProcess:
    """Stands for the process that looks at runs, without its seconds of loading."""

    def __init__(self, work: str, folder: Path, run: Path | None = None) -> None:
        assert work == "hub", "no server runs here"
        self._what = folder, run

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def findings(self, until: float, check: str) -> list[Finding]:
        account = Account()
        with account.about(check):
            check_runs(account, *self._what)
        return account.findings


@pytest.fixture(autouse=True)
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "Child", InProcess)


def looked_at(place: Path, run: Path | None = None) -> dict[str, list[Finding]]:
    report = check(place / "hub", run)
    assert report.kind == "hub"
    found: dict[str, list[Finding]] = {}
    for one in report.findings:
        found.setdefault(one.check, []).append(one)
        assert bool(one.remedy) == (one.grade in ("WARN", "FAIL")), one
    return found


def failures(found: dict[str, list[Finding]]) -> set[str]:
    return {check for check, those in found.items() if any(one.grade == "FAIL" for one in those)}


def submitted(place: Path, **status: Any) -> HubRun:
    """Put a run into the hub, whose board says this."""
    (place / "RUN.toml").write_text(DRAFT)
    contract = contract_of_file(place / "RUN.toml", "hearts", ["north"])
    run = add_run(place / "hub", sign(contract, *signing_key(place / "hub"), datetime.now(UTC)))
    silo = {**run.status["silos"]["north"], **status.pop("north", {})}
    board = {**run.status, **status, "silos": {"north": silo}}
    (run.folder / "status.json").write_text(json.dumps(board))
    return run


def test_a_hub_whose_server_does_not_run(place: Path) -> None:
    found = looked_at(place)
    assert not failures(found)
    assert found["server"][0].grade == "WARN" and "does not run" in found["server"][0].found
    assert "North Hospital, valid until" in found["member north"][0].found
    assert found["runs"][0].found == "none yet"
    assert {found[f"{who} key"][0].grade for who in ("root", "server", "admin")} == {"PASS"}


def test_a_port_that_another_program_has(place: Path) -> None:
    port = int((place / "consortium.toml").read_text().split("port = ")[1])
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        found = looked_at(place)["server"][0]
    assert found.grade == "FAIL" and f"port {port}" in found.found


def test_all_that_is_wrong_with_the_description(place: Path) -> None:
    (place / "hub" / "consortium.toml").write_text('name = "two words"\nport = 0\n')
    found = looked_at(place)
    words = found["consortium.toml"][0].found
    assert all(part in words for part in ("name needs", "port needs", "organisation is missing"))
    assert found["server"][0].grade == "SKIP" and found["root certificate"][0].grade == "PASS"


def test_a_root_key_that_others_can_read(place: Path) -> None:
    (place / "hub" / "ca" / "root.key").chmod(0o644)
    assert failures(looked_at(place)) == {"root key"}


@pytest.mark.parametrize(("days", "grade"), [(-1, "FAIL"), (10, "WARN"), (40, "PASS")])
def test_dates_of_members(place: Path, days: int, grade: str) -> None:
    file = place / "hub" / "members" / "north.json"
    ends = (datetime.now(UTC) + timedelta(days=days)).isoformat()
    file.write_text(json.dumps({**json.loads(file.read_text()), "not_after": ends}))
    assert looked_at(place)["member north"][0].grade == grade


def test_members_that_are_none(place: Path) -> None:
    remove(place / "hub", "north")
    assert "removed on" in looked_at(place)["member north"][0].found
    (place / "hub" / "members" / "north.json").unlink()
    assert looked_at(place)["members"][0].grade == "WARN"


@pytest.mark.parametrize(
    ("status", "grade", "words"),
    [
        ({"phase": "running", "round": 2}, "PASS", "running, round 2 of 4"),
        ({"phase": "running", "written": time.time() - 1000}, "WARN", "nobody conducts it"),
        ({"phase": "running", "north": {"skew": 400.0}}, "WARN", "the clock of north is 400 s ahead"),
        ({"phase": "running", "north": {"skew": -4000.0}}, "WARN", "4,000 s behind"),
        ({"phase": "running", "north": {"amity": "9.9.0"}}, "WARN", "north has Amity 9.9.0"),
        ({"phase": "waiting", "north": {"step": "absent", "words": "no sign"}}, "WARN", "north absent (no sign)"),
        ({"phase": "failed", "words": "given up"}, "WARN", "failed, round 0 of 4, given up"),
        ({"phase": "ended", "written": 0.0, "north": {"step": "absent"}}, "PASS", "ended"),
    ],
)
def test_runs_and_their_phases(place: Path, status: dict[str, Any], grade: str, words: str) -> None:
    submitted(place, **status)
    found = looked_at(place)["run sepsis-1"][0]
    assert found.grade == grade and words in found.found


@pytest.mark.parametrize(("phase", "grade"), [("running", "FAIL"), ("ended", "WARN")])
def test_a_contract_that_was_changed_is_told_also_of_a_run_that_is_over(place: Path, phase: str, grade: str) -> None:
    run = submitted(place, phase=phase)
    text = (run.folder / "contract.json").read_text()
    (run.folder / "contract.json").write_text(text.replace('"turn":3600', '"turn":3601'))
    assert (run.folder / "contract.json").read_text() != text
    assert looked_at(place)["run sepsis-1"][0].grade == grade


def test_runs_that_are_damaged(place: Path) -> None:
    run = submitted(place)
    (place / "hub" / "runs" / "begun").mkdir()
    shutil.copytree(run.folder, place / "hub" / "runs" / "broken")
    (place / "hub" / "runs" / "broken" / "contract.json").write_text("{")
    found = looked_at(place)
    assert found["run sepsis-1"][0].grade == "PASS"
    assert found["run begun"][0].grade == "WARN" and found["run broken"][0].grade == "FAIL"


def test_a_run_that_is_to_be_submitted(place: Path) -> None:
    (place / "RUN.toml").write_text(DRAFT)
    found = looked_at(place, place / "RUN.toml")
    assert not failures(found) and "invites north" in found["contract"][0].found
    assert "the run needs about" in found["disk"][0].found
    (place / "RUN.toml").write_text(DRAFT + 'nonsense = "x"\n')
    assert "contract" in failures(looked_at(place, place / "RUN.toml"))
    submitted(place)
    assert "already" in looked_at(place, place / "RUN.toml")["contract"][0].found


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "noise": lambda content: bytes(range(256)),
    "a table": lambda content: b'{"servers": 3}',
    "a list": lambda content: b"[1, 2]",
}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_gives_a_traceback(consortium: Path, tmp_path: Path, data: st.DataObject) -> None:
    place = tmp_path / "damaged"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(consortium / "hub", place / "hub")
    files = sorted(path.relative_to(place) for path in (place / "hub").rglob("*") if path.is_file())
    file = place / data.draw(st.sampled_from(files))
    how = data.draw(st.sampled_from(["gone", *DAMAGES]))
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(DAMAGES[how](file.read_bytes()))
    assert {"versions", "memory", "server"} <= set(looked_at(place))
