"""A silo's request to become a member: its public key, signed with its private key, which stays at the silo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple, TypedDict

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa

from amity.engines.flare.kits.certificates import (
    Subject,
    fingerprint,
    pem,
    public_key,
    same_fingerprint,
    subject_of,
    x509_name,
)
from amity.engines.flare.kits.consortium import check_silo_name, is_organisation
from amity.engines.flare.kits.files import read_json
from amity.errors import InputError

KIND = "amity membership request"


class RequestFile(TypedDict):
    """NAME.request: what travels from a silo to the coordinator."""

    kind: str
    name: str
    organisation: str
    fingerprint: str
    csr: str


class Request(NamedTuple):
    """Who wants to become a member, and with which key."""

    name: str
    organisation: str
    key: rsa.RSAPublicKey


def write_request(name: str, organisation: str, key: rsa.RSAPrivateKey) -> str:
    """Return the text of a request."""
    subject = x509_name(Subject(name, organisation))
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    content: RequestFile = {
        "kind": KIND,
        "name": name,
        "organisation": organisation,
        "fingerprint": fingerprint(key.public_key()),
        "csr": pem(csr),
    }
    return json.dumps(content, indent=2) + "\n"


def read_request(path: Path) -> Request:
    """Read a request; refuse one that its key has not signed, that asks for a role, or that contradicts itself."""
    content = read_json(path)
    texts = [content.get(field) for field in RequestFile.__annotations__]
    if content.get("kind") != KIND or not all(isinstance(text, str) for text in texts):
        raise InputError(
            f"{path} is no membership request: ask the silo for the file that `amity federation join` wrote"
        )
    try:
        csr = x509.load_pem_x509_csr(content["csr"].encode())
        key, subject = public_key(csr), subject_of(csr.subject)
        signed = csr.is_signature_valid
    except (ValueError, InvalidSignature) as error:
        raise InputError(f"{path} holds no usable request ({error}): ask the silo for a new one") from error
    if not signed:
        raise InputError(f"{path} is not signed by the key that it names: ask the silo for a new one")
    if subject.role is not None or len(csr.extensions):
        asked = f"the role {subject.role!r}" if subject.role is not None else "further rights"
        raise InputError(f"a silo's request asks for membership only, {path} asks for {asked}: do not admit it")
    if (subject.name, subject.organisation) != (content["name"], content["organisation"]):
        raise InputError(f"{path} names {content['name']!r}, its signed part {subject.name!r}: do not admit it")
    if not same_fingerprint(content["fingerprint"], key):  # whoever compares by eye may look into the file
        raise InputError(f"{path} tells another fingerprint than its key has ({fingerprint(key)}): do not admit it")
    check_silo_name(subject.name)
    if not is_organisation(subject.organisation):
        raise InputError(f"{path} needs an organisation of 1 to 64 characters: ask the silo for a new one")
    return Request(subject.name, subject.organisation, key)
