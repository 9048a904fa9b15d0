"""A silo's own service: FLARE's process, kept running, and what the silo finds out for itself after a run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from amity.engines.flare.kept_running import KeptRunning
from amity.engines.flare.kits import silo_command
from amity.federation.approvals import runs_offered
from amity.site.config import Site, load_site
from amity.site.session import read_session

EVERY = 2.0
"""Seconds between two looks."""

TRIES = 3
"""How often a verdict is tried: what trains for it may be killed, for want of memory or by somebody."""


def serve_site(folder: Path, say: Callable[[str], None], until: Callable[[], bool] = lambda: False) -> None:
    """Serve a silo until interrupted, or until `until` says so."""
    site = load_site(folder)
    command, environment = silo_command(folder)
    network = KeptRunning(command, environment, folder / "silo.err", say)
    finishing: subprocess.Popen[bytes] | None = None
    tries: Counter[str] = Counter()
    told: set[str] = set()
    trouble = ""
    try:
        while not until():
            network.look()
            trouble = tell_trouble(folder, network.pid, trouble, say)
            offered = set(runs_offered(site.state))
            for run in sorted(offered - told):
                say(f"run {run} waits for approval: amity federation approve {run} --site {folder}")
            told = offered
            if finishing is None and (due := [run for run in without_verdict(site) if tries[run] < TRIES]):
                tries.update(due)
                say(f"run {', '.join(due)} is over: the model alone is trained here, for the verdict")
                finishing = subprocess.Popen(
                    [sys.executable, "-m", "amity.site.finishing"], env=environment, stdin=subprocess.DEVNULL
                )
            elif finishing is not None and finishing.poll() is not None:
                finishing = None
            time.sleep(EVERY)
    finally:
        if finishing is not None:
            finishing.terminate()
            finishing.wait()
        network.end()


def tell_trouble(folder: Path, process: int | None, before: str, say: Callable[[str], None]) -> str:
    """Say what is wrong between this silo and the server, where that is news; what is wrong comes back."""
    session = read_session(folder)
    if session is None or session.pid != process:  # it is of a process before this one
        return before
    now = session.trouble(time.time())
    if now != before:
        say(now or "the server answers again, and all is well")
    return now


def without_verdict(site: Site) -> list[str]:
    """Runs that are over at this silo, and have no verdict yet."""
    ended = (site.state / "runs").glob("*/ended.json")
    return sorted(file.parent.name for file in ended if not (file.parent / "verdict.json").exists())
