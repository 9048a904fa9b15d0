"""Keys and certificates: what each may be used for, and how long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from amity.engines.flare.kits import expiries
from amity.engines.flare.kits.certificates import (
    Subject,
    fingerprint,
    is_issued_by,
    issue,
    load_certificate,
    new_key,
    new_root,
    public_key,
    same_fingerprint,
    subject_of,
)


def certificates(made: Path) -> dict[str, x509.Certificate]:
    files = {
        "root": "hub/ca/root.pem",
        "server": "hub/server/startup/server.crt",
        "admin": "hub/admin/startup/client.crt",
        "north": "north/kit/startup/client.crt",
    }
    return {name: load_certificate((made / file).read_bytes()) for name, file in files.items()}


def test_who_each_certificate_is_about(made: Path) -> None:
    found = {name: subject_of(one.subject) for name, one in certificates(made).items()}
    assert found == {
        "root": Subject("hearts", "University Hospital"),
        "server": Subject("server", "University Hospital"),
        "admin": Subject("coordinator@hearts", "University Hospital", "project_admin"),
        "north": Subject("north", "North Hospital"),
    }


def test_only_the_root_certifies_and_only_the_server_serves(made: Path) -> None:
    ours = certificates(made)
    assert all(is_issued_by(one, ours["root"]) for one in ours.values())
    assert not is_issued_by(ours["north"], ours["server"])
    for name, one in ours.items():
        assert one.extensions.get_extension_for_class(x509.BasicConstraints).value.ca == (name == "root")
        if name != "root":
            purposes = one.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            serves = name == "server"
            assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH if serves else ExtendedKeyUsageOID.CLIENT_AUTH]


def test_the_server_is_known_by_its_host_and_on_its_own_machine() -> None:
    root = new_root("hearts", "Uni", 10)
    certificate = issue(root, Subject("server", "Uni"), root.key.public_key(), 5, ["hub.example.org", "127.0.0.1"])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hub.example.org"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_no_certificate_outlives_the_root() -> None:
    root = new_root("hearts", "Uni", 10)
    short = issue(root, Subject("a", "A"), root.key.public_key(), 5).not_valid_after_utc
    assert abs(short - datetime.now(UTC) - timedelta(days=5)) < timedelta(minutes=1)
    clipped = issue(root, Subject("a", "A"), root.key.public_key(), 50)
    assert clipped.not_valid_after_utc == root.certificate.not_valid_after_utc
    with pytest.raises(ValueError, match="expired"):
        issue(new_root("old", "Uni", 0), Subject("a", "A"), root.key.public_key(), 5)


def test_fingerprints() -> None:
    key, other = new_key().public_key(), new_key().public_key()
    text = fingerprint(key)
    assert len(text.replace(" ", "")) == 64 and text != fingerprint(other)
    assert same_fingerprint(text, key) and same_fingerprint(text.upper().replace(" ", ":"), key)
    assert not same_fingerprint(text[:-1], key) and not same_fingerprint(text, other) and not same_fingerprint("", key)


def test_when_they_end(made: Path) -> None:
    ours = certificates(made)
    assert expiries(made / "hub") == {name: ours[name].not_valid_after_utc for name in ("root", "server", "admin")}
    assert expiries(made / "north") == {
        "root": ours["root"].not_valid_after_utc,
        "silo": ours["north"].not_valid_after_utc,
    }
    assert public_key(ours["north"]).key_size >= 3072
