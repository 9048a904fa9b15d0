"""The supervisor, with a scripted engine in the network's place: what is handed in when, given up when, and said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from networks import DIGITS, small_run
from sites import contract_of, signed

from amity.errors import LostWorker
from amity.federation.run_contract import Limits
from amity.hub import requests
from amity.hub.board import Board, Phase, Step
from amity.hub.runs import HubRun, run_of, runs_of
from amity.hub.supervise import IDLE, LOOKS, START, Supervisor

NAMES = ["ash", "birch", "cedar"]


class Scripted:
    """An engine whose silos and jobs are what a test says."""

    def __init__(self) -> None:
        self.there: set[str] = set(NAMES)
        self.at_work: set[str] = set(NAMES)
        self.jobs: dict[str, bool] = {}  # whether each is over
        self.handed: list[tuple[str, list[str], int, int]] = []
        self.aborted: list[str] = []
        self.unreachable = False

    def _reach(self) -> None:
        if self.unreachable:
            raise LostWorker("nobody listens")

    def submit(self, run: str, silos: list[str], least: int, number: int) -> str:
        self._reach()
        self.handed.append((run, silos, least, number))
        job = f"job-{len(self.handed)}"
        self.jobs[job] = False
        return job

    def over(self, job: str) -> bool:
        self._reach()
        return self.jobs.get(job, True)

    def abort(self, job: str) -> None:
        self.aborted.append(job)
        self.jobs[job] = True

    def connected(self) -> set[str]:
        self._reach()
        return self.there

    def working(self, job: str) -> set[str]:
        return self.at_work


class House:
    """A hub with a supervisor, whose clock stands still unless it is told."""

    def __init__(self, hub: Path) -> None:
        self.hub = hub
        self.engine = Scripted()
        self.said: list[str] = []
        self.now = 0.0
        self.supervisor = self.restarted()

    def restarted(self) -> Supervisor:
        self.supervisor = Supervisor(self.hub, self.engine, say=self.said.append, now=lambda: self.now)
        return self.supervisor

    def add(self, name: str = "trial", **terms: Any) -> HubRun:
        invited = terms.pop("invited", NAMES)
        terms = {"quorum": len(invited), "limits": Limits(failures=2), **terms}
        contract = contract_of(small_run("fedavg"), DIGITS, invited, name=name, **terms)
        folder = self.hub / "runs" / name
        folder.mkdir(parents=True)
        (folder / "contract.json").write_text(signed(contract))
        return run_of(self.hub, name)

    def look(self, times: int = 1, seconds: float = 5.0) -> None:
        for _ in range(times):
            self.now += seconds
            self.supervisor.look()

    def board(self, run: HubRun, phase: Phase = "running", words: str = "", round: int = 0, **silos: Step) -> None:
        """What a job writes on the board."""
        board = Board(run.folder, run.status)
        for name, step in silos.items():
            board.silo(name, step)
        board.status["round"] = round
        board.phase(phase, words)
        board.status["written"] = self.now
        (run.folder / "status.json").write_text(json.dumps(board.status))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_run_is_handed_in_when_all_are_connected(house: House) -> None:
    run = house.add()
    house.engine.there = {"ash", "cedar"}
    house.look(3)
    assert house.engine.handed == [] and house.said == ["run trial: waiting for birch to connect"]
    assert run.status["phase"] == "queued" and "birch" in run.status["words"]
    assert run.status["silos"]["ash"]["step"] == "connected" and run.status["silos"]["birch"]["step"] == "invited"
    house.engine.there = set(NAMES)
    house.look()
    assert house.engine.handed == [("trial", NAMES, 3, 1)] and run.job["id"] == "job-1"
    assert "handed in for the first time, to ash, birch, cedar" in house.said[-1]
    house.board(run)
    house.look(3)
    assert len(house.engine.handed) == 1


def test_with_a_quorum_enough_are_enough(house: House) -> None:
    run = house.add(policy="quorum", quorum=2)
    house.engine.there = {"ash"}
    house.look()
    assert house.engine.handed == []
    house.engine.there = {"ash", "cedar"}
    house.look()
    assert house.engine.handed == [("trial", ["ash", "cedar"], 2, 1)] and run.job["silos"] == ["ash", "cedar"]


def test_a_job_that_has_ended_before_its_run_is_handed_in_again(house: House) -> None:
    run = house.add()
    house.look()
    house.board(run, "waiting", "the run has waited 900 s for birch", round=2)
    house.engine.jobs["job-1"] = True
    house.look(2)
    assert [number for *_, number in house.engine.handed] == [1, 2] and run.job["failures"] == 1
    assert any("waited 900 s for birch; it goes on where it was (1 of 2 failures)" in line for line in house.said)


@pytest.mark.parametrize("phase", ["ended", "incomplete", "failed", "stopped"])
def test_a_run_that_is_over_is_left_alone(house: House, phase: Phase) -> None:
    run = house.add()
    house.look()
    house.board(run, phase)
    house.engine.jobs["job-1"] = True
    house.look(5)
    assert len(house.engine.handed) == 1 and run.status["phase"] == phase


def test_a_run_that_fails_again_and_again_is_given_up_in_words(house: House) -> None:
    run = house.add()
    for _ in range(3):
        house.look()
        house.board(run, "waiting", "birch has no room")
        house.engine.jobs = dict.fromkeys(house.engine.jobs, True)
        house.look()
    assert run.status["phase"] == "failed"
    assert run.status["words"] == "given up after 3 failures, the last one: birch has no room"
    assert len(house.engine.handed) == 3
    house.look(3)
    assert len(house.engine.handed) == 3


def test_rounds_that_were_done_wipe_out_failures(house: House) -> None:
    run = house.add()
    for round in (1, 2, 3, 4, 5):
        house.look()
        house.board(run, "waiting", "birch went away", round=round)
        house.engine.jobs = dict.fromkeys(house.engine.jobs, True)
        house.look()
    assert run.status["phase"] not in ("failed", "stopped") and run.job["failures"] == 1


def test_a_job_that_is_to_regroup_is_no_failure(house: House) -> None:
    run = house.add()
    house.look()
    house.board(run, "regrouping")
    house.engine.jobs["job-1"] = True
    house.look(2)
    assert len(house.engine.handed) == 2 and run.job["failures"] == 0


def test_a_silo_that_cannot_rejoin_its_job_has_it_handed_in_again(house: House) -> None:
    run = house.add()
    house.look()
    house.board(run)
    house.look()
    house.engine.at_work = {"ash", "birch"}
    house.look(LOOKS - 1)
    first = house.now
    while house.now < first + IDLE:
        assert house.engine.aborted == []  # one look may be wrong, and a silo that is just gone is still believed in
        house.board(run)
        house.look()
    assert house.engine.aborted == ["job-1"] and run.job["id"] is None and run.job["failures"] == 1
    house.look()
    assert len(house.engine.handed) == 2 and any("cedar cannot rejoin" in line for line in house.said)


def test_a_new_job_has_time_until_its_silos_must_be_at_work(house: House) -> None:
    run = house.add()
    house.engine.at_work = set()
    house.look()
    while house.now < START:  # from its first look on
        house.board(run)
        house.look()
    assert house.engine.aborted == []
    house.look()
    assert house.engine.aborted == ["job-1"]


def test_a_silo_that_is_not_connected_is_the_jobs_affair(house: House) -> None:
    """It is waited for in the job, as the contract says: handing it in again would bring nobody."""
    run = house.add()
    house.look()
    house.board(run)
    house.engine.there = house.engine.at_work = {"ash", "birch"}
    for _ in range(30):
        house.look()
        house.board(run)
    assert house.engine.aborted == [] and not requests.asked(run.folder, "regroup")


def test_with_a_quorum_a_silo_that_is_back_is_taken_in_after_the_round(house: House) -> None:
    run = house.add(policy="quorum", quorum=2)
    house.engine.there = house.engine.at_work = {"ash", "birch"}
    house.look()
    house.now += START
    house.engine.there = set(NAMES)
    for _ in range(LOOKS + 2):
        house.board(run)
        house.look()
    assert house.engine.aborted == [] and requests.asked(run.folder, "regroup")
    assert len([line for line in house.said if "cedar is back or new" in line]) == 1
    requests.clear(run.folder, "regroup")
    house.board(run, "regrouping")
    house.engine.jobs["job-1"] = True
    house.look(2)
    assert house.engine.handed[-1][1] == NAMES


@pytest.mark.parametrize("step", ["left", "declined"])
def test_a_silo_that_does_not_take_part_is_not_missed(house: House, step: Step) -> None:
    run = house.add(policy="quorum", quorum=2)
    house.look()
    house.now += START
    house.engine.at_work = {"ash", "birch"}
    for _ in range(LOOKS + 2):
        house.board(run, cedar=step)
        house.look()
    assert house.engine.aborted == [] and not requests.asked(run.folder, "regroup")


def test_a_run_goes_on_without_a_silo_that_has_left(house: House) -> None:
    run = house.add()
    house.look()
    house.board(run, "waiting", "lost", cedar="left")
    house.engine.jobs["job-1"], house.engine.there = True, {"ash", "birch"}
    house.look(2)
    assert house.engine.handed[-1] == ("trial", ["ash", "birch"], 2, 2)


def test_a_board_that_nobody_writes_is_nobodys(house: House) -> None:
    """The job is said to be running, but its silos are not at work and its board is old."""
    run = house.add(policy="quorum", quorum=2)
    house.look()
    house.board(run)
    house.engine.at_work = set()
    house.look(1, START + 1)
    assert house.engine.aborted == ["job-1"] and run.job["id"] is None


def test_the_job_of_a_server_that_is_gone_is_handed_in_again_at_once(house: House) -> None:
    run = house.add()
    house.look()
    house.board(run)
    house.restarted()
    house.look(2)
    assert house.engine.aborted == ["job-1"] and [number for *_, number in house.engine.handed] == [1, 2]


def test_a_run_that_is_to_stop_before_its_job_begins_is_stopped(house: House) -> None:
    run = house.add()
    requests.ask(run.folder, "stop")
    house.look()
    assert house.engine.handed == [] and run.status["phase"] == "stopped"


def test_a_server_that_cannot_be_asked_is_told_of_once_and_asked_again(house: House) -> None:
    run = house.add()
    house.engine.unreachable = True
    house.look(4)
    assert house.said == ["the server cannot be asked yet: nobody listens"] and run.job["failures"] == 0
    house.engine.unreachable = False
    house.look()
    assert len(house.engine.handed) == 1
    house.engine.unreachable = True
    house.look()
    assert len([line for line in house.said if "cannot be asked" in line]) == 2


def test_an_engine_that_fails_in_between_is_asked_again(house: House) -> None:
    run = house.add()
    submit = house.engine.submit

    def fail(*given: Any) -> str:
        house.engine.submit = submit  # type: ignore[method-assign]
        raise LostWorker("the connection broke")

    house.engine.submit = fail  # type: ignore[method-assign,assignment]
    house.look()
    assert run.job["id"] is None and run.job["failures"] == 0
    house.look()
    assert run.job["id"] == "job-1" and run.job["number"] == 1


def test_runs_with_a_silo_in_common_go_one_after_the_other(house: House) -> None:
    first = house.add("first", invited=["ash", "birch"])
    second = house.add("second", invited=["birch", "cedar"])
    third = house.add("third", invited=["cedar"])
    house.look()
    assert [run for run, *_ in house.engine.handed] == ["first", "third"]
    assert second.status["words"] == "waiting for the end of run first, which has birch"
    assert "run second: waiting for the end of run first, which has birch" in house.said
    house.board(first, "gathering", "1 of 2 silos have approved", ash="declined", birch="approved")
    house.look()
    assert second.status["words"].endswith("and itself waits for ash to approve it; approve it there, or stop it")
    house.board(first, "ended")
    house.board(third, "ended")
    house.look()
    assert [run for run, *_ in house.engine.handed] == ["first", "third", "second"]


@pytest.mark.parametrize(("file", "content"), [("contract.json", "{"), ("status.json", "[]"), ("status.json", "{")])
def test_files_that_cannot_be_read_keep_no_other_run_from_going_on(house: House, file: str, content: str) -> None:
    house.add("broken", invited=["cedar"])
    house.add("whole", invited=["ash", "birch"])
    (house.hub / "runs" / "broken" / file).write_text(content)
    house.look(3)
    assert [run for run, *_ in house.engine.handed] == ["whole"]
    assert len([line for line in house.said if line.startswith("run broken: ")]) == 1


def test_a_hub_without_runs_asks_nobody(house: House) -> None:
    house.engine.unreachable = True
    house.look()
    assert house.said == [] and runs_of(house.hub) == []
