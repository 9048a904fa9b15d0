"""Who is in a consortium: init, join, add, renew, remove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amity.cli.federation.extra import require_extra
from amity.cli.flags import with_log_options
from amity.errors import InputError

if TYPE_CHECKING:
    from amity.engines.flare.kits.request import Request

Hub = Annotated[Path, typer.Option("--hub", metavar="HUB", help="the coordinator's folder")]
Site = Annotated[Path, typer.Option("--site", metavar="SITE", help="the silo's folder")]
Told = Annotated[
    str | None, typer.Option("--fingerprint", metavar="TEXT", help="of the silo's key, as the silo has told it")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="where the answer goes [default: NAME.admission]")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="the silo's name: letters, digits, - and _")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("init")(with_log_options(init_command))
    app.command("join")(with_log_options(join_command))
    app.command("add")(with_log_options(add_command))
    app.command("renew")(with_log_options(renew_command))
    app.command("remove")(with_log_options(remove_command))


def init_command(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="TOML with name, organisation, host, port [valid_days, root_valid_days]"),
    ],
    hub: Hub,
) -> None:
    """Make a consortium: its root key, the server's kit and the coordinator's, in a new folder HUB."""
    require_extra()
    from amity.engines.flare.kits.hub import make_hub

    fingerprint = make_hub(file, hub)
    print(f"{hub} is the consortium's hub; {hub / 'ca'} decides who is a member: keep it from everybody else.")
    print(f"Tell silos this fingerprint by another way than the files: {fingerprint}")
    print("Each silo begins with: amity federation join NAME --site SITE")


def join_command(
    name: Name,
    site: Site,
    organisation: Annotated[
        str | None, typer.Option("--organisation", metavar="TEXT", help="whom the silo belongs to [default: NAME]")
    ] = None,
    admission: Annotated[
        Path | None, typer.Option("--admission", metavar="FILE", help="the coordinator's answer: completes the kit")
    ] = None,
    root: Annotated[
        str | None,
        typer.Option("--root", metavar="FINGERPRINT", help="of the consortium, as the coordinator has told it"),
    ] = None,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="ask for a certificate of another key, to replace the one in use")
    ] = False,
) -> None:
    """At a silo: make its key and its request to the coordinator; with --admission, complete its kit."""
    require_extra()
    if admission is None:
        _ask(site, name, organisation, new_key)
    else:
        _complete(site, name, admission, root)


def add_command(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", help="the file NAME.request that a silo has sent")],
    hub: Hub,
    told: Told = None,
    out: Out = None,
) -> None:
    """At the coordinator: admit a silo, and write NAME.admission, which it needs to complete its kit."""
    require_extra()
    from amity.engines.flare.kits.live import tell_server
    from amity.engines.flare.kits.members import admit, members

    asked = _read_request(request, told)
    returns = asked.name in {one.name for one in members(hub)}
    _answer(admit(hub, asked), hub, asked.name, out)
    if returns and not tell_server(hub, asked.name, removed=False):
        print("The running server could not be told: it refuses the silo until its next start.")


def renew_command(
    who: Annotated[
        str,
        typer.Argument(metavar="NAME|REQUEST", help="a member, its new .request, or server or admin for our own kits"),
    ],
    hub: Hub,
    told: Told = None,
    out: Out = None,
) -> None:
    """At the coordinator: sign a new certificate, for a member's key or for the one of its new request."""
    require_extra()
    from amity.engines.flare.kits.hub import renew_own
    from amity.engines.flare.kits.members import renew

    if who in ("server", "admin"):
        moved = renew_own(hub, who)
        print(f"{hub / who} has a new certificate: it counts from the next start on.")
        if moved:
            print("The server has moved, as consortium.toml says: renew every silo, for they dial the old address.")
        return
    asked = _read_request(Path(who), told) if who.endswith(".request") else None
    name = asked.name if asked else who
    _answer(renew(hub, name, asked), hub, name, out)
    if asked:
        print("The certificate of its old key stays valid until it ends: if that key was stolen, `remove` the silo.")


def remove_command(name: Name, hub: Hub) -> None:
    """At the coordinator: end a silo's membership."""
    require_extra()
    from amity.engines.flare.kits.live import tell_server
    from amity.engines.flare.kits.members import remove

    remove(hub, name)
    print(f"{name} is no longer a member: no run invites it, and the server refuses it.")
    if not tell_server(hub, name, removed=True):
        print("The running server could not be told: it refuses the silo from its next start on.")


def _ask(site: Path, name: str, organisation: str | None, new_key: bool) -> None:
    from amity.engines.flare.kits.site import ask

    asked = ask(site, name, organisation, another_key=new_key)
    print(f"Send {asked.file} to the coordinator; the key stays in {site}, for nobody else.")
    print(f"Tell the coordinator this fingerprint by another way than the file: {asked.fingerprint}")


def _complete(site: Path, name: str, admission: Path, root: str | None) -> None:
    from amity.engines.flare.kits.certificates import fingerprint
    from amity.engines.flare.kits.site import complete

    renewed = (site / "kit").exists()
    done = complete(site, name, admission, root)
    state = "has its new certificate" if renewed else "is complete"
    print(f"{site / 'kit'} {state}: {name} is a member of {done.consortium}, at {done.host}:{done.port}.")
    if root is None:
        print(f"Compare this fingerprint with what the coordinator tells you: {fingerprint(done.root_key())}")
    if renewed:
        print(f"It counts from the next start on: restart `amity federation silo {site}` if it runs.")
    else:
        print(f"Fill in {site / 'silo.toml'}, then: amity federation check {site}")


def _read_request(file: Path, told: str | None) -> Request:
    from amity.engines.flare.kits.certificates import fingerprint, same_fingerprint
    from amity.engines.flare.kits.request import read_request

    asked = read_request(file)
    if told is not None and not same_fingerprint(told, asked.key):
        raise InputError(f"{file} is of a key with another fingerprint ({fingerprint(asked.key)}): do not admit it")
    return asked


def _answer(text: str, hub: Path, name: str, out: Path | None) -> None:
    from amity.engines.flare.kits.files import write
    from amity.engines.flare.kits.members import member

    out = out or Path(f"{name}.admission")
    write(out, text)
    known = member(hub, name)
    print(f"{name} ({known.organisation}) is a member until {known.not_after[:10]}: send it {out}.")
    print(f"Compare this fingerprint with what the silo tells you: {known.fingerprint}")
