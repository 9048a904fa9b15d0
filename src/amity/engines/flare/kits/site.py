"""A silo's folder: its own key, its request, and the kit that it makes itself from what the coordinator sends."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric import rsa

from amity.engines.flare.kits import resources
from amity.engines.flare.kits.admission import Admission, read_admission
from amity.engines.flare.kits.certificates import fingerprint, key_pem, load_key, new_key, public_key, same_fingerprint
from amity.engines.flare.kits.consortium import check_silo_name, is_organisation
from amity.engines.flare.kits.files import check_place, read, read_json, write, write_json
from amity.engines.flare.kits.request import read_request, write_request
from amity.engines.flare.kits.template import silo_toml
from amity.engines.flare.kits.workspace import ROOT_CERTIFICATE, Startup, write_kit
from amity.errors import DamagedFile, InputError
from amity.federation.safe_files import folder, sync

KEY = "key.pem"
NEXT_KEY = "key.next.pem"  # from a renewal's request until its admission


class Asked(NamedTuple):
    """A request that was written."""

    file: Path
    fingerprint: str


def ask(site: Path, name: str, organisation: str | None, *, another_key: bool = False) -> Asked:
    """Make a silo's key, as far as there is none, and write its request."""
    check_silo_name(name)
    site = check_place(site)
    file = site / f"{name}.request"
    if organisation is None:
        organisation = read_request(file).organisation if file.exists() else name
    if not is_organisation(organisation):
        raise InputError(f"an organisation needs a text of 1 to 64 characters, got {organisation!r}: shorten it")
    try:
        folder(site)
    except OSError as error:
        raise InputError(f"{site} cannot be made ({error.strerror or error}): choose another --site") from None
    others = [file.stem for file in site.glob("*.request") if file.stem != name]
    if others:
        raise InputError(f"a site is one silo, {site} is that of {others[0]}: choose another --site")
    key = _own_key(site / (NEXT_KEY if another_key else KEY))
    write(file, write_request(name, organisation, key))
    return Asked(file, fingerprint(key.public_key()))


def complete(site: Path, name: str, file: Path, expected_root: str | None = None) -> Admission:
    """Make a silo's kit from its admission, or put a new certificate into the kit that it has."""
    site, admission = check_place(site), read_admission(file)
    if admission.name != name:
        raise InputError(f"{file} admits {admission.name}, not {name}: take the one for this silo")
    if expected_root is not None and not same_fingerprint(expected_root, admission.root_key()):
        raise InputError(
            f"{file} comes from a root with another fingerprint ({fingerprint(admission.root_key())}): do not use it"
        )
    key_file = _key_of(site, admission)
    kit = site / "kit"
    if kit.exists():
        _renew(kit, admission)
    else:
        _make(kit, admission)
    if key_file.name == NEXT_KEY:
        os.replace(key_file, site / KEY)
        sync(site)
    if not (site / "silo.toml").exists():
        write(site / "silo.toml", silo_toml(name))
    return admission


def _own_key(file: Path) -> rsa.RSAPrivateKey:
    if not file.exists():
        key = new_key()
        write(file, key_pem(key))
        return key
    try:
        return load_key(read(file))
    except ValueError as error:
        raise DamagedFile(f"{file} is not a private key ({error}): take it from a backup, or move it away") from error


def _key_of(site: Path, admission: Admission) -> Path:
    """Return the file of the key that an admission is for."""
    wanted = fingerprint(public_key(admission.own_certificate()))
    for name in (KEY, NEXT_KEY):
        if (site / name).exists() and fingerprint(_own_key(site / name).public_key()) == wanted:
            return site / name
    raise InputError(f"the admission is for another key than {site / KEY}: send the coordinator this site's .request")


def _make(kit: Path, admission: Admission) -> None:
    """Write a kit, all of it or nothing."""
    aside = kit.with_name(".kit.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    startup: Startup = {
        "fed_client.json": resources.fed_client(admission.address(), admission.name),
        "client.crt": admission.certificate,
        ROOT_CERTIFICATE: admission.root,
    }
    local = {
        "resources.json": resources.silo_resources(),
        "authorization.json": resources.silo_authorization(),
        "log_config.json": resources.log_config(),
    }
    write_kit(aside, startup, local)
    os.replace(aside, kit)
    sync(kit.parent)


def _renew(kit: Path, admission: Admission) -> None:
    """Put a certificate and, where the server has moved, its address into a kit that is there."""
    startup = kit / "startup"
    if read(startup / ROOT_CERTIFICATE).decode() != admission.root:
        raise InputError(f"the admission comes from another consortium than {kit}: use another --site for it")
    wanted = resources.fed_client(admission.address(), admission.name)
    known = read_json(startup / "fed_client.json")
    if known["client"]["fqsn"] != admission.name:
        raise InputError(f"{kit} is that of {known['client']['fqsn']}, not of {admission.name}: use another --site")
    if known["servers"] != wanted["servers"]:
        write_json(startup / "fed_client.json", {**known, "servers": wanted["servers"]})
    write(startup / "client.crt", admission.certificate)
