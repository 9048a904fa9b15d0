"""The live pages of a federation that runs: the server's and a silo's, in a real browser."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from engines.flare import strikes
from engines.flare.strikes import RUN
from watch.following import Follower

from amity.engines.flare.trial import Trial

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.xdist_group("flare: trial")

SLOW = 120.0
"""Seconds that a page may take: it is the last to be given time where a dozen processes want it."""


def page_of(trial: Trial, name: str, seconds: float = 60.0) -> str:
    """The address of a service's live page, which it says when it starts."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = re.search(r"live page: (\S+)", (trial.folder / f"{name}.log").read_text())
        if found:
            return found[1]
        time.sleep(0.2)
    raise AssertionError(f"{name} has not said where its live page is")


@pytest.mark.slow
def test_the_pages_of_a_server_and_of_a_silo_follow_a_run(browser: Browser, tmp_path: Path) -> None:
    with strikes.trial_in(tmp_path) as trial:
        first, *others = trial.names
        trial.start("server", first, watch=True)
        trial.start(*others)
        with (
            Follower(browser, page_of(trial, "server"), SLOW) as hub,
            Follower(browser, page_of(trial, first), SLOW) as silo,
        ):
            run = trial.submit(replace(RUN, rounds=8, epochs=100), "watched")
            strikes.in_round(run, 2)
            hub.shows("watched", "running", "of 8", *trial.names)
            silo.shows("watched")
            for name, page in (("hub", hub), ("silo", silo)):
                page.page.screenshot(path=tmp_path / f"{name}-running.png", full_page=True)
            assert trial.wait(run)["phase"] == "ended"
            trial.wait_for(trial.results(first, "watched") / "verdict.json")
            hub.shows("8 of 8")
            silo.shows("watched")
            for name, page in (("hub", hub), ("silo", silo)):
                page.page.screenshot(path=tmp_path / f"{name}-ended.png", full_page=True)
            others_names = [name for name in others if name in silo.page.inner_text("body")]
            assert others_names == []  # a silo's page knows of nobody else's scores
            assert hub.reloads == silo.reloads == 0 and hub.problems == silo.problems == []
