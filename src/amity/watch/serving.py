"""The live page's server: an address on this machine, a thread, and an end that lets every page see how it ended."""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from amity.errors import InputError
from amity.watch.guard import LOOPBACK, Guard, is_loopback, new_token

PARTING = 5.0
"""Seconds that open pages have to be sent how it ended."""


class Address(NamedTuple):
    """Where the page is."""

    host: str
    port: int
    token: str | None

    @property
    def url(self) -> str:
        """The address to open, with the token where one is needed."""
        shown = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        shown = f"[{shown}]" if ":" in shown else shown
        return f"http://{shown}:{self.port}/" + (f"?token={self.token}" if self.token else "")


def require_server() -> None:
    """Refuse to serve where the packages for it are not installed."""
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"the live page needs {' and '.join(missing)}, not installed: pip install starlette uvicorn")


def check_folders(paths: Sequence[Path]) -> None:
    """Refuse what can never be watched. A folder that does not exist yet is waited for."""
    for path in paths:
        try:
            found = not stat.S_ISDIR(os.stat(path).st_mode)
        except FileNotFoundError:
            found = False
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"watch needs directories, got {str(path)[:60]!r} ({reason}): give another") from None
        if found:
            raise InputError(f"watch needs directories, got the file {path}: give the directory that it is in")


def check_port(port: int) -> int:
    """Return a port that may be asked for; 0 stands for any that is free."""
    if not 0 <= port <= 65535:
        raise InputError(f"--port needs a number from 0 to 65535, got {port}: leave it out for a free one")
    return port


@contextmanager
def serving(
    paths: Sequence[Path], host: str = LOOPBACK, port: int = 0, *, with_token: bool = False
) -> Iterator[Address]:
    """Serve the page of these folders for a while, from a thread; where it is comes back at once.

    A token is needed as soon as other machines can reach the page, and `with_token` on this machine too. Before the
    server closes, every open page is sent how things stand.
    """
    require_server()
    check_folders(paths)
    token = new_token() if with_token or not is_loopback(host) else None
    with _bound(host, check_port(port)) as listening:
        address = Address(host, listening.getsockname()[1], token)
        ended = threading.Event()
        server = threading.Thread(
            target=_serve, args=(listening, list(paths), address, ended), name="amity-watch", daemon=True
        )
        server.start()
        try:
            yield address
        finally:
            ended.set()
            server.join(2 * PARTING)


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """Take hold of the address, or say in one line why that cannot be."""
    try:
        family, kind, number, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--host needs an address of this machine, got {host!r} ({reason}): try {LOOPBACK}") from None
    listening = socket.socket(family, kind, number)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(64)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"port {port} is in use: give another --port, or none for a free one") from None
        if error.errno == errno.EACCES:
            raise InputError(f"port {port} may not be opened by this user: give a --port from 1024 on") from None
        raise InputError(
            f"--host needs an address of this machine, got {host!r} ({error.strerror}): try {LOOPBACK}"
        ) from None
    try:
        yield listening
    finally:
        listening.close()


def _serve(listening: socket.socket, paths: list[Path], address: Address, ended: threading.Event) -> None:
    """Answer until it is over; runs in a thread, so that signals stay with the command."""
    import uvicorn

    from amity.watch.pages import Visitors, application
    from amity.watch.watcher import Watcher

    logging.getLogger("uvicorn").addHandler(logging.NullHandler())  # it would print otherwise
    visitors = Visitors()
    app = Guard(application(Watcher(paths), visitors), *address)
    config = uvicorn.Config(
        app,
        log_config=None,  # nothing is printed: the command has its own lines
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=200,
    )
    server = uvicorn.Server(config)

    def close() -> None:
        ended.wait()
        visitors.closing = True
        until = time.monotonic() + PARTING
        while visitors.open and time.monotonic() < until:
            time.sleep(0.05)
        server.should_exit = True

    threading.Thread(target=close, name="amity-watch-end", daemon=True).start()
    server.run(sockets=[listening])
