"""Contracts with the consortium's signature under them, as files and messages hold them.

    contract.json = {"form": 1, "contract": {...}, "signed": time, "signature": base64, "certificate": PEM of who signs}

What is signed is either a run (`contract`, see run_contract.py) or an agreement on a schema (`schema`, see
schema_contract.py). The signature is over the time and the contract's canonical text, not over the file, whose blanks
mean nothing. A certificate has to be valid when a contract is signed, and when it is first shown to somebody. A run
that was agreed to goes on after that, and old contracts can still be verified. `cryptography` comes with
amity[federation] and is imported only where something is signed or verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from amity.federation import certificates
from amity.federation import strict_json as strict
from amity.federation.certificates import Moment
from amity.federation.run_contract import FORM, RefusedContract, RunContract, contract_of
from amity.federation.schema_contract import SchemaContract, schema_contract_of

LONGEST = 1 << 18
"""Characters of a contract; it travels in a message's header."""

AHEAD = timedelta(hours=1)
"""By so much the clock of who signs may be ahead of that of who verifies."""

Contract = RunContract | SchemaContract
"""All that a consortium signs and a silo agrees to."""

C = TypeVar("C", bound=Contract, covariant=True)
Own = TypeVar("Own", bound=Contract)

_READERS: Mapping[str, Callable[[Any], Contract]] = {
    RunContract.KEY: contract_of,
    SchemaContract.KEY: schema_contract_of,
}


class Signed(NamedTuple, Generic[C]):
    """A contract with the signature under it, which `verify` alone says anything about."""

    contract: C
    signature: str  # base64
    certificate: str  # PEM of the signer
    when: str  # it was signed: ISO 8601, UTC


def to_json(signed: Signed[Contract]) -> str:
    """Return the text of contract.json."""
    contract, signature, certificate, when = signed
    # The text of a certificate has lines of its own; as a list of them, no text here needs anything but plain letters.
    lines = certificate.strip().splitlines()
    document = {"form": FORM, contract.KEY: contract.table(), "signed": when, "signature": signature}
    text = strict.canonical({**document, "certificate": lines})
    if len(text) > LONGEST:
        raise RefusedContract(f"a contract has at most {LONGEST:,} characters, got {len(text):,}: name fewer things")
    return text


def from_json(text: str) -> Signed[RunContract]:
    """Return what a run's contract.json says. Its signature is not looked at: see `verify`."""
    return about_a_run(any_from_json(text))


def any_from_json(text: str) -> Signed[Contract]:
    """Return what a contract.json says, whatever it is about. Its signature is not looked at."""
    try:
        document = strict.read(text, LONGEST)
        if isinstance(document, dict) and document.get("form", FORM) != FORM:
            raise ValueError(f"it is of form {document['form']!r:.20}, known is {FORM}; use the same version of Amity")
        key = SchemaContract.KEY if isinstance(document, dict) and SchemaContract.KEY in document else RunContract.KEY
        found = strict.table(document, ("form", key, "signed", "signature", "certificate"), "it")
        signature = strict.of_type(found["signature"], str, "its signature")
        certificate = "\n".join(strict.texts(found["certificate"], "certificate")) + "\n"
        when = strict.of_type(found["signed"], str, "the time of its signature")
        return Signed(_READERS[key](found[key]), signature, certificate, when)
    except ValueError as error:
        if isinstance(error, RefusedContract):
            raise
        raise RefusedContract(f"a run contract cannot be read, {error}: ask for it anew") from None


def about_a_run(signed: Signed[Contract]) -> Signed[RunContract]:
    """Return a contract that is about a run; one about a schema is refused."""
    contract = signed.contract
    if not isinstance(contract, RunContract):
        raise RefusedContract(f"{contract.name!r} asks for a schema, a run's contract is needed: give that one")
    return Signed(contract, *signed[1:])


def about_a_schema(signed: Signed[Contract]) -> Signed[SchemaContract]:
    """Return a contract that is about a schema; one about a run is refused."""
    contract = signed.contract
    if not isinstance(contract, SchemaContract):
        raise RefusedContract(f"{contract.name!r} asks for a run, a schema's contract is needed: give that one")
    return Signed(contract, *signed[1:])


def sign(contract: Own, key_pem: bytes, certificate_pem: bytes, now: datetime) -> Signed[Own]:
    """Put a signature under a contract, with the key that belongs to this certificate."""
    when = now.astimezone(UTC).isoformat(timespec="seconds")
    return Signed(contract, *certificates.sign(_content(contract, when), key_pem, certificate_pem), when)


def _content(contract: Contract, when: str) -> bytes:
    """Return what is signed: the purpose too, since the key also signs other things."""
    return contract.PURPOSE + f"{when}\n{contract.canonical()}".encode()


def verify(document: str, root_pem: bytes, now: datetime, *, known: bool = False) -> Signed[Contract]:
    """Return the contract in a document, if it holds: signed by an administrator whom this root has certified, in the
    time that both certificates are for, and made for the consortium whose root it is.

    `known`: it was verified before, so that certificates may have ended since it was signed. Else they have to be valid
    now, too: an old key, which somebody may have found, signs nothing new under an old date. The consortium's name is
    the common name in the root certificate's subject.
    """
    signed = any_from_json(document)
    contract, signature, certificate, when = signed
    try:
        then = _time(when)
        if then > now + AHEAD:
            raise ValueError(f"it was signed at {when}, which is yet to come; look at both clocks")
        moments = [Moment(now), Moment(then, "it was signed at")]
        for moment in moments[known:]:
            root = certificates.trusted_root(root_pem, moment)
            signer = certificates.trusted_signer(certificate.encode(), root, moment)
        certificates.check_signature(_content(contract, when), signature, signer)
        consortium = certificates.name_in(root)
        if contract.consortium != consortium:
            raise ValueError(f"it is of the consortium {contract.consortium!r}, this silo belongs to {consortium!r}")
    except ValueError as error:
        raise RefusedContract(
            f"the contract of run {contract.name!r} is refused, {error}: tell the coordinator"
        ) from None
    return signed


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ValueError(f"the time of its signature is none ({text!r:.40})")
    return found
