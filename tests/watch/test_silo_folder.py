"""A silo that is watched by itself: its audit, its contract, its verdict, its log."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from signed_contracts import CONTRACT
from watch.watched_folders import plan_file

from amity.federation.approvals import offer
from amity.federation.audit import Audit
from amity.report.contents import LiveRun
from amity.watch.silo_folder import SiloFolder

RUN = CONTRACT.name
BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = BEGAN

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def audit_of(state: Path) -> Audit:
    state.mkdir(exist_ok=True)
    return Audit(state / "audit.jsonl", "aurora", clock=Clock())


def live(folder: SiloFolder) -> LiveRun:
    (look,) = folder.look(BEGAN.timestamp() + 100)
    return look.live


def test_a_silo_that_nobody_has_asked(tmp_path: Path) -> None:
    assert live(SiloFolder(tmp_path, "aurora"))["words"] == "no run has asked this silo yet"


def test_a_run_that_waits_for_an_approval(tmp_path: Path) -> None:
    offer(tmp_path, RUN, "{}")
    run = live(SiloFolder(tmp_path, "aurora"))
    assert run["phase"] == "waiting" and "amity federation approve" in run["words"]


def test_a_silo_through_a_run(tmp_path: Path) -> None:
    audit, folder = audit_of(tmp_path), SiloFolder(tmp_path, "aurora")
    audit.add("received Describe", run=RUN)
    audit.add("approved", run=RUN, words="by hand")
    audit.add("sent Described", run=RUN)
    assert live(folder)["silos"][0]["state"] == "approved"

    home = tmp_path / "runs" / RUN
    home.mkdir(parents=True)
    (home / "plan.json").write_text(json.dumps(plan_file()))
    audit.add("received Train", run=RUN, round=1, bytes=2_300_000)
    run = live(folder)
    assert (run["name"], run["phase"], run["round"], run["rounds"]) == (f"{RUN}, at aurora: fedamp", "running", 0, 8)
    assert run["silos"][0]["state"] == "training" and run["silos"][0]["since"] == BEGAN.timestamp() + 4

    audit.add("sent Upload", run=RUN, round=1, bytes=2_300_000)
    (tmp_path / "worker.log").write_text("one\ntwo\n")
    (look,) = folder.look(BEGAN.timestamp() + 100)
    assert look.live["round"] == 1 and look.live["silos"][0]["state"] == "uploaded"
    assert look.live["log"] == ["one", "two"] and look.record is None
    assert [event["words"] for event in look.feed][-2:] == [
        "aurora: round 1 arrives, 2.3 MB",
        "aurora: round 1 uploaded, 2.3 MB",
    ]

    audit.add("received Finish", run=RUN, round=1)
    (home / "ended.json").write_text('{"round": 1, "left": false, "time": 1.0}')
    assert live(folder)["phase"] == "ended" and "trained now, for the verdict" in live(folder)["words"]
    (home / "verdict.json").write_text('{"words": "gains 4.2 points"}')
    assert live(folder)["words"] == "verdict: gains 4.2 points"


def test_what_is_declined_is_said_with_the_reason(tmp_path: Path) -> None:
    audit_of(tmp_path).add("declined", run=RUN, words="its policy allows 5 rounds")
    folder = SiloFolder(tmp_path, "aurora")
    silo = live(folder)["silos"][0]
    assert (silo["state"], silo["words"]) == ("declined", "its policy allows 5 rounds")
    (look,) = folder.look(0.0)
    assert (look.feed[-1]["level"], look.feed[-1]["words"]) == (
        "warning",
        "aurora: declines: its policy allows 5 rounds",
    )


def test_lines_that_are_none_and_names_that_are_none_are_left_out(tmp_path: Path) -> None:
    audit = audit_of(tmp_path)
    audit.add("received Train", run="../../etc", round=1)
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'no json\n[1]\n{"time": "never"}\n')
    assert live(SiloFolder(tmp_path, "aurora"))["words"] == "no run has asked this silo yet"


def test_damaged_files_of_a_run_are_said(tmp_path: Path) -> None:
    audit_of(tmp_path).add("received Train", run=RUN, round=1)
    (tmp_path / "runs" / RUN).mkdir(parents=True)
    (tmp_path / "runs" / RUN / "plan.json").write_text('{"contract": 5}')
    assert live(SiloFolder(tmp_path, "aurora"))["words"]
