"""Keys and certificates of a consortium, as FLARE reads them.

A certificate's common name is who its owner is; an administrator's role is its `unstructuredName`. Keys are RSA, for
FLARE signs with them by RSA-PSS alone. What a certificate may be used for is written into it (a silo's cannot be a
server's), which FLARE leaves open in its own.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BITS = 3072
CLOCKS_DIFFER = timedelta(hours=1)  # a certificate is valid from a little earlier on


class Subject(NamedTuple):
    """Who a certificate is about."""

    name: str
    organisation: str
    role: str | None = None


class Root(NamedTuple):
    """The consortium's own authority: whoever holds its key decides who is a member."""

    key: rsa.RSAPrivateKey
    certificate: x509.Certificate


def new_key() -> rsa.RSAPrivateKey:
    """Make a private key."""
    return rsa.generate_private_key(public_exponent=65537, key_size=BITS)


def key_pem(key: rsa.RSAPrivateKey) -> bytes:
    """Return a private key as text, in the form that FLARE's own have."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def load_key(pem: bytes) -> rsa.RSAPrivateKey:
    """Read a private key."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError("the key is not an RSA key")
    return key


def pem(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """Return a certificate or a request for one as text."""
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def load_certificate(text: str | bytes) -> x509.Certificate:
    """Read a certificate."""
    return x509.load_pem_x509_certificate(text.encode() if isinstance(text, str) else text)


def public_key(certificate: x509.Certificate | x509.CertificateSigningRequest) -> rsa.RSAPublicKey:
    """Return the key that a certificate or request is about."""
    key = certificate.public_key()
    if not isinstance(key, rsa.RSAPublicKey) or not 2048 <= key.key_size <= 8192:
        raise ValueError("the key is not an RSA key of 2048 to 8192 bits")
    return key


def fingerprint(key: rsa.RSAPublicKey) -> str:
    """Return the SHA-256 of a public key in groups of four digits, to be read out over the telephone."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(serialization.Encoding.DER, form))
    text = digest.finalize().hex()
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def same_fingerprint(told: str, key: rsa.RSAPublicKey) -> bool:
    """True if this is the fingerprint of the key, however its digits are grouped."""
    return re.sub(r"[\s:-]", "", told).lower() == fingerprint(key).replace(" ", "")


def x509_name(subject: Subject) -> x509.Name:
    """Return a subject as certificates write it."""
    parts = [
        x509.NameAttribute(NameOID.COMMON_NAME, subject.name),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, subject.organisation),
    ]
    if subject.role is not None:
        parts.append(x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, subject.role))
    return x509.Name(parts)


def subject_of(name: x509.Name) -> Subject:
    """Return who a certificate or request is about; refuse one that says more, or says something twice."""
    found: dict[x509.ObjectIdentifier, str] = {}
    for part in name:
        if part.oid in found or not isinstance(part.value, str):
            raise ValueError("the subject says something twice")
        found[part.oid] = part.value
    role = found.pop(NameOID.UNSTRUCTURED_NAME, None)
    if set(found) != {NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME}:
        raise ValueError("the subject needs a name and an organisation, and nothing else")
    return Subject(found[NameOID.COMMON_NAME], found[NameOID.ORGANIZATION_NAME], role)


def new_root(name: str, organisation: str, days: int) -> Root:
    """Make the authority of a new consortium, which signs itself."""
    key = new_key()
    subject = x509_name(Subject(name, organisation))
    builder = _begin(subject, subject, key, key.public_key(), datetime.now(UTC) + timedelta(days=days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return Root(key, builder.sign(key, hashes.SHA256()))


def issue(
    root: Root, subject: Subject, key: rsa.RSAPublicKey, days: int, hosts: Sequence[str] = ()
) -> x509.Certificate:
    """Sign a certificate: a server's if it has hosts, else that of someone who dials. None outlives the root."""
    ends = min(datetime.now(UTC) + timedelta(days=days), root.certificate.not_valid_after_utc)
    if ends <= datetime.now(UTC):
        raise ValueError(f"the root certificate has expired on {ends:%Y-%m-%d}")
    builder = _begin(x509_name(subject), root.certificate.subject, root.key, key, ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_address(host) for host in hosts]), critical=False)
    return builder.sign(root.key, hashes.SHA256())


def sign(key: rsa.RSAPrivateKey, content: bytes) -> bytes:
    """Return the signature of a text."""
    return key.sign(content, _padding(), hashes.SHA256())


def is_signed(certificate: x509.Certificate, content: bytes, signature: bytes) -> bool:
    """True if the owner of this certificate has signed this text."""
    try:
        public_key(certificate).verify(signature, content, _padding(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def is_issued_by(certificate: x509.Certificate, root: x509.Certificate) -> bool:
    """True if this root has signed this certificate."""
    try:
        certificate.verify_directly_issued_by(root)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _padding() -> padding.PSS:
    return padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.DIGEST_LENGTH)


def _begin(
    subject: x509.Name, issuer: x509.Name, signer: rsa.RSAPrivateKey, key: rsa.RSAPublicKey, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - CLOCKS_DIFFER)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        key_encipherment=not signs_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _address(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
