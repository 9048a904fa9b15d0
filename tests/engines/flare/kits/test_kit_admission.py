"""What travels between a silo and the coordinator: no secret, and nothing that can be altered unseen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from amity.engines.flare.kits.admission import read_admission
from amity.engines.flare.kits.certificates import Subject, load_key, new_key, pem, x509_name
from amity.engines.flare.kits.hub import make_hub
from amity.engines.flare.kits.members import admit, renew
from amity.engines.flare.kits.request import read_request, write_request
from amity.engines.flare.kits.site import ask, complete
from amity.errors import InputError

Change = Callable[[dict[str, Any]], object]


def changed(file: Path, change: Change) -> Path:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    return file


def asking(subject: x509.Name, **extension: bool) -> Change:
    """Put another signed request into the file, by a key of its own."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if extension:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return lambda content: content.update(csr=pem(builder.sign(new_key(), hashes.SHA256())))


def test_a_request_is_read_as_it_was_written(tmp_path: Path) -> None:
    key = new_key()
    file = tmp_path / "east.request"
    file.write_text(write_request("east", "Östliche Klinik", key))
    request = read_request(file)
    assert (request.name, request.organisation) == ("east", "Östliche Klinik")
    assert request.key.public_numbers() == key.public_key().public_numbers()


def write_other(content: dict[str, Any]) -> str:
    """The signed part of a request by somebody else, under the same name."""
    other = json.loads(write_request(content["name"], content["organisation"], new_key()))
    return str(other["csr"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content.update(name="west"), "its signed part 'north'"),
        (lambda content: content.update(organisation="Other"), "its signed part"),
        (lambda content: content.update(kind="amity admission"), "no membership request"),
        (lambda content: content.pop("csr"), "no membership request"),
        (lambda content: content.update(csr=content["csr"][:200]), "no usable request"),
        (lambda content: content.update(fingerprint="ab" * 32), "another fingerprint than its key has"),
        (lambda content: content.update(csr=write_other(content)), "another fingerprint than its key has"),
        (asking(x509_name(Subject("north", "North Hospital", "project_admin"))), "the role 'project_admin'"),
        (asking(x509_name(Subject("north", "North Hospital")), ca=True), "further rights"),
        (asking(x509_name(Subject("server", "North Hospital"))), "its signed part 'server'"),
    ],
)
def test_a_request_that_is_not_right(place: Path, change: Change, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_request(changed(place / "north" / "north.request", change))


def test_a_request_that_its_key_has_not_signed(place: Path) -> None:
    """The signature is the end of a request: one byte of it is changed."""
    file = place / "north" / "north.request"
    csr = x509.load_pem_x509_csr(json.loads(file.read_text())["csr"].encode())
    damaged = bytearray(csr.public_bytes(Encoding.DER))
    damaged[-1] ^= 1
    text = pem(x509.load_der_x509_csr(bytes(damaged)))
    with pytest.raises(InputError, match="not signed by the key"):
        read_request(changed(file, lambda content: content.update(csr=text)))


def test_a_reserved_name_is_not_admitted(tmp_path: Path) -> None:
    file = tmp_path / "server.request"
    file.write_text(write_request("server", "Somebody", new_key()))
    with pytest.raises(InputError, match="a silo's name needs"):
        read_request(file)


def test_an_admission_is_read_as_it_was_written(place: Path) -> None:
    admission = read_admission(place / "north.admission")
    assert (admission.name, admission.consortium, admission.host) == ("north", "hearts", "localhost")
    assert admission.root == (place / "hub" / "ca" / "root.pem").read_text()


@pytest.mark.parametrize("key", ["name", "consortium", "host", "port", "certificate", "root"])
def test_an_altered_admission_is_refused(place: Path, key: str) -> None:
    other = json.loads((place / "south.admission").read_text())["admission"]
    value = {"consortium": "lungs", "host": "evil.example.org", "port": 1, "root": other["certificate"]}.get(
        key, other[key]
    )
    file = changed(place / "north.admission", lambda content: content["admission"].update({key: value}))
    with pytest.raises(InputError, match="not as the coordinator signed it"):
        read_admission(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["admission"].pop("port"),
        lambda content: content["admission"].update(port="8443"),
        lambda content: content["admission"].update(more=1),
        lambda content: content.update(kind="amity membership request"),
        lambda content: content.update(admission=[]),
        lambda content: content.update(signature=None),
    ],
)
def test_a_file_that_is_no_admission(place: Path, change: Change) -> None:
    with pytest.raises(InputError, match="no admission"):
        read_admission(changed(place / "north.admission", change))


def test_a_signature_by_a_member_is_not_the_roots(place: Path) -> None:
    """A member may re-sign an altered admission, with its own certificate as the root: it is none."""
    from amity.engines.flare.kits.admission import Admission, write_admission
    from amity.engines.flare.kits.certificates import Root, load_certificate

    known = read_admission(place / "south.admission")
    pretender = Root(load_key((place / "south" / "key.pem").read_bytes()), load_certificate(known.certificate))
    forged = Admission(known.name, known.consortium, "evil.example.org", 1, known.certificate, known.certificate)
    (place / "forged.admission").write_text(write_admission(forged, pretender))
    with pytest.raises(InputError, match="not as the coordinator signed it"):
        read_admission(place / "forged.admission")


def test_a_silo_takes_only_its_own_admission(place: Path) -> None:
    with pytest.raises(InputError, match="admits south, not north"):
        complete(place / "north", "north", place / "south.admission")
    ask(place / "other", "north", None)
    with pytest.raises(InputError, match="for another key"):
        complete(place / "other", "north", place / "north.admission")
    assert not (place / "other" / "kit").exists()


def test_the_root_that_a_silo_was_told(place: Path) -> None:
    with pytest.raises(InputError, match="another fingerprint"):
        complete(place / "north", "north", place / "north.admission", expected_root="00" * 32)


def test_a_kit_stays_with_its_consortium(place: Path) -> None:
    make_hub(place / "consortium.toml", place / "elsewhere")
    (place / "n.admission").write_text(admit(place / "elsewhere", read_request(place / "north" / "north.request")))
    with pytest.raises(InputError, match="another consortium"):
        complete(place / "north", "north", place / "n.admission")


def test_a_new_key_comes_into_use_with_its_admission(place: Path) -> None:
    site, old = place / "north", (place / "north" / "key.pem").read_bytes()
    asked = ask(site, "north", None, another_key=True)
    assert (site / "key.pem").read_bytes() == old, "the kit goes on with the old key"
    request = read_request(asked.file)
    assert request.organisation == "North Hospital"
    (place / "n.admission").write_text(renew(place / "hub", "north", request))
    complete(site, "north", place / "n.admission")
    key = load_key((site / "key.pem").read_bytes())
    assert key.public_key().public_numbers() == request.key.public_numbers()
    assert not (site / "key.next.pem").exists()


def test_a_server_that_has_moved(place: Path) -> None:
    """A renewal brings the new address to one silo after the other."""
    description = place / "hub" / "consortium.toml"
    description.write_text(description.read_text().replace("localhost", "moved.example.org"))
    (place / "n.admission").write_text(renew(place / "hub", "north"))
    complete(place / "north", "north", place / "n.admission")
    file = json.loads((place / "north" / "kit" / "startup" / "fed_client.json").read_text())
    assert file["servers"][0]["service"]["target"].startswith("moved.example.org:")
