"""Processes that are killed or frozen in the middle of a round: the run comes out as if nothing had happened.

Every test strikes a federation of three silos in round 2 of 3, and requires the models of a simulation that nobody has
struck, and that each silo has trained each round once. Where only processes of a run are lost, the federation is the
same for all tests: it has been struck before, and is none the worse for it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    with closing(tmp_path) as trial:
        yield trial


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    with closing(tmp_path_factory.mktemp("lasting")) as trial:
        yield trial


@contextmanager
def closing(folder: Path) -> Iterator[Trial]:
    """A federation at work, of which nothing may be left."""
    with strikes.trial_in(folder) as trial:
        trial.start("server", *trial.names)
        yield trial
        family = strikes.family(trial, "server", *trial.names)
    strikes.check_nothing_left(trial, family)


def struck(trial: Trial, strike: Strike, **terms: object) -> None:
    """Strike in a round, and require that all comes out well."""
    strikes.wait_until(lambda: strikes.at_rest(trial))
    run = trial.submit(RUN, strike.__name__.replace("_", "-"), **terms)
    strikes.in_round(run, STRUCK, "east")
    before = strikes.family(trial, "server", *trial.names)
    began = time.monotonic()
    strike(trial)
    assert run.status["round"] == STRUCK - 1, "the strike came after the round that it was meant for"
    strikes.next_round(run, STRUCK)
    print(f"{strike.__name__}: {time.monotonic() - began:.1f} s from the strike to the end of its round")
    status = trial.wait(run)
    strikes.check_as_if_nothing_happened(trial, run, status)
    told = [event["words"] for event in strikes.events(run) if event["what"] == "note"]
    again = f"the run goes on after round {STRUCK - 1}"
    assert len([words for words in told if words.startswith(again)]) == status["jobs"] - 1
    strikes.wait_until(lambda: strikes.at_rest(trial))
    strikes.check_ended(set(before) - set(strikes.family(trial, "server", *trial.names)))


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


@pytest.mark.parametrize("strike", QUICK)
def test_a_process_is_killed(lasting: Trial, strike: Strike) -> None:
    struck(lasting, strike)


@pytest.mark.slow
@pytest.mark.parametrize("strike", LONGER)
def test_more_is_lost(trial: Trial, strike: Strike) -> None:
    struck(trial, strike)


@pytest.mark.slow
def test_a_silo_is_given_up_and_comes_back(trial: Trial) -> None:
    """Its turn may take 20 s, and no sign of life comes for longer than anybody waits for one."""
    struck(trial, frozen_beyond_its_time, limits={"turn": 20})
