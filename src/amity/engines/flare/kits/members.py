"""The members of a consortium, as its hub knows them: one file each, with nothing secret in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from amity.engines.flare.kits.consortium import FILE, check_silo_name, read_consortium
from amity.engines.flare.kits.files import read_json, write_json
from amity.engines.flare.kits.places import address_of, check_hub
from amity.errors import DamagedFile, InputError
from amity.federation.audit import Audit

if TYPE_CHECKING:
    from amity.engines.flare.kits.request import Request

LOG, COORDINATOR = "audit.jsonl", "coordinator"
DISABLED = Path("server", "disabled_clients.json")  # FLARE's server reads it when it starts


@dataclass(frozen=True)
class Member:
    """A silo that was admitted. Dates are UTC, in ISO form."""

    name: str
    organisation: str
    fingerprint: str  # of its key
    serial: str  # of its certificate
    not_before: str
    not_after: str
    admitted: str
    removed: str | None
    certificate: str


def members(hub: Path) -> list[Member]:
    """Return all who were ever admitted, by name; `removed` tells who is no longer a member."""
    folder = check_hub(hub) / "members"
    return [_load(file) for file in sorted(folder.glob("*.json"))]


def member(hub: Path, name: str) -> Member:
    """Return one of them."""
    check_silo_name(name)
    file = check_hub(hub) / "members" / f"{name}.json"
    if not file.is_file():
        known = ", ".join(one.name for one in members(hub)) or "none yet"
        raise InputError(f"{name} needs to be a member of this consortium, there are {known}: check the name")
    return _load(file)


def admit(hub: Path, request: Request) -> str:
    """Sign a certificate for a new member, and return the text of its admission."""
    from amity.engines.flare.kits.certificates import fingerprint

    hub, now = check_hub(hub), _now()
    same = [one for one in members(hub) if one.name.lower() == request.name.lower()]
    if same and same[0].removed is None:
        raise InputError(
            f"a member's name needs to be new, {same[0].name} was admitted on {same[0].admitted[:10]}: "
            "choose another, or `amity federation renew` if it is the same silo"
        )
    if same and (same[0].name, same[0].fingerprint) != (request.name, fingerprint(request.key)):
        raise InputError(
            f"{same[0].name} was removed and its certificate is not yet expired, "
            "another key cannot have its name: choose another name"
        )
    return _certify(hub, request, "admitted", admitted=now)


def renew(hub: Path, name: str, request: Request | None = None) -> str:
    """Sign a new certificate for a member, for its key or for that of a new request; return its admission."""
    from amity.engines.flare.kits.certificates import load_certificate, public_key
    from amity.engines.flare.kits.request import Request

    hub, known = check_hub(hub), member(hub, name)
    if known.removed is not None:
        raise InputError(f"only a member's certificate is renewed, {name} was removed on {known.removed[:10]}")
    if request is not None and request.organisation != known.organisation:
        raise InputError(
            f"a renewal keeps the organisation, {name} is that of {known.organisation}, "
            f"the request says {request.organisation}: ask the silo for another one"
        )
    if request is None:
        request = Request(name, known.organisation, public_key(load_certificate(known.certificate)))
    return _certify(hub, request, "renewed", admitted=known.admitted)


def remove(hub: Path, name: str) -> Member:
    """Mark a member as removed: no run invites it, and the server refuses it from its next start on."""
    hub, known = check_hub(hub), member(hub, name)
    if known.removed is not None:
        raise InputError(f"{name} was removed on {known.removed[:10]}: nothing is to be done")
    known = replace(known, removed=_now())
    _record(hub, known, "removed")
    return known


def _certify(hub: Path, request: Request, what: str, admitted: str) -> str:
    from amity.engines.flare.kits.admission import Admission, write_admission
    from amity.engines.flare.kits.certificates import Subject, fingerprint, issue, pem
    from amity.engines.flare.kits.hub import load_root

    consortium, root = read_consortium(hub / FILE), load_root(hub)
    try:
        own = issue(root, Subject(request.name, request.organisation), request.key, consortium.valid_days)
    except ValueError as error:
        raise InputError(f"no certificate can be signed ({error}): make a new hub and new kits") from error
    record = Member(
        name=request.name,
        organisation=request.organisation,
        fingerprint=fingerprint(request.key),
        serial=f"{own.serial_number:x}",
        not_before=own.not_valid_before_utc.isoformat(),
        not_after=own.not_valid_after_utc.isoformat(),
        admitted=admitted,
        removed=None,
        certificate=pem(own),
    )
    _record(hub, record, what)
    at = address_of(consortium)
    admission = Admission(
        name=request.name,
        consortium=at["consortium"],
        host=at["host"],
        port=at["port"],
        certificate=pem(own),
        root=pem(root.certificate),
    )
    return write_admission(admission, root)


def _record(hub: Path, one: Member, what: str) -> None:
    """Write down what is so of a member now, and that it has become so."""
    write_json(hub / "members" / f"{one.name}.json", asdict(one))
    _tell_server(hub)
    said = f"{one.organisation}, certificate {one.serial} until {one.not_after}"
    Audit(hub / LOG, COORDINATOR).add(what, silo=one.name, sha256=one.fingerprint.replace(" ", ""), words=said)


def _tell_server(hub: Path) -> None:
    """Keep FLARE's list of those who may not connect equal to ours."""
    removed = [one.name for one in members(hub) if one.removed is not None]
    if removed or (hub / DISABLED).exists():
        write_json(hub / DISABLED, {"disabled_clients": removed})


def _load(file: Path) -> Member:
    content = read_json(file)
    if set(content) != {field.name for field in fields(Member)} or content["name"] != file.stem:
        raise DamagedFile(f"{file} is not as it was written: take it from a backup")
    return Member(**content)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
