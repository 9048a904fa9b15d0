"""Processes that are killed or frozen in the middle of a round: the run comes out as if nothing had happened.

Every test strikes a federation of three silos in round 2 of 4, and requires the models of a simulation that nobody has
struck, and that each silo has trained each round once. One strikes again in each round that follows.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path

import psutil
import pytest
from engines.flare import strikes
from engines.flare.strikes import RUN, STRUCK

from amity.engines.flare.kits.resources import ANSWERED
from amity.engines.flare.trial import Trial
from amity.hub.runs import HubRun

pytestmark = pytest.mark.xdist_group("flare: kills")  # one federation after the other: each has a dozen processes

Strike = Callable[[Trial], Iterator[None]]
"""A blow, until it yields, and what people or machines do after it. The worker of the silo east is frozen during the
blow, so that its answer cannot be there yet."""


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
        strikes.in_round(run, number, "east", into=0.05)
        with strikes.held_back(trial, "east"):
            assert number not in strikes.turns(trial, "east", run.name), "its turn was over too early"
            before |= set(strikes.family(trial, "server", *trial.names))
            began = time.monotonic()
            steps = strike(trial)
            next(steps)
        assert next(steps, True), "a strike yields once"
        strikes.next_round(run, number)
        print(f"{strike.__name__}: {time.monotonic() - began:.1f} s from the strike to the end of its round")
    check_at_the_end(trial, run, before, range(STRUCK - 1, STRUCK - 1 + len(each)))


def check_at_the_end(trial: Trial, run: HubRun, before: set[psutil.Process], after: Container[int]) -> None:
    """Require that a run ends well, and that its jobs went on after these rounds: the last ones that were done."""
    status = trial.wait(run)
    family = before | set(strikes.family(trial, "server", *trial.names))
    trial.__exit__(None, None, None)  # now: silos have begun to train alone, for verdicts that nobody needs here
    strikes.check_nothing_left(trial, family)
    strikes.check_as_if_nothing_happened(trial, run, status)
    told = [event for event in strikes.events(run) if event["what"] == "note"]
    again = [event for event in told if event["words"].startswith("the run goes on after round ")]
    assert len(again) == status["jobs"] - 1
    assert all(event["round"] in after and f"after round {event['round']}," in event["words"] for event in again)


def the_training_process(trial: Trial) -> Iterator[None]:
    strikes.worker(trial, "east").kill()
    yield


def a_silos_job_process(trial: Trial) -> Iterator[None]:
    orphan = strikes.worker(trial, "east")
    strikes.job(trial, "east").kill()
    yield
    orphan.wait(5)  # it would hold the silo's state, and train for nobody


def the_servers_job_process(trial: Trial) -> Iterator[None]:
    strikes.job(trial, "server").kill()
    yield


def a_whole_silo(trial: Trial) -> Iterator[None]:
    strikes.end_service(trial, "east")
    yield
    time.sleep(5)
    trial.start("east")


def the_whole_server(trial: Trial) -> Iterator[None]:
    strikes.end_service(trial, "server")
    yield
    time.sleep(5)
    trial.start("server")


def a_silos_network_process(trial: Trial) -> Iterator[None]:
    """The run's process is connected to the server by itself, and works on for some seconds, until it notices."""
    orphans = [strikes.job(trial, "east"), strikes.worker(trial, "east")]
    strikes.the("kits.process", strikes.family(trial, "east")).kill()
    strikes.gone(orphans, 30)
    yield


def the_servers_network_process(trial: Trial) -> Iterator[None]:
    strikes.the("kits.process", strikes.family(trial, "server")).kill()
    yield


def a_silos_service_alone(trial: Trial) -> Iterator[None]:
    """What it has started ends with it, and does not keep the next one from starting."""
    before = strikes.family(trial, "east")
    frozen = strikes.worker(trial, "east")
    trial.end("east", how=signal.SIGKILL)
    strikes.gone(process for process in before[1:] if process != frozen)
    yield
    strikes.gone([frozen])
    trial.start("east")


def frozen_for_a_while(trial: Trial) -> Iterator[None]:
    frozen = strikes.family(trial, "east")
    strikes.kill(frozen, signal.SIGSTOP)
    time.sleep(20)
    strikes.kill(frozen, signal.SIGCONT)
    yield


def frozen_beyond_its_time(trial: Trial) -> Iterator[None]:
    frozen = strikes.family(trial, "east")
    strikes.kill(frozen, signal.SIGSTOP)
    time.sleep(60)
    strikes.kill(frozen, signal.SIGCONT)
    yield


def everybody_is_told_to_end(trial: Trial) -> Iterator[None]:
    """As when machines are restarted: SIGTERM, and all come back."""
    names = ["server", *trial.names]
    before = strikes.family(trial, *names)
    frozen = strikes.worker(trial, "east")
    for name in names:
        trial.end(name, wait=False)
    trial.end("server")
    yield
    strikes.gone([frozen])  # it could not end before
    for name in trial.names:
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
def test_a_strike_after_the_answer_does_not_undo_the_round(trial: Trial) -> None:
    """East has sent its upload when its network process is killed; the round waits for north alone."""
    run = trial.submit(RUN, "struck")
    strikes.in_round(run, STRUCK, "north", into=0.05)
    with strikes.held_back(trial, "north"):
        before = set(strikes.family(trial, "server", *trial.names))
        strikes.wait_until(lambda: run.status["silos"]["east"]["step"] == "uploaded")
        orphan = strikes.worker(trial, "east")
        strikes.the("kits.process", strikes.family(trial, "east")).kill()
        strikes.gone([orphan], 30)
        assert run.status["round"] == STRUCK - 1
    check_at_the_end(trial, run, before, [STRUCK])


@pytest.mark.slow
def test_silos_do_not_wait_for_an_answer_of_a_process_that_was_killed(trial: Trial) -> None:
    """North and south are asking the server for work when it dies, and their questions were on their way."""
    run = trial.submit(RUN, "struck")
    strikes.in_round(run, STRUCK, "east", into=0.05)
    with strikes.held_back(trial, "east"):
        before = set(strikes.family(trial, "server", *trial.names))
        strikes.wait_until(lambda: all(run.status["silos"][name]["step"] == "uploaded" for name in ("north", "south")))
        server = strikes.job(trial, "server")
        server.suspend()
        time.sleep(2)
        server.kill()
    seconds = strikes.next_round(run, STRUCK)
    print(f"{seconds:.1f} s from the strike to the end of its round")
    assert seconds < ANSWERED / 2
    check_at_the_end(trial, run, before, [STRUCK - 1])


@pytest.mark.slow
def test_a_silo_is_given_up_and_comes_back(trial: Trial) -> None:
    """Its turn may take 20 s, and no sign of life comes for longer than anybody waits for one."""
    struck(trial, frozen_beyond_its_time, limits={"turn": 20})
