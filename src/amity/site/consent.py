"""Whether a silo takes part in a run: the contract is verified, then its own policy or an approval by hand decides."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from importlib.metadata import version

from amity.errors import InputError
from amity.federation.approvals import offer, read_approvals, settle
from amity.federation.policy import Decision, decide
from amity.federation.run_contract import RunContract
from amity.federation.signed import Contract, Signed, to_json, verify
from amity.learn.accounting import require_opacus
from amity.site import agreement
from amity.site.config import Site

_log = logging.getLogger("amity.site")


def root_certificate(site: Site) -> bytes:
    """The consortium's root certificate, as the silo's kit has it (PEM)."""
    file = site.kit / "startup" / "rootCA.pem"
    try:
        return file.read_bytes()
    except OSError as error:
        _log.error("%s cannot be read: %s", file, error.strerror or error)
        raise InputError(
            f"silo {site.name} has no root certificate to verify a contract with ({error.strerror}): install its kit"
        ) from None


def opened(site: Site, run: str, document: str, root: bytes) -> Signed[Contract]:
    """The contract in a document: verified, about this run, for this silo, and one that this version can keep to.

    The certificate of its signer may end while a run goes on that was agreed to here.
    """
    agreed = agreement.load(site, run)
    signed = verify(document, root, datetime.now(UTC), known=agreed is not None and agreed.is_about(document))
    contract = signed.contract
    if contract.name != run:
        raise InputError(f"a message of run {run!r} brings the contract of {contract.name!r}: look at who sends it")
    if site.name not in contract.invited:
        raise InputError(f"the contract of run {run!r} does not invite silo {site.name}: leave it out")
    _check_kept(contract)
    return signed


def _check_kept(contract: Contract) -> None:
    """Refuse what a contract promises and nobody here would keep."""
    if isinstance(contract, RunContract) and contract.privacy:
        require_opacus()
    here = version("amity")
    if here.split(".")[:2] != contract.amity.split(".")[:2]:
        raise InputError(
            f"silos need the coordinator's version of Amity up to its second number, this one has {here}, the contract "
            f"of run {contract.name!r} was made with {contract.amity}: upgrade one of them"
        )


def decision(site: Site, signed: Signed[Contract]) -> Decision:
    """Whether the silo takes part. What is not approved yet waits in its state folder for somebody to look at it."""
    contract = signed.contract
    approvals = read_approvals(site.state, site.name)
    for line in approvals.refused:
        _log.warning("%s", line)
    found = decide(contract, site.policy, approvals.given, silo=site.name)
    if found.approved:
        settle(site.state, contract.name)
    else:
        offer(site.state, contract.name, to_json(signed))
    return found
