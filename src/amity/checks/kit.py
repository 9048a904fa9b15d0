"""The files of a silo that came from the consortium, its key, who may read them, and whether they are in use."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amity.checks.dates import check_dates
from amity.checks.findings import Account

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

JOIN_AGAIN = "put it back from a backup, or move kit/ away and join again with the admission"
RENEW_OWN = "ask the coordinator for `amity federation renew`, then join with the new admission"


class Address(NamedTuple):
    """What a kit says about whose it is, and whom it dials."""

    name: str
    consortium: str
    host: str
    port: int


def check_address(account: Account, folder: Path) -> Address | None:
    """Note whose kit this is and whom it dials."""
    from amity.engines.flare.kits.files import check_place, read_json

    with account.about("folder"):
        check_place(folder)
    with account.about("kit"):
        if not (folder / "kit").is_dir():
            remedy = (
                "send the .request to the coordinator, then `amity federation join NAME --site SITE --admission FILE`"
            )
            account.failed("kit", f"{folder} has no kit yet", remedy)
            return None
        file = folder / "kit" / "startup" / "fed_client.json"
        if not file.exists():
            account.failed("kit", f"{file} is missing", JOIN_AGAIN)
            return None
        found = _address_in(read_json(file))
        if found is None:
            account.failed("kit", f"{file} is not as Amity writes it", JOIN_AGAIN)
            return None
        place = f"{found.host}, port {found.port}"
        account.passed("kit", f"of silo {found.name} in the consortium {found.consortium}, whose server is at {place}")
        return found
    return None


def _address_in(table: Mapping[str, Any]) -> Address | None:
    try:
        name, server = table["client"]["fqsn"], table["servers"][0]
        host, _, port = server["service"]["target"].rpartition(":")
        found = Address(str(name), str(server["name"]), str(host), int(port))
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
    return found if found.host and 0 < found.port < 65536 else None


def check_rules(account: Account, folder: Path) -> None:
    """Note whether the kit still refuses what Amity's kits refuse: shipped code, shells, logs that leave."""
    from amity.engines.flare.kits import resources
    from amity.engines.flare.kits.files import read_json

    made: Mapping[str, Callable[[], dict[str, Any]]] = {
        "authorization.json": resources.silo_authorization,
        "resources.json": resources.silo_resources,
    }
    with account.about("kit's rules"):
        local = folder / "kit" / "local"
        if missing := [name for name in (*made, "log_config.json") if not (local / name).exists()]:
            account.failed("kit's rules", f"{local} lacks {', '.join(missing)}", JOIN_AGAIN)
            return
        changed = [name for name, table in made.items() if read_json(local / name) != table()]
        if changed:
            found = f"{', '.join(changed)} in {local} is not as this version of Amity writes it"
            remedy = "see who has changed it, or whether another version made the kit; a new kit has the usual rules"
            account.warned("kit's rules", found, remedy)
        else:
            account.passed("kit's rules", "no code is taken from outside, no shell, no log leaves")


def load(account: Account, check: str, file: Path, remedy: str) -> Certificate | None:
    """Return a certificate; note where there is none."""
    with account.about(check):
        from amity.engines.flare.kits.certificates import load_certificate

        if not file.exists():
            account.failed(check, f"{file} is missing", remedy)
            return None
        try:
            return load_certificate(file.read_bytes())
        except ValueError:
            account.failed(check, f"{file} holds no certificate", remedy)
    return None


def check_pair(
    account: Account, whose: str, root: Certificate | None, certificate: Certificate, key: Path, renew: str
) -> bool:
    """Note dates and issuer of a certificate and the state of its key; return whether they can be used together."""
    from amity.engines.flare.kits.certificates import is_issued_by

    check = f"{whose} certificate"
    check_dates(account, check, certificate, renew)
    issued = root is None or is_issued_by(certificate, root)
    if not issued:
        account.failed(check, "another root has issued it than the one beside it", JOIN_AGAIN)
    return check_key(account, f"{whose} key", key, certificate) and issued


def check_key(account: Account, check: str, key: Path, certificate: Certificate | None) -> bool:
    """Note whether a private key is there, for its owner alone, and the one that a certificate is for."""
    with account.about(check):
        from amity.engines.flare.kits.certificates import load_key

        if not key.exists():
            account.failed(check, f"{key} is missing", "put it back from a backup, or join again with a new key")
            return False
        mode = stat.S_IMODE(key.stat().st_mode)
        if os.name != "nt" and mode & 0o077:
            found = f"others than its owner may open {key} (mode {mode:04o})"
            account.failed(check, found, f"chmod 600 {key}; if others may have read it, ask for a new key")
        try:
            own = load_key(key.read_bytes())
        except (ValueError, TypeError):  # TypeError: it has a password
            account.failed(check, f"{key} is not a private key without password", "put it back from a backup")
            return False
        if certificate is not None and own.public_key() != certificate.public_key():
            account.failed(check, f"{key} is not the key that the certificate beside it is for", JOIN_AGAIN)
            return False
        if not account.has_failed(check):
            account.passed(check, f"{key.name} is for its owner alone" + (", and fits" if certificate else ""))
        return True
    return False


def check_folders(account: Account, *folders: Path) -> None:
    """Note folders that others than their owner may look into, or that are another account's."""
    if os.name == "nt":
        return
    with account.about("folders"):
        there = [folder for folder in folders if folder.is_dir()]
        open_ones = [folder for folder in there if stat.S_IMODE(folder.stat().st_mode) & 0o077]
        foreign = [folder for folder in there if folder.stat().st_uid != os.getuid()]
        if open_ones:
            names = " ".join(map(str, open_ones))
            account.warned("folders", f"others than the owner may look into {names}", f"chmod 700 {names}")
        if foreign:
            names = " ".join(map(str, foreign))
            account.warned("folders", f"another account owns {names}", "run this check as the account that runs it all")
        if not open_ones and not foreign:
            account.passed("folders", "for their owner alone")


def check_name(account: Account, address: Address, own: Certificate | None, configured: str | None) -> None:
    """Note whether kit, certificate and silo.toml mean the same silo."""
    with account.about("silo's name"):
        from amity.engines.flare.kits.certificates import subject_of

        try:
            certified = None if own is None else subject_of(own.subject).name
        except ValueError:
            certified = "nobody in particular"
        known = {"the kit": address.name, "its certificate": certified, "silo.toml": configured}
        said = {where: name for where, name in known.items() if name is not None}
        if len(set(said.values())) > 1:
            words = ", ".join(f"{where} says {name}" for where, name in said.items())
            account.failed("silo's name", words, "use one name: that of the certificate is what the server goes by")
        else:
            account.passed("silo's name", f"{address.name} in {', '.join(said)}")
