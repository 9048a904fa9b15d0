"""What is looked at in a hub, in the order of causes."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from amity.checks import kit, machine
from amity.checks.child import Child
from amity.checks.dates import check_dates, check_span
from amity.checks.findings import Account
from amity.checks.handshake import Credentials, Dialled, shake_hands
from amity.checks.network import resolve

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from amity.engines.flare.kits.consortium import Consortium

NEW_ROOT = "make a new hub, and new kits for everybody: a root cannot be renewed"
HERE = "127.0.0.1"


def check_hub(account: Account, hub: Path, run: Path | None, patience: float) -> None:
    """Look at all that a consortium's server needs."""
    until = time.monotonic() + patience
    with Child("hub", hub, run) as child:
        machine.check_versions(account)
        consortium = _configured(account, hub)
        root = _check_certificates(account, hub)
        machine.check_writable(account, "hub's folder", hub)
        kit.check_folders(account, hub, *(hub / part for part in ("ca", "admin", "server", "members", "runs")))
        _check_members(account, hub)
        if consortium is not None:
            _check_host(account, consortium.host)
            _check_server(account, hub, consortium, root, until)
        else:
            account.skipped("server", "consortium.toml is to be mended first")
        machine.check_memory(account)
        machine.check_limits(account)
        account.add(child.findings(until, "runs"))


def _configured(account: Account, hub: Path) -> Consortium | None:
    from amity.engines.flare.kits.consortium import FILE, read_consortium

    with account.about(FILE):
        found = read_consortium(hub / FILE)
        account.passed(FILE, f"{found.name}, run by {found.organisation}, at {found.host}, port {found.port}")
        return found
    return None


def _check_certificates(account: Account, hub: Path) -> Certificate | None:
    """Note the state of the root, of the server's certificate and of the coordinator's."""
    backup = "put it back from a backup"
    root = kit.load(account, "root certificate", hub / "ca" / "root.pem", backup)
    with account.about("root certificate"):
        if root is not None:
            check_dates(account, "root certificate", root, NEW_ROOT)
        kit.check_key(account, "root key", hub / "ca" / "root.key", root)
    for part, file in (("server", "server"), ("admin", "client")):
        check, renew = f"{part} certificate", f"amity federation renew {part} --hub {hub}"
        with account.about(check):
            own = kit.load(account, check, hub / part / "startup" / f"{file}.crt", renew)
            if own is not None:
                kit.check_pair(account, part, root, own, hub / part / "startup" / f"{file}.key", renew)
    return root


def _check_members(account: Account, hub: Path) -> None:
    """Note each member with the dates of its certificate."""
    from amity.engines.flare.kits.consortium import is_name
    from amity.engines.flare.kits.members import member

    folder = hub / "members"
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    for file in files:
        check = f"member {file.stem}"
        with account.about(check):
            if not is_name(file.stem):
                account.failed(check, f"{file} is not the file of a member", "remove it")
                continue
            one = member(hub, file.stem)
            if one.removed is not None:
                account.passed(check, f"{one.organisation}, removed on {one.removed[:10]}")
                continue
            begins, ends = datetime.fromisoformat(one.not_before), datetime.fromisoformat(one.not_after)
            renew = f"amity federation renew {one.name} --hub {hub}, and send it the admission; or remove it"
            check_span(account, check, begins, ends, renew, one.organisation)
    if not files:
        account.warned("members", "there are none yet", "silos begin with: amity federation join NAME --site SITE")


def _check_host(account: Account, host: str) -> None:
    """Note whether the server's name is known here; silos may well know it from elsewhere."""
    try:
        account.passed("name", f"{host} is {', '.join(resolve(host))}, as seen from here")
    except (OSError, UnicodeError):
        remedy = "see that silos can resolve it: `amity federation check SITE` at a silo"
        account.warned("name", f"{host} is not known on this machine", remedy)


def _check_server(account: Account, hub: Path, about: Consortium, root: Certificate | None, until: float) -> None:
    """Look at the server if it runs, else whether it could."""
    from amity.engines.flare.kits.hub import check_address
    from amity.engines.flare.kits.lock import is_held
    from amity.engines.flare.kits.process import check_port

    with account.about("server's address"):
        check_address(hub)
    with account.about("server"):
        if not (hub / "server").is_dir():
            account.failed("server", f"{hub / 'server'} is missing", "put it back from a backup")
        elif is_held(hub / "server"):
            account.passed("server", f"it runs here, at port {about.port}")
            _check_answer(account, hub, about, root, until)
        else:
            check_port(hub / "server")
            found = f"it does not run; port {about.port} is free for it"
            account.warned("server", found, f"start it when silos are to connect: amity federation server {hub}")


def _check_answer(account: Account, hub: Path, about: Consortium, root: Certificate | None, until: float) -> None:
    """Dial the server as the coordinator's commands do, and ask it who is there."""
    from amity.engines.flare.kits.certificates import load_certificate

    startup = hub / "admin" / "startup"
    answered = None
    if root is None:
        account.skipped("TLS", "the root certificate is to be mended first")
    else:
        with account.about("TLS"):
            own = Credentials(root, startup / "client.crt", startup / "client.key")
            answered = shake_hands(account, Dialled("localhost", HERE, about.port), own, "the coordinator")
    if answered is None:
        account.skipped("session", "TLS is to be mended first")
        return
    with account.about("server"):
        if load_certificate((hub / "server" / "startup" / "server.crt").read_bytes()) != answered:
            found = "the server shows another certificate than its kit has now"
            account.warned("server", found, "restart the server: a renewed certificate counts from the next start on")
    with Child("session", hub) as child:
        account.add(child.findings(until, "session"))
