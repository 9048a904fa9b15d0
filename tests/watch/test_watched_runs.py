"""The live page follows real runs: from round 1 to the end, with dropped silos, a kill and a resume."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from watch.following import Follower

from amity.watch.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROUNDS = 12
EPOCHS = 150  # so that a round takes about a second: it can be seen, and killed
RUN = (
    f"run fedamp --data digits --setting iid --clients 5 --model mlp --rounds {ROUNDS} --epochs {EPOCHS} --workers 1 "
    "--engine loop --drop 0.3 --seed 3"
).split()


@contextmanager
def amity(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Start the command as a program of its own, and see that it ends."""
    with subprocess.Popen(
        [sys.executable, "-m", "amity", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as program:
        try:
            yield program
        finally:
            program.kill()


def address_of(program: subprocess.Popen[str]) -> str:
    """The address that a command with --watch prints."""
    assert program.stderr is not None
    line = program.stderr.readline()
    found = re.search(r"live page: (http://127\.0\.0\.1:\d+/)", line)
    assert found is not None, line
    return found[1]


@pytest.mark.slow
def test_a_run_is_followed_over_a_kill_and_a_resume_without_a_reload(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run"
    with serving([path]) as address, Follower(browser, address.url, patience=90) as page:
        page.shows("holds no run yet")
        with amity(*RUN, "--out", path) as first:
            page.reaches(1)
            page.shows("absent", "dropped before training", "running", "uploaded", "returned", "left")
            page.reaches(4)
            first.kill()  # SIGKILL
        page.shows("its process is gone", f"amity run --out {path} --resume")
        with amity("run", "--out", path, "--resume") as second:
            page.shows("running")
            page.shows(f"{ROUNDS} of {ROUNDS}", "2 finished")
            assert second.stderr is not None
            said = second.stderr.read()
            assert second.wait(60) == 0, said
        page.shows_anywhere("Who helps whom", "Was joining worth it")
        assert page.reloads == 0 and page.problems == []


@pytest.mark.slow
def test_a_run_that_serves_its_own_page_shows_its_end_and_then_ends(browser: Browser, tmp_path: Path) -> None:
    with amity(*RUN, "--no-alone", "--out", tmp_path / "run", "--watch") as run:
        with Follower(browser, address_of(run), patience=90) as page:
            page.reaches(2)
            page.connection("over")
            page.shows(f"{ROUNDS} of {ROUNDS}", "finished")
            assert page.reloads == 0
        assert run.wait(60) == 0


@pytest.mark.slow
def test_a_killed_run_that_served_its_own_page_is_shown_as_gone(browser: Browser, tmp_path: Path) -> None:
    with amity(*RUN, "--no-alone", "--out", tmp_path / "run", "--watch") as run:
        with Follower(browser, address_of(run), patience=90) as page:
            page.reaches(2)
            run.kill()
            page.shows("its process is gone")
            page.connection("over")
