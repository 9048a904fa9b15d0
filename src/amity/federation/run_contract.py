"""The run contract: what every silo agrees to before its data are touched, signed by the consortium.

A contract says who invites whom to what: method, rounds, form of the data, who must be there, and all that leaves a
silo, by name and size. It has one text and one hash. Whoever approves it approves that hash, so that nothing can be
changed afterwards without asking again.

    contract.json = {"form": 1, "contract": {...}, "signed": time, "signature": base64, "certificate": PEM of who signs}

The signature is over the time and the contract's canonical text, not over the file, whose blanks mean nothing. A
certificate has to be valid when a contract is signed, and when it is first shown to somebody. A run that was agreed to
goes on after that, and old contracts can still be verified. `cryptography` comes with amity[federation] and is imported
only where something is signed or verified.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from amity.config.run import Run
from amity.errors import InputError
from amity.federation import certificates, contract_rules
from amity.federation import strict_json as strict
from amity.federation.certificates import Moment

FORM = 1
"""The version of what is written here; a silo that knows another one refuses it."""

LONGEST = 1 << 18
"""Characters of a contract; it travels in a message's header."""

AHEAD = timedelta(hours=1)
"""By so much the clock of who signs may be ahead of that of who verifies."""

_PURPOSE = b"amity run contract 1\n"  # signed too: the key also signs other things, none of which is a contract

Policy = Literal["wait", "quorum"]
Wire = Literal["float32", "float16", "bfloat16"]
Leaves = Literal["tensor", "metric", "count"]


class RefusedContract(InputError):
    """A contract that cannot be relied on: it is damaged, of another version, or not signed by who may sign it."""


class DataForm(NamedTuple):
    """The form that all silos' data have in common."""

    shape: tuple[int, ...]  # of one example
    labels: tuple[str, ...] | None  # names of the classes, in the order of their numbers; None: quantities
    features: tuple[str, ...] | None = None  # names of the columns where examples are rows of tables

    @property
    def classes(self) -> int:
        """The number of classes; 0 where labels are quantities."""
        return 0 if self.labels is None else len(self.labels)


class Limits(NamedTuple):
    """How long a run waits, and how often it tries."""

    turn: int = 3600  # seconds that one turn may take at most, whatever a silo's pace
    absence: int = 86400  # seconds that a run waits for a missing silo before it is given up
    failures: int = 20  # restarts after which a run is given up


class Leaving(NamedTuple):
    """One thing that leaves a silo."""

    name: str
    kind: Leaves
    bytes: int  # each time
    words: str  # what it is, and when it leaves


@dataclass(frozen=True)
class RunContract:
    """All that a silo agrees to."""

    name: str  # of the run
    consortium: str
    run: Mapping[str, Any]  # Run.table()
    data: DataForm
    layout: str  # a hash of model and method: see federation/plan.py
    invited: tuple[str, ...]
    quorum: int  # silos whose uploads a round needs; below it no round is aggregated
    policy: Policy  # wait for those who are missing, or go on without them as long as the quorum is there
    least_rounds: int  # that each silo must have taken part in for the run to be a success
    limits: Limits
    leaves: tuple[Leaving, ...]
    wire: Wire
    privacy: Mapping[str, Any]
    amity: str  # the version of Amity at the coordinator

    def __post_init__(self) -> None:
        try:
            strict.check(self.table())
            contract_rules.check(self)
        except ValueError as error:  # so is an InputError about an option
            raise RefusedContract(f"a run contract cannot be used, {error}: make it anew") from None

    @property
    def options(self) -> Run:
        """The run that it is about."""
        return contract_rules.options_of(self.run)

    def table(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        flat = {field.name: getattr(self, field.name) for field in fields(self)}
        leaves = [leaving._asdict() for leaving in self.leaves]
        data = {key: list(value) if isinstance(value, tuple) else value for key, value in self.data._asdict().items()}
        return {
            **flat,
            "run": dict(self.run),
            "data": data,
            "invited": list(self.invited),
            "limits": self.limits._asdict(),
            "leaves": leaves,
            "privacy": dict(self.privacy),
        }

    def canonical(self) -> str:
        """Return its one text, which is hashed and signed."""
        return strict.canonical({"form": FORM, "contract": self.table()})

    def hash(self) -> str:
        """Return the SHA-256 of its canonical text: what is approved."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


class Signed(NamedTuple):
    """A contract with the signature under it, which `verify` alone says anything about."""

    contract: RunContract
    signature: str  # base64
    certificate: str  # PEM of the signer
    when: str  # it was signed: ISO 8601, UTC


def to_json(signed: Signed) -> str:
    """Return the text of contract.json."""
    contract, signature, certificate, when = signed
    # The text of a certificate has lines of its own; as a list of them, no text here needs anything but plain letters.
    lines = certificate.strip().splitlines()
    document = {"form": FORM, "contract": contract.table(), "signed": when, "signature": signature}
    text = strict.canonical({**document, "certificate": lines})
    if len(text) > LONGEST:
        raise RefusedContract(f"a contract has at most {LONGEST:,} characters, got {len(text):,}: name fewer things")
    return text


def from_json(text: str) -> Signed:
    """Return what a contract.json says. Its signature is not looked at: see `verify`."""
    try:
        document = strict.read(text, LONGEST)
        if isinstance(document, dict) and document.get("form", FORM) != FORM:
            raise ValueError(f"it is of form {document['form']!r:.20}, known is {FORM}; use the same version of Amity")
        found = strict.table(document, ("form", "contract", "signed", "signature", "certificate"), "it")
        signature = strict.of_type(found["signature"], str, "its signature")
        certificate = "\n".join(strict.texts(found["certificate"], "certificate")) + "\n"
        when = strict.of_type(found["signed"], str, "the time of its signature")
        return Signed(contract_of(found["contract"]), signature, certificate, when)
    except ValueError as error:
        if isinstance(error, RefusedContract):
            raise
        raise RefusedContract(f"a run contract cannot be read, {error}: ask for it anew") from None


def contract_of(value: Any) -> RunContract:
    """Return the contract that a table describes, with exactly its keys, each of its type."""
    found = dict(strict.table(value, [field.name for field in fields(RunContract)], "the contract"))
    for key in ("name", "consortium", "layout", "policy", "wire", "amity"):
        strict.of_type(found[key], str, key)
    for key in ("quorum", "least_rounds"):
        strict.of_type(found[key], int, key)
    for key in ("run", "privacy"):
        strict.of_type(found[key], dict, key)
    form = strict.table(found["data"], DataForm._fields, "data")
    limits = strict.table(found["limits"], Limits._fields, "limits")
    found["data"] = DataForm(
        tuple(strict.of_type(side, int, "shape") for side in strict.of_type(form["shape"], list, "shape")),
        None if form["labels"] is None else strict.texts(form["labels"], "labels"),
        None if form["features"] is None else strict.texts(form["features"], "features"),
    )
    found["limits"] = Limits(**{key: strict.of_type(number, int, key) for key, number in limits.items()})
    found["invited"] = strict.texts(found["invited"], "invited")
    found["leaves"] = tuple(map(_leaving, strict.of_type(found["leaves"], list, "leaves")))
    return RunContract(**found)


def _leaving(value: Any) -> Leaving:
    found = strict.table(value, Leaving._fields, "what leaves")
    kinds = {"name": str, "kind": str, "bytes": int, "words": str}
    return Leaving(**{key: strict.of_type(found[key], kind, key) for key, kind in kinds.items()})


def sign(contract: RunContract, key_pem: bytes, certificate_pem: bytes, now: datetime) -> Signed:
    """Put a signature under a contract, with the key that belongs to this certificate."""
    when = now.astimezone(UTC).isoformat(timespec="seconds")
    return Signed(contract, *certificates.sign(_content(contract, when), key_pem, certificate_pem), when)


def _content(contract: RunContract, when: str) -> bytes:
    """Return what is signed."""
    return _PURPOSE + f"{when}\n{contract.canonical()}".encode()


def verify(document: str, root_pem: bytes, now: datetime, *, known: bool = False) -> Signed:
    """Return the contract in a document, if it holds: signed by an administrator whom this root has certified, in the
    time that both certificates are for, and made for the consortium whose root it is.

    `known`: it was verified before, so that certificates may have ended since it was signed. Else they have to be valid
    now, too: an old key, which somebody may have found, signs nothing new under an old date. The consortium's name is
    the common name in the root certificate's subject.
    """
    signed = from_json(document)
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
