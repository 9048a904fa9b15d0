"""Launchers of job processes that start a killed one again, so that it rejoins its job: FLARE's own end the job.

A process that ends by itself, with whatever it has to say, is left alone; so is one that FLARE has told to end.

A launcher is the one part of ours in a site's own FLARE process. So it also brings what is said with heartbeats.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobHandleSpec, JobReturnCode
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher

from amity.engines.flare.greetings import ServerGreetings, SiloGreetings

RESTARTS = 20
"""How often the process of one job is started again."""

_log = logging.getLogger("amity.launcher")


class Restarting(JobHandleSpec):  # type: ignore[misc]  # FLARE has no types
    """A job's process, started again whenever it was killed."""

    def __init__(self, launch: Callable[[], ProcessHandle]) -> None:
        super().__init__()
        self._launch = launch
        self._lock = threading.Lock()
        self._told_to_end = False
        self._restarts = 0
        self._handle = launch()

    def terminate(self, heartbeat_cleanup: bool = False) -> None:
        with self._lock:
            self._told_to_end = True
            self._handle.terminate()

    def poll(self) -> Any:
        with self._lock:
            if not self._killed():
                return self._handle.poll()
            self._restarts += 1
            _log.warning("the job's process was killed: it is started again (%d of %d)", self._restarts, RESTARTS)
            self._handle = self._launch()
            return JobReturnCode.UNKNOWN

    def wait(self) -> None:
        while True:
            handle = self._handle
            handle.wait()
            if self.poll() != JobReturnCode.UNKNOWN:
                return

    def _killed(self) -> bool:
        """Whether the process has ended by a signal that FLARE did not send."""
        code = self._handle.adapter.poll()
        by_signal = code is not None and code < -1  # -1 is FLARE's own: another thread has seen the end of it first
        return by_signal and not self._told_to_end and self._restarts < RESTARTS


class ServerJobLauncher(ServerProcessJobLauncher):  # type: ignore[misc]
    """Starts the server's process of a job."""

    def __init__(self) -> None:
        super().__init__()
        self._greetings = ServerGreetings()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        super().handle_event(event_type, fl_ctx)
        self._greetings.handle(event_type, fl_ctx)

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> JobHandleSpec:
        return Restarting(lambda: super(ServerJobLauncher, self).launch_job(job_meta, fl_ctx))


class SiloJobLauncher(ClientProcessJobLauncher):  # type: ignore[misc]
    """Starts a silo's process of a job."""

    def __init__(self) -> None:
        super().__init__()
        self._greetings = SiloGreetings()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        super().handle_event(event_type, fl_ctx)
        self._greetings.handle(event_type, fl_ctx)

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> JobHandleSpec:
        return Restarting(lambda: super(SiloJobLauncher, self).launch_job(job_meta, fl_ctx))
