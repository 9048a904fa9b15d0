"""What lies where in a hub and in a site, and how their FLARE processes are started."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from amity.engines.flare.kits.consortium import FILE, Consortium, read_consortium
from amity.engines.flare.kits.files import check_place, read, read_json
from amity.engines.flare.kits.resources import Address
from amity.engines.flare.kits.workspace import ROOT_CERTIFICATE
from amity.errors import InputError

Kind = Literal["server", "silo"]

# Beside what FLARE needs: no module is taken from the folder that a process happens to run in, and glibc keeps few
# arenas, with which a server of many threads takes a third less memory.
ENVIRONMENT = {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "2"}


def address_of(consortium: Consortium) -> Address:
    """Return where the server of a consortium is."""
    return {"consortium": consortium.name, "host": consortium.host, "port": consortium.port}


def admin_user_of(consortium: Consortium) -> str:
    """Return the coordinator's name; with an @, for a silo's has none."""
    return f"coordinator@{consortium.name}"


def admin_kit(hub: Path) -> Path:
    """Return the kit with which the coordinator's commands reach the server."""
    return check_hub(hub) / "admin"


def admin_user(hub: Path) -> str:
    """Return the name under which they do."""
    return admin_user_of(read_consortium(check_hub(hub) / FILE))


def signing_key(hub: Path) -> tuple[bytes, bytes]:
    """Return the coordinator's private key and certificate, with which run contracts are signed."""
    startup = check_hub(hub) / "admin" / "startup"
    return read(startup / "client.key"), read(startup / "client.crt")


def root_certificate(place: Path) -> bytes:
    """Return the consortium's root certificate as a hub or a site has it."""
    ours = place / "ca" / "root.pem"
    return read(ours if ours.exists() else check_site(place) / "kit" / "startup" / ROOT_CERTIFICATE)


def silo_name(site: Path) -> str:
    """Return the name that a site's kit was made for."""
    return str(read_json(check_site(site) / "kit" / "startup" / "fed_client.json")["client"]["fqsn"])


def server_command(hub: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command line of FLARE's server process, and its whole environment."""
    return _command("server", check_hub(hub)), {**os.environ, **_settings("server", hub)}


def silo_command(site: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command line of FLARE's process at a silo, and its whole environment."""
    return _command("silo", check_site(site)), {**os.environ, **_settings("silo", site)}


def check_hub(hub: Path) -> Path:
    """Return the absolute path of a hub; refuse a folder that is none."""
    if not (hub / "ca" / "root.pem").is_file():
        raise InputError(f"{hub} is no hub: make one with `amity federation init`")
    return check_place(hub)


def check_site(site: Path) -> Path:
    """Return the absolute path of a site that has its kit; refuse another folder."""
    if not (site / "kit" / "startup" / "fed_client.json").is_file():
        raise InputError(
            f"{site} has no kit yet: send its .request to the coordinator, "
            "then `amity federation join NAME --site SITE --admission FILE`"
        )
    return check_place(site)


def _settings(kind: Kind, folder: Path) -> dict[str, str]:
    variable = "AMITY_HUB" if kind == "server" else "AMITY_SITE"
    return {**ENVIRONMENT, variable: str(check_place(folder))}


def _command(kind: Kind, folder: Path) -> list[str]:
    return [sys.executable, "-m", "amity.engines.flare.kits.process", kind, str(folder)]
