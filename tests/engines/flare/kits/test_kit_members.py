"""Who is a member: admitted once, renewed, removed; and what of it shows in everybody's files."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from signed_contracts import CONTRACT

from amity.engines.flare.kits import members, resources, root_certificate, signing_key
from amity.engines.flare.kits.certificates import fingerprint, is_issued_by, load_certificate, load_key, public_key
from amity.engines.flare.kits.hub import check_address, renew_own
from amity.engines.flare.kits.live import tell_server
from amity.engines.flare.kits.members import admit, remove, renew
from amity.engines.flare.kits.request import read_request
from amity.engines.flare.kits.site import ask, complete
from amity.errors import DamagedFile, InputError
from amity.federation import audit
from amity.federation.run_contract import RefusedContract
from amity.federation.signed import sign, to_json, verify


def files(*folders: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below some folders but the account of what happened: its content and its mode."""
    found = (file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file())
    found = (file for file in found if "audit." not in file.name)
    return {str(file): (file.read_bytes(), file.stat().st_mode & 0o777) for file in found}


def changes(before: dict[str, tuple[bytes, int]], after: dict[str, tuple[bytes, int]]) -> set[str]:
    """The files that are new, gone or changed."""
    return {file for file in before.keys() | after.keys() if before.get(file) != after.get(file)}


def secrets_of(key_file: Path) -> list[bytes]:
    """A private key as it might be found elsewhere: lines of its text, and its number in three forms."""
    numbers = load_key(key_file.read_bytes()).private_numbers()
    lines = [line for line in key_file.read_bytes().splitlines() if len(line) >= 64]
    plain = [f"{secret:x}".encode() for secret in (numbers.d, numbers.p, numbers.q)]
    return [*lines, *plain, *(bytes.fromhex(text.decode().rjust(len(text) + len(text) % 2, "0")) for text in plain)]


def test_what_the_hub_knows(made: Path) -> None:
    known = {one.name: one for one in members(made / "hub")}
    assert list(known) == ["north", "south"]
    north = known["north"]
    certificate = load_certificate((made / "north" / "kit" / "startup" / "client.crt").read_bytes())
    assert (north.organisation, north.removed) == ("North Hospital", None)
    assert north.fingerprint == fingerprint(load_key((made / "north" / "key.pem").read_bytes()).public_key())
    assert int(north.serial, 16) == certificate.serial_number
    assert north.not_after == certificate.not_valid_after_utc.isoformat()


def test_no_private_key_of_a_silo_is_anywhere_but_in_its_own_file(made: Path) -> None:
    everything = files(made)
    for name in ("north", "south"):
        own = made / name / "key.pem"
        secrets = secrets_of(own)
        assert len(secrets) > 20
        found = {file for file, (content, _) in everything.items() if any(secret in content for secret in secrets)}
        assert found == {str(own)}
    for file in ("north.admission", "south.admission", "north/north.request", "south/south.request"):
        assert b"PRIVATE" not in (made / file).read_bytes()


def test_the_private_keys_of_the_hub(made: Path) -> None:
    holding = {file for file, (content, _) in files(made / "hub").items() if b"PRIVATE KEY" in content}
    kept = {"ca/root.key", "server/startup/server.key", "admin/startup/client.key"}
    assert holding == {str(made / "hub" / name) for name in kept}


def test_everything_is_for_its_owner_alone(made: Path) -> None:
    assert {mode for folder in ("hub", "north") for _, mode in files(made / folder).values()} == {0o600}
    folders = [folder for top in ("hub", "north") for folder in (made / top).rglob("*") if folder.is_dir()]
    assert {folder.stat().st_mode & 0o777 for folder in [*folders, made / "hub", made / "north"]} == {0o700}


def test_kits_name_no_path_of_this_machine(made: Path) -> None:
    for file, (content, _) in files(made).items():
        assert str(made).encode() not in content, file


def test_another_silo_changes_no_kit(place: Path) -> None:
    kits = [place / folder for folder in ("hub/server", "hub/admin", "hub/ca", "north", "south")]
    before = files(*kits)
    asked = ask(place / "east", "east", None)
    (place / "east.admission").write_text(admit(place / "hub", read_request(asked.file)))
    complete(place / "east", "east", place / "east.admission")
    assert files(*kits) == before
    assert [one.name for one in members(place / "hub")] == ["east", "north", "south"]


def test_a_renewal_changes_one_file_even_under_another_amity(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(place / "north", place / "south", place / "hub")
    for kind in ("silo", "server"):
        monkeypatch.setattr(resources, f"{kind}_resources", lambda: {"of": "a later version"})
        monkeypatch.setattr(resources, f"{kind}_authorization", lambda: {"of": "a later version"})
    (place / "n.admission").write_text(renew(place / "hub", "north"))
    complete(place / "north", "north", place / "n.admission")
    after = files(place / "north", place / "south", place / "hub")
    certificate = str(place / "north" / "kit" / "startup" / "client.crt")
    assert changes(before, after) == {certificate, str(place / "hub" / "members" / "north.json")}
    first, second = (load_certificate(part[certificate][0]) for part in (before, after))
    assert first.serial_number != second.serial_number
    assert public_key(first).public_numbers() == public_key(second).public_numbers()


@pytest.mark.parametrize(("kit", "file"), [("server", "server.crt"), ("admin", "client.crt")])
def test_our_own_kits_are_renewed(place: Path, kit: str, file: str) -> None:
    before = files(place)
    renew_own(place / "hub", kit)
    certificate = place / "hub" / kit / "startup" / file
    assert changes(before, files(place)) == {str(certificate)}
    first, second = (load_certificate(text) for text in (before[str(certificate)][0], certificate.read_bytes()))
    assert first.subject == second.subject and len(first.extensions) == len(second.extensions)
    assert is_issued_by(second, load_certificate(root_certificate(place / "hub")))


def test_a_server_that_moves(place: Path) -> None:
    hub = place / "hub"
    check_address(hub)
    file = hub / "consortium.toml"
    file.write_text(re.sub(r"port = \d+", "port = 4321", file.read_text()))
    with pytest.raises(InputError, match="port 4321, .*fed_server.json says otherwise: .*renew server"):
        check_address(hub)
    before = files(hub)
    assert not renew_own(hub, "admin")
    assert changes(before, files(hub)) == {str(hub / "admin" / "startup" / "client.crt")}
    assert renew_own(hub, "server") and not renew_own(hub, "server")
    check_address(hub)
    for kit in ("server", "admin"):
        assert "4321" in (hub / kit / "startup" / f"fed_{kit}.json").read_text()
    (place / "n.admission").write_text(renew(hub, "north"))
    complete(place / "north", "north", place / "n.admission")
    known = json.loads((place / "north" / "kit" / "startup" / "fed_client.json").read_text())
    assert known["servers"][0]["service"]["target"].endswith(":4321")


def test_a_name_is_given_once(place: Path) -> None:
    with pytest.raises(InputError, match="north was admitted on"):
        admit(place / "hub", read_request(place / "north" / "north.request"))
    again = ask(place / "again", "NORTH", None)  # files of members would be one, where case does not count
    with pytest.raises(InputError, match="north was admitted on"):
        admit(place / "hub", read_request(again.file))


def test_a_removed_silo(place: Path) -> None:
    remove(place / "hub", "north")
    assert {one.name: one.removed is not None for one in members(place / "hub")} == {"north": True, "south": False}
    disabled = place / "hub" / "server" / "disabled_clients.json"
    assert json.loads(disabled.read_text()) == {"disabled_clients": ["north"]}
    assert tell_server(place / "hub", "north", removed=True), "no server runs: the file is enough"
    for attempt in (lambda: remove(place / "hub", "north"), lambda: renew(place / "hub", "north")):
        with pytest.raises(InputError, match="was removed on"):
            attempt()


def test_a_removed_name_goes_back_to_its_own_key_only(place: Path) -> None:
    remove(place / "hub", "north")
    other = ask(place / "other", "north", "North Hospital")
    with pytest.raises(InputError, match="another key cannot have its name"):
        admit(place / "hub", read_request(other.file))
    admit(place / "hub", read_request(place / "north" / "north.request"))
    assert all(one.removed is None for one in members(place / "hub"))
    assert json.loads((place / "hub" / "server" / "disabled_clients.json").read_text()) == {"disabled_clients": []}


def test_a_renewal_keeps_the_organisation(place: Path) -> None:
    asked = ask(place / "north", "north", "Another Hospital", another_key=True)
    with pytest.raises(InputError, match="keeps the organisation"):
        renew(place / "hub", "north", read_request(asked.file))


def test_the_hub_gives_account(place: Path) -> None:
    renew(place / "hub", "north")
    remove(place / "hub", "south")
    log = place / "hub" / "audit.jsonl"
    found = [(line.who, line.what, line.silo) for line in audit.entries(log)]
    done = [("admitted", "north"), ("admitted", "south"), ("renewed", "north"), ("removed", "south")]
    assert found == [("coordinator", *one) for one in done]
    keys = {one.name: one.fingerprint.replace(" ", "") for one in members(place / "hub")}
    assert [line.sha256 for line in audit.entries(log)] == [keys[silo] for _, silo in done]
    assert audit.verify(log) == []


@pytest.mark.parametrize("name", ["east", "../../ca/root"])
def test_who_is_not_a_member(place: Path, name: str) -> None:
    for attempt in (remove, renew):
        with pytest.raises(InputError):
            attempt(place / "hub", name)


def test_a_damaged_record(place: Path) -> None:
    file = place / "hub" / "members" / "north.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "name": "south"}))
    with pytest.raises(DamagedFile, match="not as it was written"):
        members(place / "hub")


def test_the_key_that_signs_runs(made: Path) -> None:
    key, certificate = signing_key(made / "hub")
    ours = load_certificate(certificate)
    assert load_key(key).public_key().public_numbers() == public_key(ours).public_numbers()
    for folder in ("hub", "north", "south"):
        assert is_issued_by(ours, load_certificate(root_certificate(made / folder)))


def test_silos_trust_what_the_coordinator_signs_and_nothing_a_silo_does(made: Path) -> None:
    contract, now = replace(CONTRACT, consortium="hearts"), datetime.now(UTC)
    root = root_certificate(made / "south")
    assert verify(to_json(sign(contract, *signing_key(made / "hub"), now)), root, now).contract == contract
    silo = (made / "north" / "key.pem").read_bytes(), (made / "north" / "kit" / "startup" / "client.crt").read_bytes()
    with pytest.raises(RefusedContract):
        verify(to_json(sign(contract, *silo, now)), root, now)
