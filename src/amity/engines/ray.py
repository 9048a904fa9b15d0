"""The engine beyond one machine: the server's side here, the clients' side in Ray actors, the workers.

A worker gets the plan and its silos' data once, and its clients' states stay with it. In every round it is sent what
its clients download, one copy per machine of what they share, and answers with their uploads, their scores and a few
facts. Turns are those of `crew.py`, from the same keyed streams: the results are those of `simulate`, bit by bit.

After a turn the worker leaves the client's new state in the shared memory of its machine, and only a reference comes
here. It is read for a checkpoint, at the end, and when a worker is lost: another one takes its clients on from there.
Where the machine is lost with that memory, the federation goes back to the last states that were read, or to its
beginning, and repeats the rounds since.

Here: the cluster, and rounds that come again. `ray_hosts.py`: the workers as seen from here. `ray_worker.py`: what
runs in them. `messages.py`: what travels.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amity.config import Participation
from amity.contract import Federation, InputError, Method, Progress, Round, Silo, Solver
from amity.engines.crew import Plan
from amity.engines.ray_hosts import StatesLost, Traffic, Workers, reason_of
from amity.engines.simulate import Notify, rounds, silent
from amity.task import Task


def check(device: str) -> None:
    """Refuse what this engine cannot do, before anything is computed."""
    if importlib.util.find_spec("ray") is None:
        raise InputError("the ray engine needs ray: pip install 'amity[ray]'")
    if device != "cpu":
        raise InputError(f"the ray engine computes on cpu, got device {device!r}: use another engine, or cpu")


def spread(
    method: Method,
    task: Task,
    silos: Sequence[Silo],
    fed: Federation,
    solver: Solver,
    rule: Participation,
    *,
    address: str = "local",
    workers: int | None = None,
    start: Progress | None = None,
    notify: Notify | None = None,
    matrix_dir: Path | None = None,
    evaluate_every: int = 1,
    traffic: Traffic | None = None,
) -> Iterator[Round]:
    """`simulate` with its clients on the workers of a Ray cluster: one that is started here, or that of `address`."""
    plan = Plan(method, task, fed, solver, rule)
    done = 0 if start is None else start.round
    if done >= fed.rounds:
        return
    with cluster(address, min(workers or os.cpu_count() or 1, fed.clients)):
        with Workers(plan, silos, workers, traffic or Traffic(), notify or silent) as hosts:
            while done < fed.rounds:
                try:
                    for report in rounds(plan, hosts, start, notify or silent, matrix_dir, evaluate_every):
                        if report.round <= done:
                            continue
                        done = report.round
                        yield report._replace(warnings=[*report.warnings, *hosts.news()])
                        if hosts.was_read(report.progress):
                            start = report.progress
                        del report  # or the states before this round would stay alive through the next
                except StatesLost as lost:
                    hosts.repeat(str(lost), 0 if start is None else start.round, done)


@contextmanager
def cluster(address: str, workers: int) -> Iterator[None]:
    """Be part of a Ray cluster: the one this process has joined, else a private one ("local"), else `address`."""
    check("cpu")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # a failed turn is told once, not again for its state
    if address == "local":
        _keep_private()
    ray = importlib.import_module("ray")
    if ray.is_initialized():
        yield
        return
    # Sockets lie in this folder, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="amity-", dir="/tmp" if os.path.isdir("/tmp") else None) as folder:
        own: dict[str, Any] = {}
        if address == "local":
            own = {"num_cpus": workers, "include_dashboard": False, "_temp_dir": folder}
            own["_system_config"] = {"worker_niceness": 0}  # Ray's 15 is for workers beside somebody's other work
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


def _join(ray: Any, address: str, own: Mapping[str, Any]) -> None:
    host, colon, port = address.rpartition(":")
    try:
        if colon and port.isdigit() and "/" not in host:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address, log_to_driver=False, logging_level="ERROR", configure_logging=False, **own)
    except Exception as error:  # of many kinds, down to Exception itself
        what = "cannot start a Ray cluster here" if own else f"cannot join the Ray cluster {address!r}"
        advice = "try again, or another engine" if own else "start it, or use --ray-address local"
        raise InputError(f"{what} ({reason_of(error)}): {advice}") from error


def _keep_private() -> None:
    """A cluster of our own listens on loopback only, to holders of its token, and reports nothing to anybody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # Ray's switch for loopback, on Linux too
    if not any(name.startswith("RAY_AUTH_") for name in os.environ):
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
