"""The server of a consortium: FLARE's process, kept running, and the supervisor of the hub's runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from amity.engines.flare.jobs import Jobs
from amity.engines.flare.kept_running import KeptRunning
from amity.engines.flare.kits import server_command
from amity.hub.doubles import Doubles
from amity.hub.supervise import Supervisor

EVERY = 2.0
"""Seconds between two looks."""


def serve_hub(hub: Path, say: Callable[[str], None], until: Callable[[], bool] = lambda: False) -> None:
    """Serve a consortium until interrupted, or until `until` says so."""
    command, environment = server_command(hub)
    network = KeptRunning(command, environment, hub / "server.err", say)
    doubles = Doubles(hub, say)
    with Jobs(hub) as jobs:
        known: tuple[int, Supervisor] | None = None
        try:
            while not until():
                network.look()
                if network.pid is not None:
                    if known is None or known[0] != network.pid:  # which knows nothing of the jobs of the one before
                        known = network.pid, Supervisor(hub, jobs, say=say)
                    known[1].look()
                doubles.look()
                time.sleep(EVERY)
        finally:
            jobs.close()
            network.end()
