"""Certificates and signatures: who may sign a run contract, and whether it was they.

`cryptography` comes with amity[federation] and is imported inside the functions, so that nothing else needs it. Reasons
for a refusal are raised as ValueError, without any context.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from amity.errors import InputError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

SIGNERS = "project_admin"
"""The role, in a certificate's subject, of those who may sign: UNSTRUCTURED_NAME, as FLARE writes it."""


@contextmanager
def _federation() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"signing and verifying need the package {error.name}: install it with pip install 'amity[federation]'"
        ) from None


class Signature(NamedTuple):
    """A signature, and who has made it."""

    value: str  # base64
    certificate: str  # PEM


def sign(content: bytes, key_pem: bytes, certificate_pem: bytes) -> Signature:
    """Sign some bytes. The key must be the certificate's own; of a chain, that is the first."""
    with _federation():
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa
        from cryptography.x509 import load_pem_x509_certificate
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
        certificate = load_pem_x509_certificate(certificate_pem)
    except (ValueError, TypeError) as error:  # TypeError: it is locked with a password
        raise InputError(
            f"a signer needs a key and a certificate in PEM, without a password, got neither ({error}): look at the kit"
        ) from None
    if key.public_key() != certificate.public_key():
        raise InputError("a signer's key and certificate belong together, got two that do not: look at the kit")
    if isinstance(key, rsa.RSAPrivateKey):
        value = key.sign(content, _padding(), hashes.SHA256())
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        value = key.sign(content, ec.ECDSA(hashes.SHA256()))
    else:
        raise InputError(f"a signer's key is RSA or EC, got {type(key).__name__}: make another one")
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return Signature(base64.b64encode(value).decode(), pem)


class Moment(NamedTuple):
    """A time at which certificates have to be valid, and what it is the time of."""

    time: datetime
    words: str = "it is now"


def trusted_root(root_pem: bytes, at: Moment) -> Certificate:
    """Return the consortium's root certificate, if it may certify others then."""
    root = _load(root_pem, "the root certificate")
    _check_dates(root, "the root certificate", at)
    if not _certifies(root):
        raise ValueError("the root certificate is none that may certify others")
    return root


def trusted_signer(certificate_pem: bytes, root: Certificate, at: Moment) -> Certificate:
    """Return the signer's certificate, if the root has issued it to somebody who may sign, for that time."""
    with _federation():
        from cryptography.exceptions import InvalidSignature
    signer = _load(certificate_pem, "the signer's certificate")
    try:
        signer.verify_directly_issued_by(root)
    except (InvalidSignature, ValueError, TypeError):
        raise ValueError("its signer was not certified by this consortium's root") from None
    _check_dates(signer, "the signer's certificate", at)
    roles = _named(signer, "UNSTRUCTURED_NAME")
    if roles != [SIGNERS] or _certifies(signer):
        got = ", ".join(roles) or "without a role"
        raise ValueError(f"its signer {name_in(signer)!r} is {ascii(got)[1:-1]:.60}, and only a {SIGNERS} may sign")
    return signer


def check_signature(content: bytes, signature: str, signer: Certificate) -> None:
    """Refuse a signature that is not by this signer, or over other bytes."""
    with _federation():
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, rsa
    key = signer.public_key()
    try:
        given = base64.b64decode(signature, validate=True)
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(given, content, _padding(), hashes.SHA256())
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(given, content, ec.ECDSA(hashes.SHA256()))
        else:
            raise ValueError(f"its signer's key is RSA or EC, got {type(key).__name__}")
    except binascii.Error:
        raise ValueError("its signature is no base64") from None
    except InvalidSignature:
        raise ValueError(
            "its signature does not hold: it was changed after it was signed, or signed by another"
        ) from None


def signer_of(certificate_pem: bytes) -> str:
    """Return the name of the signer whose certificate this is; it says nothing about whether it may sign."""
    return name_in(_load(certificate_pem, "the signer's certificate"))


def name_in(certificate: Certificate) -> str:
    """Return the common name in a certificate's subject."""
    return " ".join(_named(certificate, "COMMON_NAME"))


def _load(pem: bytes, what: str) -> Certificate:
    with _federation():
        from cryptography.x509 import load_pem_x509_certificates
    try:
        (found,) = load_pem_x509_certificates(pem)
    except ValueError:
        raise ValueError(f"{what} is not one certificate in PEM") from None
    return found


def _check_dates(certificate: Certificate, what: str, at: Moment) -> None:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begins <= at.time <= ends:
        span = f"from {_day(begins)} to {_day(ends)}"
        raise ValueError(f"{what} is valid {span}, {at.words} {_day(at.time)}; look at the clock, or renew it")


def _day(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _certifies(certificate: Certificate) -> bool:
    from cryptography.x509 import BasicConstraints, ExtensionNotFound

    try:
        return certificate.extensions.get_extension_for_class(BasicConstraints).value.ca
    except (ExtensionNotFound, ValueError):
        return False


def _named(certificate: Certificate, kind: str) -> list[str]:
    from cryptography.x509.oid import NameOID

    found = certificate.subject.get_attributes_for_oid(getattr(NameOID, kind))
    return [attribute.value if isinstance(attribute.value, str) else "" for attribute in found]


def _padding() -> Any:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    return padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)
