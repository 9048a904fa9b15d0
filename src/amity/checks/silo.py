"""What is looked at in a silo's folder, in the order of causes."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from amity.checks import kit, machine
from amity.checks.child import Child
from amity.checks.dates import check_dates
from amity.checks.findings import Account, halves
from amity.checks.handshake import Credentials, Dialled, shake_hands
from amity.checks.network import check_proxy, find_server
from amity.errors import InputError
from amity.federation.policy import SiloPolicy
from amity.site.config import Site, load_site

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

SAID_BY_SERVER = ("clock", "server's version", "membership", "elsewhere")  # see hello.py, which loads FLARE
NEW_ROOT = "a new root means a new hub and new kits for everybody: ask the coordinator"


def check_silo(account: Account, folder: Path, run: Path | None, patience: float) -> None:
    """Look at all that a silo needs to take part."""
    until = time.monotonic() + patience
    with Child("silo", folder, run) as child:  # it takes seconds to load; the rest is done meanwhile
        machine.check_versions(account)
        site = _configured(account, folder)
        _check_kit(account, folder, site, until)
        if site is not None:
            machine.check_writable(account, "state folder", site.state)
            kit.check_folders(account, folder, site.state)
            machine.check_threads(account, site.threads)
            _check_running(account, folder, site)
            if run is None:
                machine.check_disk(account, site.state)
            _tell_policy(account, site.policy)
        machine.check_memory(account)
        machine.check_limits(account)
        if site is None:
            for check in ("state folder", "data"):
                account.skipped(check, "silo.toml is to be mended first")
        else:
            account.add(child.findings(until, "data"))


def _configured(account: Account, folder: Path) -> Site | None:
    """Note all that is wrong with silo.toml, a line for each thing."""
    try:
        site = load_site(folder)
    except InputError as error:
        whole = str(error).removeprefix(f"{folder.resolve() / 'silo.toml'}: ")
        for problem in whole.split("; "):
            account.failed("silo.toml", *halves(problem))
        return None
    except Exception as error:
        account.failed("silo.toml", f"it cannot be read ({type(error).__name__})", "mend it")
        return None
    account.passed("silo.toml", f"silo {site.name}, state in {site.state}, device {site.device}")
    return site


def _check_kit(account: Account, folder: Path, site: Site | None, until: float) -> None:
    """Look at the kit, and with what it has at the server."""
    address = root = own = None
    usable = False
    with account.about("kit"):
        address = kit.check_address(account, folder)
    if (folder / "kit").is_dir():
        with account.about("kit"):
            startup = folder / "kit" / "startup"
            kit.check_rules(account, folder)
            root = kit.load(account, "root certificate", startup / "rootCA.pem", kit.JOIN_AGAIN)
            if root is not None:
                check_dates(account, "root certificate", root, NEW_ROOT)
            own = kit.load(account, "own certificate", startup / "client.crt", kit.RENEW_OWN)
            key = folder / "key.pem"
            if own is None:
                kit.check_key(account, "own key", key, None)
            else:
                usable = kit.check_pair(account, "own", root, own, key, kit.RENEW_OWN)
    if address is None:
        for check in ("name", "port", "TLS", *SAID_BY_SERVER):
            account.skipped(check, "the kit does not say where the server is")
        return
    kit.check_name(account, address, own, None if site is None else site.name)
    with account.about("name"):
        check_proxy(account, address.host)
        _check_server(account, folder, address, root if usable else None, until)


def _check_server(account: Account, folder: Path, address: kit.Address, root: Certificate | None, until: float) -> None:
    """Dial the server as the silo's process does, and ask what it says to everybody; no name is taken."""
    found = find_server(account, address.host, address.port)
    if found is None or root is None:
        why = (
            "the server cannot be reached" if found is None else "the kit's certificates and key are to be mended first"
        )
        for check in ("TLS", *SAID_BY_SERVER):
            account.skipped(check, why)
        return
    own = Credentials(root, folder / "kit" / "startup" / "client.crt", folder / "key.pem")
    with account.about("TLS"):
        if shake_hands(account, Dialled(address.host, found, address.port), own) is None:
            for check in SAID_BY_SERVER:
                account.skipped(check, "TLS is to be mended first")
            return
    with Child("hello", folder) as child:
        account.add(child.findings(until, "clock"))


def _check_running(account: Account, folder: Path, site: Site) -> None:
    """Note whether the silo runs here already, or something that it has left behind."""
    from amity.engines.flare.kits.lock import is_held

    with account.about("running"):
        here = (folder / "kit").is_dir() and is_held(folder / "kit")
        busy = _is_locked(site.state / "lock")
        if busy and not here:
            found = f"the silo does not run here, but a worker of it still holds {site.state}"
            account.warned("running", found, "wait until it has ended; if it does not, end that process")
            return
        words = (
            "the silo runs here" + (", a run is under way" if busy else "") if here else "the silo does not run here"
        )
        account.passed("running", words)


def _is_locked(file: Path) -> bool:
    """True while another process holds this file; it is neither made nor changed."""
    with suppress(ImportError, FileNotFoundError):
        import fcntl

        with file.open("rb") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def _tell_policy(account: Account, policy: SiloPolicy) -> None:
    """Say in words to which runs this silo agrees."""
    limits = _limits(policy)
    within = f"only runs with {', '.join(limits)}" if limits else "runs of any kind"
    if policy.approve == "by hand":
        account.passed("policy", f"{within}, each after an approval by hand here")
    elif limits:
        account.passed("policy", f"{within}, without asking anybody here")
    else:
        found = "every run of the consortium begins without anybody here being asked, whatever it is"
        account.warned("policy", found, 'set limits in [policy] of silo.toml, or approve = "by hand"')


def _limits(policy: SiloPolicy) -> list[str]:
    found = [
        None if policy.methods == "any" else f"the methods {' or '.join(policy.methods) or 'none'}",
        None if policy.most_rounds is None else f"at most {policy.most_rounds} rounds",
        None if policy.most_epochs is None else f"at most {policy.most_epochs} epochs in a turn",
        f"{policy.least_invited} silos invited or more" if policy.least_invited > 1 else None,
        f"{policy.least_quorum} silos or more in each round" if policy.least_quorum > 1 else None,
        None if policy.most_megabytes is None else f"at most {policy.most_megabytes:g} MB leaving in a round",
        None if policy.most_epsilon is None else f"differential privacy within epsilon {policy.most_epsilon:g}",
        f"the models of {policy.least_mix} others mixed or more" if policy.least_mix > 1 else None,
        f"no score of fewer than {policy.least_tested} examples" if policy.least_tested > 1 else None,
        None if policy.metrics == "any" else f"no metrics but {', '.join(policy.metrics) or 'none'}",
        None if policy.wire == "any" else f"numbers sent as {' or '.join(policy.wire) or 'none'}",
    ]
    return [limit for limit in found if limit is not None]
