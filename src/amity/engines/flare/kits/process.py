"""FLARE's process of a kit: `python -m amity.engines.flare.kits.process server HUB`, or `silo SITE`.

It is FLARE's own main program. Around it are checks that FLARE does not make. A kit that runs already is not started
again: the server would give the second process the name and leave the first one without. A key that others can read is
refused, and so are certificates that have ended, with which FLARE would try for ever without saying why, and a port
that is taken: gRPC would share it, and each silo would meet one of two servers by chance. What the process writes is
for its owner alone. And when it is asked to end, or its parent was killed, it takes the processes of its jobs with it.
"""

from __future__ import annotations

import os
import runpy
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

from amity.engines.flare.kits.consortium import is_loopback
from amity.engines.flare.kits.dates import check_dates
from amity.engines.flare.kits.files import read_json
from amity.engines.flare.kits.hub import check_address
from amity.engines.flare.kits.lock import hold
from amity.engines.flare.kits.places import Kind, check_hub, check_site, silo_name
from amity.errors import AmityError, InputError
from amity.parent_process import end_with_parent

HEARTBEAT = 4
"""Seconds between two heartbeats of a silo's process, by which the server knows that it is connected."""

PATIENCE = 3.0
"""Seconds to wait for the process before, which ends a moment after its parent was killed."""


def main(kind: Kind, folder: Path) -> None:
    """Become FLARE's process."""
    place = check_hub(folder) if kind == "server" else check_site(folder)
    kit, key = (place / "server", "server/startup/server.key") if kind == "server" else (place / "kit", "key.pem")
    module, arguments = flare_arguments(kind, place)
    os.umask(0o077)
    handle = hold(kit, PATIENCE)
    try:
        check_key(place / key)
        check_dates(place)
        if kind == "server":
            check_address(place)
            check_port(kit)
        signal.signal(signal.SIGTERM, end_with_jobs)
        end_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        if handle is not None:
            os.close(handle)


def end_with_jobs(number: int, _frame: FrameType | None = None) -> None:
    """End the processes of jobs and this one, by the same signal.

    No other thread may come in between: the launchers would start a job's process again that has been killed.
    """
    import psutil

    started = [process.pid for process in psutil.Process().children(recursive=True)]
    signal.signal(number, signal.SIG_DFL)
    sys.setswitchinterval(60.0)
    for process in (*started, os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(process, number)


def flare_arguments(kind: Kind, place: Path) -> tuple[str, list[str]]:
    """Return FLARE's module and its arguments."""
    if kind == "server":
        kit, module, file, who = place / "server", "server.server_train", "fed_server.json", []
    else:
        kit, module, file, who = (
            place / "kit",
            "client.client_train",
            "fed_client.json",
            [f"uid={silo_name(place)}", f"heart_beat_interval={HEARTBEAT}"],
        )
    # An organisation's name decides nothing in our policies, and FLARE would split it at its spaces.
    settings = ["secure_train=true", *who, "org=amity", "config_folder=config"]
    return f"nvflare.private.fed.app.{module}", ["-m", str(kit), "-s", file, "--set", *settings]


def check_key(file: Path) -> None:
    """Refuse a private key that others than its owner can open."""
    if os.name != "nt" and file.stat().st_mode & 0o077:
        raise InputError(f"only its owner may open {file}, others can: chmod 600 it, and think of a new key")


def check_port(kit: Path) -> None:
    """Refuse a port that another process listens on."""
    target = read_json(kit / "startup" / "fed_server.json")["servers"][0]["service"]["target"]
    host, _, port = str(target).partition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host if is_loopback(host) else "", int(port)))
        except OSError as error:
            raise InputError(
                f"the server cannot listen on port {port} ({error.strerror}): stop what uses it, or choose another port"
            ) from error


if __name__ == "__main__":
    try:
        main("server" if sys.argv[1] == "server" else "silo", Path(sys.argv[2]))
    except AmityError as error:
        print(f"amity: {error}", file=sys.stderr)
        sys.exit(2)
