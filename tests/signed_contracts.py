"""Run contracts in tests: one to change, contracts of every kind for hypothesis, and a small authority that signs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, get_args

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from hypothesis import strategies as st

from amity.config.run import Run
from amity.federation.run_contract import DataForm, Leaves, Leaving, Limits, RunContract

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

CONTRACT = RunContract(
    name="sepsis-1",
    consortium="north",
    run=Run("fedamp", rounds=8, epochs=2, settings={"sigma": 50.0}).table(),
    data=DataForm((3,), ("ill", "well"), ("age", "pulse", "sugar")),
    layout="0123456789abcdef",
    invited=("aurora", "borea", "cirrus"),
    quorum=2,
    policy="quorum",
    least_rounds=4,
    limits=Limits(),
    leaves=(
        Leaving("params", "tensor", 4000, "1,000 numbers in every round"),
        Leaving("accuracy", "metric", 8, "in every round that is evaluated"),
        Leaving("training examples", "count", 8, "once, before round 1"),
    ),
    wire="float32",
    privacy={},
    amity="0.1.0",
)

TEXTS = st.text(st.characters(exclude_categories=("C", "Zl", "Zp", "Zs")), min_size=1, max_size=12)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,10}", fullmatch=True)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63) + 1, 2**63 - 1)
SETTINGS = st.dictionaries(NAMES, NUMBERS | st.booleans() | TEXTS, max_size=3)


def _unique(texts: st.SearchStrategy[str], least: int, most: int = 4) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(texts, min_size=least, max_size=most, unique=True).map(tuple)


@st.composite
def contracts(draw: st.DrawFn) -> RunContract:
    """Contracts of every kind."""
    invited = draw(_unique(NAMES, 1))
    rounds = draw(st.integers(1, 1000))
    features = draw(st.none() | _unique(TEXTS, 1))
    shape = (len(features),) if features else tuple(draw(st.lists(st.integers(1, 999), min_size=1, max_size=3)))
    rate = draw(st.floats(min_value=1e-300, allow_infinity=False, exclude_min=True))
    noise: Any = draw(st.sampled_from([{}, {"dp_noise": 1.5}, {"dp_epsilon": 3.0, "dp_clip": 0.5, "dp_delta": 1e-6}]))
    run = Run(draw(st.sampled_from(["fedavg", "fedamp"])), rounds=rounds, lr=rate, settings=draw(SETTINGS), **noise)
    kinds: st.SearchStrategy[Leaves] = st.sampled_from(get_args(Leaves))
    leaves = [Leaving(name, draw(kinds), draw(st.integers(0, 2**40)), draw(TEXTS)) for name in draw(_unique(TEXTS, 0))]
    return RunContract(
        name=draw(NAMES),
        consortium=draw(TEXTS),
        run=run.table(),
        data=DataForm(shape, draw(st.none() | _unique(TEXTS, 2)), features),
        layout=draw(st.from_regex(r"[0-9a-f]{16}", fullmatch=True)),
        invited=invited,
        quorum=draw(st.integers(1, len(invited))),
        policy=draw(st.sampled_from(["wait", "quorum"])),
        least_rounds=draw(st.integers(0, rounds)),
        limits=Limits(*(draw(st.integers(1, 10**6)) for _ in Limits._fields)),
        leaves=tuple(leaves),
        wire=draw(st.sampled_from(["float32", "float16", "bfloat16"])),
        privacy={} if run.privacy is None else run.privacy.words(),
        amity=draw(TEXTS),
    )


def with_run(contract: RunContract, **options: Any) -> RunContract:
    """The same contract about another run."""
    table = {**contract.run, **options}
    privacy = Run(**{key: value for key, value in table.items() if key.startswith("dp_")}).privacy
    return replace(contract, run=table, privacy={} if privacy is None else privacy.words())


class Holder(NamedTuple):
    """A key, and the certificate that belongs to it."""

    key: Any
    certificate: x509.Certificate

    @property
    def key_pem(self) -> bytes:
        kind = serialization.PrivateFormat.PKCS8
        pem: bytes = self.key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())
        return pem

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def new_key(kind: str = "ec") -> Any:
    """A key of this kind; those on a curve are made in no time."""
    if kind == "rsa":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return ec.generate_private_key(ec.SECP256R1())


def certified(
    name: str,
    by: Holder | None = None,
    *,
    role: str | None = None,
    kind: str = "ec",
    key: Any = None,
    authority: bool | None = None,
    begins: datetime = NOW - timedelta(days=10),
    ends: datetime = NOW + timedelta(days=10),
) -> Holder:
    """A key with a certificate, as FLARE makes them; signed with its own key where nobody else does."""
    key = key or new_key(kind)
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if role is not None:
        subject.append(x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, role))
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(by.certificate.subject if by else x509.Name(subject))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )
    if authority or (authority is None and by is None):
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return Holder(key, builder.sign(by.key if by else key, hashes.SHA256()))
