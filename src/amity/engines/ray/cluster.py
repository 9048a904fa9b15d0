"""A Ray cluster to be part of: started and ended, kept private, and looked after while it lasts. See engine.py.

Ray ends the process of a driver, without a word and from a thread of its own, soon after it has lost the local raylet
(which goes when one of its agents does) or the cluster's head. So whoever calls Ray asks `Health` first. For what comes
in between, and for a driver that is killed, there is a process that outlives it: `watch.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from amity.errors import InputError


class ClusterLost(InputError):
    """The cluster has broken down, and with it the states of silos since they were last read."""


def check(device: str) -> None:
    """Refuse what this engine cannot do, before anything is computed."""
    if importlib.util.find_spec("ray") is None:
        raise InputError("the ray engine needs ray: pip install 'amity[ray]'")
    if device != "cpu":
        raise InputError(f"the ray engine computes on cpu, got device {device!r}: use another engine, or cpu")


@contextmanager
def cluster(address: str, workers: int) -> Iterator[None]:
    """Be part of a Ray cluster: the one this process has joined, else a private one ("local"), else `address`."""
    check("cpu")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # a failed turn is told once, not again for its state
    if address == "local":
        keep_private()
    ray = importlib.import_module("ray")
    if ray.is_initialized():
        yield
    elif address == "local":
        with _folder() as folder, _watched(folder):
            # Ray's niceness of 15 is for workers beside somebody's other work.
            own = {"num_cpus": workers, "include_dashboard": False, "_system_config": {"worker_niceness": 0}}
            with _joined(ray, address, {**own, "_temp_dir": str(folder / "r")}):
                yield
    else:
        with _joined(ray, address, {}):
            yield


class Health:
    """Whether the processes are there without which Ray would end this one."""

    def __init__(self, ray: Any) -> None:
        self._worker = ray._private.worker.global_worker
        node = self._worker.node
        started = {kind: infos[0].process for kind, infos in node.all_processes.items()}
        self._started = {kind: started[kind] for kind in ("gcs_server", "raylet") if kind in started}
        self._agents = _agents(self._started["raylet"].pid) if "raylet" in started else {}
        self._socket: str | None = node.raylet_socket_name  # of this machine's raylet, whoever has started it

    def check(self) -> None:
        """Raise ClusterLost where one of them has died."""
        lost = self.lost()
        if lost is not None:
            self._leave()
            raise ClusterLost(f"the Ray cluster of this run broke down, {lost}: continue with --resume")

    def _leave(self) -> None:
        """End the threads of Ray in this process, before they end it: what `ray.shutdown` does too, but too late."""
        with suppress(AttributeError):  # left before
            self._worker.set_is_connected(False)  # or a reference that is dropped would call what is no longer there
            self._worker.core_worker.shutdown_driver()
            del self._worker.core_worker

    def lost(self) -> str | None:
        """What is wrong, if anything is."""
        for kind, process in self._started.items():
            if process.poll() is not None:
                return f"its {kind} (process {process.pid}) has died"
        for pid, name in self._agents.items():
            if _state(pid) in ("", "Z"):
                return f"its {name} (process {pid}) has died"
        if not self._started and self._socket is not None and not _answers(self._socket):
            return "this machine's raylet does not answer"
        return None


@contextmanager
def _joined(ray: Any, address: str, own: Mapping[str, Any]) -> Iterator[None]:
    terminated = signal.getsignal(signal.SIGTERM)
    try:
        try:
            _join(ray, address, own)
        except InputError:
            if not own:
                raise
            ray.shutdown()  # what has begun: a busy machine needs more than the 30 seconds that Ray gives
            _join(ray, address, own)
        yield
    finally:
        ray.shutdown()
        _listen(terminated)


def _listen(terminated: Any) -> None:
    """Give SIGTERM back to whoever listened to it."""
    if terminated is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, terminated)


def _join(ray: Any, address: str, own: Mapping[str, Any]) -> None:
    host, colon, port = address.rpartition(":")
    terminated = signal.getsignal(signal.SIGTERM)
    try:
        if colon and port.isdigit() and "/" not in host:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address, log_to_driver=False, logging_level="ERROR", configure_logging=False, **own)
        _quieten(ray._private.worker.global_worker)
    except Exception as error:  # of many kinds, down to Exception itself
        what = "cannot start a Ray cluster here" if own else f"cannot join the Ray cluster {address!r}"
        advice = "try again, or another engine" if own else "start it, or use --ray-address local"
        raise InputError(f"{what} ({reason_of(error)}): {advice}") from error
    finally:
        # Ray takes SIGTERM for itself, and would end the process in the middle of a round without a word.
        if terminated != signal.SIG_DFL:
            _listen(terminated)


def _quieten(worker: Any) -> None:
    """End Ray's thread that prints on standard output what goes wrong in the cluster, with pages of logs: it is said in
    one line when it comes back as an error."""
    worker.threads_stopped.set()
    worker.gcs_error_subscriber.close()
    worker.listener_thread.join()
    worker.threads_stopped.clear()


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for the cluster's sockets, logs and tokens, which nobody else can enter: what Ray makes in it is open to
    all. Paths of sockets must be short."""
    place = "/tmp" if os.path.isdir("/tmp") else None
    with tempfile.TemporaryDirectory(prefix="amity-", dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def _watched(folder: Path) -> Iterator[None]:
    """Have the cluster in this folder ended by another process, should this one end without doing it."""
    program = [sys.executable, "-I", "-S", str(Path(__file__).with_name("watch.py")), str(folder)]
    # A session of its own: what is typed at a terminal does not reach it.
    watch = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        with suppress(OSError, subprocess.TimeoutExpired):
            watch.communicate(b"done", timeout=20)


def keep_private() -> None:
    """A cluster of our own listens on loopback only, to holders of its token, and reports nothing to anybody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # Ray's switch for loopback, on Linux too
    if not any(name.startswith("RAY_AUTH_") for name in os.environ):
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def reason_of(error: BaseException) -> str:
    """Ray's messages are long. What a worker could not even begin with stands at their end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return (lines[-1] if "creation task" in lines[0] else lines[0]).rstrip(".")


def _agents(raylet: int) -> dict[int, str]:
    """The agents of a raylet: its children that are no workers. It ends when one of them does."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").lower()
            if parent == raylet and "agent" in words:
                found[int(entry.name)] = "runtime agent" if "runtime" in words else "dashboard agent"
    return found


def _state(pid: int) -> str:
    """The letter that Linux has for the state of a process: Z where it has ended, none where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _answers(path: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
    except OSError:
        return False
    return True
