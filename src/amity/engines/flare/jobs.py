"""FLARE's jobs, as the supervisor sees them: a run is handed in, watched and ended. It goes over the admin kit.

A job names the run and nothing else. Its files are written here, as FLARE reads them: FLARE's own job API drops
arguments that it does not know.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from amity.engines.flare.kits import admin_kit, admin_user
from amity.engines.flare.kits.process import HEARTBEAT
from amity.engines.flare.kits.resources import CONTROLLER, EXECUTOR
from amity.engines.flare.letters import LETTER
from amity.errors import LostWorker

ENDED = ("FINISHED:", "FAILED", "ABORTED", "ABANDONED", "REJECTED")

HEARD = 3.0 * HEARTBEAT
"""Seconds after its last heartbeat at which a silo counts as gone."""

_log = logging.getLogger("amity.jobs")


class Jobs:
    """A session with the server of a hub. Used as a context: leaving it closes the session."""

    def __init__(self, hub: Path) -> None:
        self._hub = hub
        self._session: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session; the next question begins a new one."""
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except Exception as error:
                _log.debug("closing a session: %s", error)

    def submit(self, run: str, silos: Sequence[str], least: int, number: int) -> str:
        """Hand in a run for the so many-th time; the job's name comes back."""
        with tempfile.TemporaryDirectory(prefix="amity-") as folder:
            place = Path(folder) / f"{run}-{number}"
            write_job(place, run, silos, least)
            return str(self._ask("submit_job", str(place)))

    def over(self, job: str) -> bool:
        """Whether a job has ended, however that was."""
        status = str(self._ask("get_job_status", job) or "")
        return status.startswith(ENDED)

    def abort(self, job: str) -> None:
        """End a job. One that the server only believes to be running is not there to be ended, which is well."""
        try:
            self._ask("abort_job", job)
        except LostWorker as error:
            if "not running" not in str(error) and "not found" not in str(error):
                raise

    def connected(self) -> set[str]:
        """Silos that the server hears of. FLARE itself believes in one for ten minutes after its last heartbeat."""
        info, now = self._ask("get_system_info"), time.time()
        return {str(client.name) for client in info.client_info if now - (client.last_connect_time or 0.0) < HEARD}

    def working(self, job: str) -> set[str]:
        """Silos whose process of this job is there."""
        found = self._ask("get_client_job_status") or []
        return {str(one.get("client_name")) for one in found if one.get("job_id") == job or one.get("id") == job}

    def _ask(self, what: str, *arguments: Any) -> Any:
        """Ask the server something; whatever goes wrong on the way means that it cannot be asked now."""
        try:
            if self._session is None:
                from nvflare.fuel.flare_api.flare_api import new_secure_session

                with contextlib.redirect_stdout(io.StringIO()):  # FLARE says that it is connecting
                    self._session = new_secure_session(admin_user(self._hub), str(admin_kit(self._hub)), timeout=10.0)
            return getattr(self._session, what)(*arguments)
        except Exception as error:
            self.close()
            raise LostWorker(f"the server cannot be asked ({what}: {type(error).__name__}: {error})") from error


def write_job(folder: Path, run: str, silos: Sequence[str], least: int) -> None:
    """Write the files of a job."""
    meta = {
        "name": run,
        "resource_spec": {},
        "min_clients": least,
        "mandatory_clients": [],
        "deploy_map": {"app": ["server", *silos]},
    }
    server = {
        "format_version": 2,
        "server": {"task_request_interval": 0.05},  # seconds; FLARE's own is 2, which would be most of a round
        "workflows": [{"id": "amity", "path": CONTROLLER, "args": {"run": run}}],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    silo = {
        "format_version": 2,
        "get_task_timeout": 120.0,  # seconds; FLARE's own is 5, after which a slow link would carry everything twice
        "submit_task_result_timeout": 120.0,
        "executors": [{"tasks": [LETTER], "executor": {"path": EXECUTOR, "args": {}}}],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    config = folder / "app" / "config"
    config.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps(meta))
    (config / "config_fed_server.json").write_text(json.dumps(server))
    (config / "config_fed_client.json").write_text(json.dumps(silo))
