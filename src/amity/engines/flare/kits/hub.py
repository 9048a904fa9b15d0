"""The coordinator's folder: the consortium's root, the server's kit and the coordinator's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from amity.engines.flare.kits import resources
from amity.engines.flare.kits.certificates import (
    Root,
    Subject,
    fingerprint,
    issue,
    key_pem,
    load_certificate,
    load_key,
    new_key,
    new_root,
    pem,
    public_key,
)
from amity.engines.flare.kits.consortium import FILE, Consortium, is_loopback, read_consortium
from amity.engines.flare.kits.files import check_place, read, read_json, write, write_json
from amity.engines.flare.kits.places import address_of, admin_user_of
from amity.engines.flare.kits.workspace import ROOT_CERTIFICATE, Startup, write_kit
from amity.errors import DamagedFile, InputError
from amity.federation.safe_files import folder, sync

ON_THIS_MACHINE = ("localhost", "127.0.0.1")


def make_hub(description: Path, hub: Path) -> str:
    """Make the hub of a new consortium, all of it or nothing; return the fingerprint of its root key."""
    consortium = read_consortium(description)
    hub = check_place(hub)
    if hub.exists() and (not hub.is_dir() or any(hub.iterdir())):
        raise InputError(f"a hub needs a folder of its own, {hub} is there already: choose another --hub")
    try:
        folder(hub.parent)
    except OSError as error:
        raise InputError(f"{hub} cannot be made ({error.strerror or error}): choose another --hub") from None
    aside = hub.with_name(f".{hub.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        root = _fill(aside, consortium, read(description))
        os.replace(aside, hub)
        sync(hub.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return fingerprint(public_key(root.certificate))


def load_root(hub: Path) -> Root:
    """Read the authority of a consortium, with its key."""
    try:
        return Root(load_key(read(hub / "ca" / "root.key")), load_certificate(read(hub / "ca" / "root.pem")))
    except ValueError as error:
        raise DamagedFile(f"{hub / 'ca'} does not hold the root's key and certificate ({error})") from error


def renew_own(hub: Path, kit: str) -> bool:
    """Give the server's or the coordinator's kit a new certificate for the same key.

    Nothing else changes, unless consortium.toml has another address: renewing the server's kit puts that into both, and
    whether it did comes back.
    """
    consortium, root = read_consortium(hub / FILE), load_root(hub)
    file = hub / kit / "startup" / ("server" if kit == "server" else "client")
    key = load_key(read(file.with_suffix(".key"))).public_key()
    subject, hosts = (_server(consortium), _hosts(consortium)) if kit == "server" else (_admin(consortium), ())
    write(file.with_suffix(".crt"), pem(issue(root, subject, key, consortium.valid_days, hosts)))
    moved = _moved(hub, consortium) if kit == "server" else {}
    for place, table in moved.items():
        write_json(place, table)
    return bool(moved)


def check_address(hub: Path) -> None:
    """Refuse a hub whose consortium.toml was changed after its kits were made: the server would listen elsewhere."""
    consortium = read_consortium(hub / FILE)
    for place in _moved(hub, consortium):
        raise InputError(
            f"{hub / FILE} says that the server is at {consortium.host}, port {consortium.port}, {place} says otherwise"
            ": take that back, or `amity federation renew server`, then renew every silo, for they dial the old address"
        )


def _moved(hub: Path, consortium: Consortium) -> dict[Path, resources.Table]:
    """Return the files of kits that have another address than consortium.toml, with what they should hold."""
    at, seen = address_of(consortium), _seen_by_admin(consortium)
    files = {kit: hub / kit / "startup" / f"fed_{kit}.json" for kit in ("server", "admin")}
    known = {kit: read_json(file) for kit, file in files.items()}
    (server,) = known["server"]["servers"]
    service = {**server["service"], "target": f"{at['host']}:{at['port']}"}
    wanted = {
        "server": {**known["server"], "servers": [{**server, "service": service, "admin_port": at["port"]}]},
        "admin": {**known["admin"], "admin": {**known["admin"]["admin"], "host": seen["host"], "port": seen["port"]}},
    }
    return {files[kit]: table for kit, table in wanted.items() if table != known[kit]}


def _fill(hub: Path, consortium: Consortium, description: bytes) -> Root:
    for part in ("ca", "members", "runs"):
        folder(hub / part)
    root = new_root(consortium.name, consortium.organisation, consortium.root_valid_days)
    write(hub / FILE, description)
    write(hub / "ca" / "root.key", key_pem(root.key))
    write(hub / "ca" / "root.pem", pem(root.certificate))
    _write_server(hub / "server", consortium, root)
    _write_admin(hub / "admin", consortium, root)
    return root


def _write_server(kit: Path, consortium: Consortium, root: Root) -> None:
    key = new_key()
    certificate = issue(root, _server(consortium), key.public_key(), consortium.valid_days, _hosts(consortium))
    startup: Startup = {
        "fed_server.json": resources.fed_server(address_of(consortium)),
        "server.key": key_pem(key),
        "server.crt": pem(certificate),
        ROOT_CERTIFICATE: pem(root.certificate),
    }
    local = {
        "resources.json": resources.server_resources(),
        "authorization.json": resources.server_authorization(),
        "log_config.json": resources.log_config(),
    }
    write_kit(kit, startup, local)


def _write_admin(kit: Path, consortium: Consortium, root: Root) -> None:
    key = new_key()
    certificate = issue(root, _admin(consortium), key.public_key(), consortium.valid_days)
    startup: Startup = {
        "fed_admin.json": resources.fed_admin(_seen_by_admin(consortium), admin_user_of(consortium)),
        "client.key": key_pem(key),
        "client.crt": pem(certificate),
        ROOT_CERTIFICATE: pem(root.certificate),
    }
    write_kit(kit, startup, {"resources.json": resources.admin_resources()})


def _seen_by_admin(consortium: Consortium) -> resources.Address:
    """Return where the coordinator's commands, which run beside the server, find it, whatever its name outside."""
    at = address_of(consortium)
    return at if is_loopback(at["host"]) else {**at, "host": "127.0.0.1"}


def _server(consortium: Consortium) -> Subject:
    return Subject(resources.SERVER_IDENTITY, consortium.organisation)


def _admin(consortium: Consortium) -> Subject:
    return Subject(admin_user_of(consortium), consortium.organisation, resources.ADMIN_ROLE)


def _hosts(consortium: Consortium) -> list[str]:
    return list(dict.fromkeys((consortium.host, *ON_THIS_MACHINE)))
