"""The coordinator's answer to a request: the silo's certificate, the root's, and the server's address.

It is signed with the root's key. That protects it from being altered, not from being replaced as a whole by that of
another root: a silo compares the root's fingerprint with what the coordinator tells it by another way.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from amity.engines.flare.kits.certificates import (
    Root,
    is_issued_by,
    is_signed,
    load_certificate,
    public_key,
    sign,
    subject_of,
)
from amity.engines.flare.kits.consortium import RULES
from amity.engines.flare.kits.files import read_json
from amity.engines.flare.kits.resources import Address
from amity.errors import InputError

KIND = "amity admission"


@dataclass(frozen=True)
class Admission:
    """What a silo needs to know to take part."""

    name: str
    consortium: str
    host: str
    port: int
    certificate: str
    root: str

    def address(self) -> Address:
        """Where the server is."""
        return {"consortium": self.consortium, "host": self.host, "port": self.port}

    def own_certificate(self) -> x509.Certificate:
        """The silo's certificate."""
        return load_certificate(self.certificate)

    def root_key(self) -> rsa.RSAPublicKey:
        """The root's public key, by whose fingerprint people tell one consortium from another."""
        return public_key(load_certificate(self.root))


def write_admission(admission: Admission, root: Root) -> str:
    """Return the text of an admission, signed by the root."""
    signature = base64.b64encode(sign(root.key, _canonical(admission))).decode()
    return json.dumps({"kind": KIND, "admission": asdict(admission), "signature": signature}, indent=2) + "\n"


def read_admission(path: Path) -> Admission:
    """Read an admission; refuse one that was altered on the way."""
    content = read_json(path)
    admission = _parse(path, content)
    try:
        root, own = load_certificate(admission.root), admission.own_certificate()
        signature = base64.b64decode(content["signature"], validate=True)
        whole = (
            is_signed(root, _canonical(admission), signature) and is_issued_by(root, root) and is_issued_by(own, root)
        )
        whole = whole and subject_of(own.subject)[0::2] == (admission.name, None)
    except (ValueError, binascii.Error) as error:
        raise InputError(f"{path} holds no usable admission ({error}): ask the coordinator for a new one") from error
    if not whole:
        raise InputError(f"{path} is not as the coordinator signed it: ask for it again, by another way")
    return admission


def _parse(path: Path, content: dict[str, object]) -> Admission:
    table = content.get("admission")
    kinds = {"port": int}
    if content.get("kind") == KIND and isinstance(table, dict) and isinstance(content.get("signature"), str):
        expected = {field.name: kinds.get(field.name, str) for field in fields(Admission)}
        if set(table) == set(expected) and all(isinstance(table[key], kind) for key, kind in expected.items()):
            if all(RULES[key][0](table[key]) for key in ("host", "port")) and RULES["name"][0](table["consortium"]):
                return Admission(**table)
    raise InputError(f"{path} is no admission: ask the coordinator for the file that `amity federation add` wrote")


def _canonical(admission: Admission) -> bytes:
    return KIND.encode() + b"\n" + json.dumps(asdict(admission), sort_keys=True, separators=(",", ":")).encode()
