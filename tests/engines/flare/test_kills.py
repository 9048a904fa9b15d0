"""Processes that are killed or frozen in the middle of a round: the run comes out as if nothing had happened.

Every test strikes a federation of three silos in round 2 of 4, and requires the models of a simulation that nobody has
struck, and that each silo has trained each round once. One strikes again in each round that follows.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from engines.flare import strikes
from engines.flare.strikes import RUN, STRUCK

from amity.engines.flare.trial import Trial

pytestmark = pytest.mark.xdist_group("flare: kills")  # one federation after the other: each has a dozen processes

Strike = Callable[[Trial], None]


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with strikes.trial_in(tmp_path) as trial:
        trial.start("server", *trial.names)
        yield trial


def struck(trial: Trial, *each: Strike, **terms: object) -> None:
    """Strike in a round, and in those that follow, and require that all comes out well."""
    run = trial.submit(RUN, "struck", **terms)
    before: set[psutil.Process] = set()
    for number, strike in enumerate(each, STRUCK):
        strikes.in_round(run, number, "east")
        before |= set(strikes.family(trial, "server", *trial.names))
        began = time.monotonic()
        strike(trial)
        assert run.status["round"] == number - 1, "the strike came after the round that it was meant for"
        strikes.next_round(run, number)
        print(f"{strike.__name__}: {time.monotonic() - began:.1f} s from the strike to the end of its round")
    status = trial.wait(run)
    family = before | set(strikes.family(trial, "server", *trial.names))
    trial.__exit__(None, None, None)  # now: silos have begun to train alone, for verdicts that nobody needs here
    strikes.check_nothing_left(trial, family)
    strikes.check_as_if_nothing_happened(trial, run, status)
    told = [event["words"] for event in strikes.events(run) if event["what"] == "note"]
    again = [words for words in told if words.startswith("the run goes on after round ")]
    # A strike that comes when the silo's answer is already there does not undo the round.
    rounds = {f"round {number - late}" for number, _ in enumerate(each, STRUCK) for late in (0, 1)}
    assert len(again) == status["jobs"] - 1 and all(any(one in words for one in rounds) for words in again)


def the_training_process(trial: Trial) -> None:
    strikes.worker(trial, "east").kill()


def a_silos_job_process(trial: Trial) -> None:
    orphan = strikes.worker(trial, "east")
    strikes.job(trial, "east").kill()
    orphan.wait(5)  # it would hold the silo's state, and train for nobody


def the_servers_job_process(trial: Trial) -> None:
    strikes.job(trial, "server").kill()


def a_whole_silo(trial: Trial) -> None:
    strikes.end_service(trial, "east")
    time.sleep(5)
    trial.start("east")


def the_whole_server(trial: Trial) -> None:
    strikes.end_service(trial, "server")
    time.sleep(5)
    trial.start("server")


def a_silos_network_process(trial: Trial) -> None:
    strikes.the("kits.process", strikes.family(trial, "east")).kill()


def the_servers_network_process(trial: Trial) -> None:
    strikes.the("kits.process", strikes.family(trial, "server")).kill()


def a_silos_service_alone(trial: Trial) -> None:
    """What it has started ends with it, and does not keep the next one from starting."""
    before = strikes.family(trial, "east")
    trial.end("east", how=signal.SIGKILL)
    assert not psutil.wait_procs(before[1:], timeout=10)[1]
    trial.start("east")


def frozen_for_a_while(trial: Trial) -> None:
    frozen = strikes.family(trial, "east")
    strikes.kill(frozen, signal.SIGSTOP)
    time.sleep(20)
    strikes.kill(frozen, signal.SIGCONT)


def frozen_beyond_its_time(trial: Trial) -> None:
    frozen = strikes.family(trial, "east")
    strikes.kill(frozen, signal.SIGSTOP)
    time.sleep(60)
    strikes.kill(frozen, signal.SIGCONT)


def everybody_is_told_to_end(trial: Trial) -> None:
    """As when machines are restarted: SIGTERM, and all come back."""
    names = ["server", *trial.names]
    before = strikes.family(trial, *names)
    for name in names:
        trial.end(name, wait=False)
    for name in names:
        trial.end(name)
    strikes.check_nothing_left(trial, before)
    trial.start(*names)


QUICK = (the_training_process, a_silos_job_process, the_servers_job_process)
LONGER = (
    a_whole_silo,
    the_whole_server,
    a_silos_network_process,
    the_servers_network_process,
    a_silos_service_alone,
    frozen_for_a_while,
    everybody_is_told_to_end,
)


def test_a_process_of_the_run_is_killed_in_each_of_three_rounds(trial: Trial) -> None:
    struck(trial, *QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("strike", (*QUICK, *LONGER))
def test_one_strike_alone(trial: Trial, strike: Strike) -> None:
    struck(trial, strike)


@pytest.mark.slow
def test_a_silo_is_given_up_and_comes_back(trial: Trial) -> None:
    """Its turn may take 20 s, and no sign of life comes for longer than anybody waits for one."""
    struck(trial, frozen_beyond_its_time, limits={"turn": 20})
