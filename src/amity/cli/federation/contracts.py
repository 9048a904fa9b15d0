"""What a silo agrees to, and the account of what happened: approve, contract, audit."""

from __future__ import annotations

import getpass
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amity.cli.flags import with_log_options
from amity.errors import InputError

if TYPE_CHECKING:
    from amity.federation.audit import Entry
    from amity.federation.policy import SiloPolicy
    from amity.federation.run_contract import RunContract
    from amity.federation.signed import Contract, Signed
    from amity.site.config import Site

LOG = "audit.jsonl"
SHOWN = 20  # problems that are told one by one

SiteOption = Annotated[Path, typer.Option("--site", metavar="SITE", envvar="AMITY_SITE", help="the silo's folder")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("contract")(with_log_options(contract_command))
    app.command("approve")(with_log_options(approve_command))
    app.command("audit")(with_log_options(audit_command))


def approve_command(
    site: SiteOption,
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="the run's name [default: list what waits]", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="take the approval back")] = False,
) -> None:
    """Approve a run for this silo, after looking at its contract in plain words."""
    from amity.site.config import load_site

    own = load_site(site)
    if run is None:
        _list_waiting(own)
    elif withdraw:
        _withdraw(own, run)
    else:
        _approve(own, run, yes)


def contract_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a contract.json, or a RUN.toml")],
    site: Annotated[
        Path | None, typer.Option("--site", metavar="SITE", help="verify the signature, and ask this silo's policy")
    ] = None,
    hub: Annotated[
        Path | None, typer.Option("--hub", metavar="HUB", help="verify the signature, or whose members a run invites")
    ] = None,
) -> None:
    """Say in plain words what a run's contract is."""
    from amity.federation.contract_words import in_words

    if file.suffix == ".toml":
        print(in_words(_drafted(file, hub)))
        print("\nsignature: none yet, `amity federation submit` signs it")
        return
    signed, checked = _read(file, site, hub)
    print(in_words(signed.contract))
    print(f"\nsignature: {checked}")
    if site is not None:
        from amity.site.config import load_site

        own = load_site(site)
        _tell_policy(signed.contract, own.policy, own.name)


def audit_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="a hub, a silo's folder, or its state folder")],
    last: Annotated[int, typer.Option("--last", metavar="N", min=0, help="lines to show")] = 10,
) -> None:
    """Verify the log of a hub or a silo: exit code 0 if it is as it was written, else 2."""
    from amity.federation.audit import entries, verify

    path = _log_of(folder)
    problems, found = verify(path), entries(path)
    for entry in found[max(0, len(found) - last) :]:
        print(_told(entry))
    if problems:
        told = [f"line {one.line}: {one.words}" if one.line else one.words for one in problems[:SHOWN]]
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise InputError(f"{path} is not as it was written: {'; '.join([*told, *more])}")
    if not found:
        print(f"{path} has no lines yet")
    else:
        print(f"{path}: {len(found):,} lines, all as they were written; the last hash, to be noted elsewhere:")
        print(found[-1].hash)


def _approve(site: Site, run: str, yes: bool) -> None:
    from amity.federation.approvals import approve, offered
    from amity.federation.contract_words import in_words
    from amity.federation.policy import objections
    from amity.federation.signed import verify
    from amity.site.consent import root_certificate

    now = datetime.now(UTC)
    signed = verify(offered(site.state, run), root_certificate(site), now)
    contract = signed.contract
    if contract.name != run:
        raise InputError(f"the contract that waits as {run!r} is of run {contract.name!r}: remove it from {site.state}")
    print(in_words(contract))
    print(f"\nsignature: {_signer(signed)}")
    _tell_policy(contract, site.policy, site.name)
    if against := objections(contract, site.policy, silo=site.name):
        _note(site, contract, "not approved", "; ".join(against))
        raise InputError(
            f"run {run!r} is not what this silo agrees to: {'; '.join(against)}: decline, or see silo.toml"
        )
    if not yes and not _confirmed(f"\nDoes {site.name} take part in run {run}?"):
        _note(site, contract, "not approved", f"by {_person()}")
        print("not approved; nothing was changed")
        raise typer.Exit(1)
    given = approve(site.state, contract, site.name, _person(), now)
    _note(site, contract, "approved", f"by {given.who}")
    print(f"approved by {given.who}: {site.name} takes part in run {run} under exactly this contract")


def _confirmed(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:
        raise InputError("an approval needs an answer, got none: answer y or n, or give --yes") from None


def _withdraw(site: Site, run: str) -> None:
    from amity.federation.approvals import withdraw
    from amity.federation.audit import Audit

    taken = withdraw(site.state, run, site.name)
    for approval in taken:
        note = f"by {_person()}; it was given by {approval.who}"
        Audit(site.state / LOG, site.name).add(
            "withdrawn", run=run, silo=site.name, sha256=approval.contract, words=note
        )
    if not taken:
        raise InputError(f"run {run!r} has no approval at {site.name}: nothing is to be withdrawn")
    print(f"withdrawn: {site.name} does not begin run {run} any more; `amity federation leave` ends one that goes on")


def _list_waiting(site: Site) -> None:
    from amity.federation.approvals import read_approvals, runs_offered

    approvals = read_approvals(site.state, site.name)
    for run in runs_offered(site.state):
        print(f"{run}: waits for `amity federation approve {run} --site {site.folder}`")
    for approval in approvals.given:
        print(f"{approval.run}: approved by {approval.who}, {approval.when}")
    for line in approvals.refused:
        print(line)
    if not runs_offered(site.state) and not any(approvals):
        print("no run waits for an approval")


def _tell_policy(contract: Contract, policy: SiloPolicy, silo: str) -> None:
    from amity.federation.policy import objections

    against = objections(contract, policy, silo=silo)
    print("this silo's policy: " + ("has something against it" if against else "has nothing against it"))
    for reason in against:
        print(f"  {reason}")
    if not against and policy.stands(contract):
        print("  and needs no approval by hand")


def _note(site: Site, contract: Contract, what: str, words: str) -> None:
    from amity.federation.audit import Audit

    audit = Audit(site.state / LOG, site.name)
    audit.add(what, run=contract.name, silo=site.name, sha256=contract.hash(), words=words)


def _drafted(file: Path, hub: Path | None) -> RunContract:
    """Return the contract that would come of a RUN.toml; without a hub, those who are invited count as members."""
    from amity.hub.run_file import contract_of_file
    from amity.record.files import load_toml

    if hub is None:
        invited = load_toml(file).get("invited")
        if not isinstance(invited, list):
            raise InputError(f"{file} does not say who is invited: name them, or give --hub, whose members they are")
        return contract_of_file(file, "not yet named", [name for name in invited if isinstance(name, str)])
    from amity.engines.flare.kits.consortium import FILE, read_consortium
    from amity.engines.flare.kits.members import members

    there = [member.name for member in members(hub) if member.removed is None]
    return contract_of_file(file, read_consortium(hub / FILE).name, there)


def _read(file: Path, site: Path | None, hub: Path | None) -> tuple[Signed[Contract], str]:
    """Return a signed contract, and what is known of its signature."""
    from amity.federation.signed import any_from_json, verify
    from amity.record.files import load_small

    text = load_small(file).decode("utf-8", "replace")
    if site is None and hub is None:
        return any_from_json(text), "not verified, give --site or --hub"
    signed = verify(text, _root(site, hub), datetime.now(UTC), known=True)  # it is looked at, and nobody agrees to it
    return signed, _signer(signed)


def _root(site: Path | None, hub: Path | None) -> bytes:
    """Return the root certificate of a silo's consortium, or that of a hub."""
    if site is not None:
        from amity.site.config import load_site
        from amity.site.consent import root_certificate

        return root_certificate(load_site(site))
    from amity.engines.flare.kits import places

    assert hub is not None
    return places.root_certificate(hub)


def _signer(signed: Signed[Contract]) -> str:
    from amity.federation.certificates import signer_of

    return f"verified, by {signer_of(signed.certificate.encode())}"


def _log_of(folder: Path) -> Path:
    """Return the log of a hub, of a silo or of its state folder."""
    if folder.is_file():
        return folder
    if (folder / "silo.toml").is_file():
        from amity.site.config import load_site

        return load_site(folder).state / LOG
    if not (folder / LOG).is_file() and not (folder / "consortium.toml").is_file():
        raise InputError(f"{folder} is no hub, no silo and has no {LOG}: check the path")
    return folder / LOG


def _told(entry: Entry) -> str:
    parts = [str(entry.number), entry.time, entry.who, entry.what, entry.run]
    parts += [f"round {entry.round}"] if entry.round else []
    parts += [entry.silo] if entry.silo != entry.who else []
    parts += [f"{entry.bytes:,} bytes"] if entry.bytes else []
    parts += [f"sha256 {entry.sha256[:12]}"] if entry.sha256 else []
    return "  ".join(part for part in (*parts, entry.words) if part)


def _person() -> str:
    """Return whose account this is."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in containers
        return f"user {os.getuid()}"
