"""The two services: `amity federation server HUB` and `amity federation silo SITE`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from amity.cli.federation.extra import require_extra
from amity.cli.flags import with_log_options
from amity.cli.progress import begin
from amity.cli.signals import stopping
from amity.cli.watch import Watch, served

Unit = Annotated[
    bool, typer.Option("--systemd", help="print a systemd unit that starts this at boot, and do nothing else")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("server")(with_log_options(server_command))
    app.command("silo")(with_log_options(silo_command))


def server_command(
    hub: Annotated[Path, typer.Argument(metavar="HUB", help="the coordinator's folder")],
    systemd: Unit = False,
    watch: Watch = False,
) -> None:
    """Serve a consortium: silos connect, runs that were submitted are kept going. Ctrl-C ends it; runs go on later."""
    require_extra()
    if systemd:
        _print_unit("server", hub)
        return
    begin("loading the server")
    from amity.engines.flare.serve_hub import serve_hub

    with served([hub], wanted=watch):
        _until_stopped(lambda say: serve_hub(hub, say), f"the server of {hub}")


def silo_command(
    site: Annotated[Path, typer.Argument(metavar="SITE", help="the silo's folder")],
    systemd: Unit = False,
    watch: Watch = False,
) -> None:
    """Serve a silo: it dials out to the server, and takes part in runs that it has approved."""
    require_extra()
    if systemd:
        _print_unit("silo", site)
        return
    begin("loading the silo")
    from amity.engines.flare.serve_site import serve_site

    with served([site], wanted=watch):
        _until_stopped(lambda say: serve_site(site, say), f"the silo of {site}")


def _until_stopped(serve: Callable[[Callable[[str], None]], None], what: str) -> None:
    """Serve until a signal comes, with a line for whatever is worth one."""

    def say(words: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {words}", flush=True)

    with stopping() as stop:
        say(f"{what} is starting; Ctrl-C ends it")
        try:
            serve(say)
        except KeyboardInterrupt:
            say(f"{what} has ended")
            raise typer.Exit(0 if stop.number is not None else 130) from None


def _print_unit(kind: str, folder: Path) -> None:
    from amity.engines.flare.kits import systemd_unit

    print(systemd_unit("server" if kind == "server" else "silo", folder), end="")
