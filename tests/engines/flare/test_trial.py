"""Runs from their beginning to a clean end, silos that are away for a while, come late, or leave."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from engines.flare import strikes
from engines.flare.strikes import RUN

from amity.engines.flare.trial import Trial, verdict
from amity.hub.runs import HubRun
from amity.record import read
from amity.site.config import load_site
from amity.site.ending import ask_to_leave

pytestmark = pytest.mark.xdist_group("flare: trial")  # one federation after the other

LONG = replace(RUN, rounds=60, epochs=300)
"""Rounds enough for a silo to go, be missed, come back and be taken in."""


def left_over(run: str) -> list[Path]:
    """Files of a run's jobs that were only needed to hand them in."""
    return list(Path(tempfile.gettempdir()).glob(f"amity-*/{run}-*"))


def took_part(run: HubRun) -> list[list[str]]:
    """The silos that took part, round by round."""
    return [line["took_part"] for line in read(run.folder / "record").lines]


@pytest.mark.slow
def test_a_clean_end(tmp_path: Path) -> None:
    with strikes.trial_in(tmp_path) as trial:
        trial.start("server", *trial.names)
        run = trial.submit(replace(RUN, rounds=2), "short")
        strikes.in_round(run, 1)
        everything = strikes.family(trial, "server", *trial.names)
        jobs = [strikes.job(trial, name) for name in ("server", *trial.names)]
        jobs += [strikes.worker(trial, name) for name in trial.names]
        assert trial.wait(run)["phase"] == "ended"
        for name in trial.names:
            assert verdict(trial, name, "short")["rounds"] == 2
        assert not psutil.wait_procs(jobs, timeout=30)[1], "a job that is over leaves no process"
        assert not [
            lock for name in trial.names for lock in trial.results(name, "short").rglob("lock") if strikes.locked(lock)
        ]
        everything += strikes.family(trial, "server", *trial.names)
    strikes.check_nothing_left(trial, everything)
    assert not left_over("short")


@pytest.mark.slow
def test_a_run_with_a_quorum_goes_on_without_a_silo_and_takes_it_in_again(tmp_path: Path) -> None:
    with strikes.trial_in(tmp_path) as trial:
        trial.start("server", *trial.names)
        run = trial.submit(LONG, "quorum", policy="quorum", quorum=2, least_rounds=LONG.rounds)
        strikes.in_round(run, 2, "east")
        began = time.monotonic()
        strikes.end_service(trial, "east")
        strikes.wait_until(lambda: run.status["silos"]["east"]["step"] == "absent")
        print(f"it was given up {time.monotonic() - began:.1f} s after the strike")
        assert run.status["silos"]["east"]["words"]
        began = time.monotonic()
        strikes.next_round(run, run.status["round"] + 2)
        print(f"two more rounds took {time.monotonic() - began:.1f} s")
        began, before = time.monotonic(), run.status["silos"]["east"]["rounds"]
        trial.start("east")
        strikes.wait_until(lambda: run.status["silos"]["east"]["rounds"] > before)
        print(f"it took part again {time.monotonic() - began:.1f} s after its start")
        status = trial.wait(run)
        missed = rounds_missed(trial, run, "east")
    assert status["phase"] == "incomplete"
    assert "east took part in" in status["words"] and "north" not in status["words"]
    told = [event for event in strikes.events(run) if event.get("silo") == "east" and event["what"] == "dropped"]
    assert [event["round"] for event in told] == missed and all(event["words"] for event in told)


def rounds_missed(trial: Trial, run: HubRun, name: str) -> list[int]:
    """The rounds that one silo was away for: in a row, neither the first nor the last; and no other missed any."""
    missed = [number for number, names in enumerate(took_part(run), 1) if name not in names]
    assert missed == list(range(missed[0], missed[-1] + 1)) and 1 < missed[0] and missed[-1] < LONG.rounds
    assert all(set(trial.names) - {name} <= set(names) for names in took_part(run))
    for silo in trial.names:
        assert set(strikes.turns(trial, silo, run.name).values()) == {1}, "no round is trained twice"
    return missed


@pytest.mark.slow
def test_a_silo_that_comes_late_and_one_that_leaves(tmp_path: Path) -> None:
    with strikes.trial_in(tmp_path) as trial:
        trial.start("server", "north", "east")
        run = trial.submit(LONG, "late", policy="quorum", quorum=2)
        strikes.next_round(run, 2)
        assert run.status["silos"]["south"]["step"] in ("invited", "absent")
        trial.start("south")
        strikes.wait_until(lambda: run.status["silos"]["south"]["rounds"] > 0)
        ask_to_leave(load_site(trial.site("east")), "late")
        strikes.wait_until(lambda: run.status["silos"]["east"]["step"] == "left")
        status = trial.wait(run)
        south = [("south" in names) for names in took_part(run)]
        east = [("east" in names) for names in took_part(run)]
        assert not south[0] and south[-1] and south == sorted(south)
        assert east[0] and not east[-1] and east == sorted(east, reverse=True)
        for name in trial.names:
            assert (trial.results(name, "late") / "model.safetensors").exists()
            assert verdict(trial, name, "late")["rounds"] <= LONG.rounds
    assert status["phase"] == "incomplete" and status["words"] == "east has left"
