"""A silo's own service: FLARE's process, kept running, and what the silo finds out for itself after a run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from amity.engines.flare.asking import Asking
from amity.engines.flare.kept_running import KeptRunning
from amity.engines.flare.kits import silo_command
from amity.federation.approvals import runs_offered
from amity.site.config import Site, load_site
from amity.site.session import NAMELESS, read_session, trouble_in

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
    asking = Asking(folder, environment)
    session = SessionWatch(folder, network, asking, say)
    try:
        while not until():
            network.look()
            session.look()
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
        asking.end()
        network.end()


class SessionWatch:
    """The session with the server: what is wrong with it is said when that is news."""

    def __init__(self, folder: Path, network: KeptRunning, asking: Asking, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._network = network
        self._asking = asking
        self._say = say
        self._trouble = ""

    def look(self) -> None:
        """Say what is new; register anew where that helps."""
        known = read_session(self._folder)
        if known is None or known.pid != self._network.pid:  # it is of a process before this one
            return
        greeting = self._asking.look(known)
        trouble = trouble_in(greeting) or known.trouble(time.time())
        if trouble != self._trouble:
            self._trouble = trouble
            self._say(trouble or "the server answers again, and all is well")
        if trouble == NAMELESS:
            self._network.end()  # it is started again at the next look


def without_verdict(site: Site) -> list[str]:
    """Runs that are over at this silo, and have no verdict yet."""
    ended = (site.state / "runs").glob("*/ended.json")
    return sorted(file.parent.name for file in ended if not (file.parent / "verdict.json").exists())
