"""`amity watch`: the live page of runs, hubs and silos; and `--watch` of the commands that run something."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from amity.cli.flags import with_log_options
from amity.cli.progress import err
from amity.cli.signals import stopping

Watch = Annotated[
    bool, typer.Option("--watch", help="serve a live page on this machine while it runs; its address is printed")
]


@with_log_options
def watch_command(
    directories: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR...",
            help="of runs, comparisons, a hub or a silo; they need not exist yet",
            show_default=False,
        ),
    ],
    port: Annotated[int, typer.Option("--port", metavar="N", help="0: any that is free")] = 0,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="where to listen; beyond this machine a token is needed")
    ] = "127.0.0.1",
    token: Annotated[
        bool, typer.Option("--token", help="ask for a token on this machine too, where other people have accounts")
    ] = False,
) -> None:
    """Show runs while they go on: a page in the browser that follows them, and changes nothing. Ctrl-C ends it."""
    from amity.watch.serving import serving

    with stopping() as stop:
        try:
            with serving([Path(name) for name in directories], host, port, with_token=token) as address:
                print(f"watching {', '.join(directories)}: {address.url}", flush=True)
                print("Ctrl-C ends the page; runs go on", flush=True)
                _wait()
        except KeyboardInterrupt:
            raise typer.Exit(0 if stop.number is not None else 130) from None


def _wait() -> None:
    """Wait for a signal, which raises."""
    while True:
        time.sleep(3600)


@contextmanager
def served(places: Sequence[Path], *, wanted: bool) -> Iterator[None]:
    """Serve the live page of these folders beside what is done in the meantime, where that is wanted."""
    if not wanted:
        yield
        return
    from amity.watch.beside import watched_beside

    with watched_beside(places) as address:
        err.print(escape(f"live page: {address}"), highlight=False, soft_wrap=True)
        yield
