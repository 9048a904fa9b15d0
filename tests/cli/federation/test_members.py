"""`amity federation init, join, add, renew, remove`: from a description to silos with kits, and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cli.commands import Amity, Said, refused, tree, worked
from nvflare.fuel.flare_api import flare_api
from nvflare.fuel.flare_api.api_spec import NoConnection

from amity.engines.flare.kits.lock import hold
from amity.site.config import site_of

DESCRIPTION = 'name = "hearts"\norganisation = "University Hospital"\nhost = "hub.example.org"\nport = 8443\n'
FINGERPRINT = re.compile(r"(?:[0-9a-f]{4} ){15}[0-9a-f]{4}")


def fingerprint(said: Said) -> str:
    """The one that a command has printed."""
    (found,) = FINGERPRINT.findall(said.out)
    return str(found)


def succeeded(said: Said) -> Said:
    worked(said)
    return said


@pytest.fixture
def hub(amity: Amity, tmp_path: Path) -> Path:
    """A new consortium; commands run in the folder that holds it."""
    (tmp_path / "consortium.toml").write_text(DESCRIPTION)
    worked(amity("federation", "init", "consortium.toml", "--hub", "hub"))
    return tmp_path / "hub"


def admitted(amity: Amity, name: str) -> None:
    """Take a silo from nothing to its kit."""
    worked(amity("federation", "join", name, "--site", name))
    worked(amity("federation", "add", f"{name}/{name}.request", "--hub", "hub"))
    worked(amity("federation", "join", name, "--site", name, "--admission", f"{name}.admission"))


def test_from_a_description_to_a_member(amity: Amity, tmp_path: Path) -> None:
    (tmp_path / "consortium.toml").write_text(DESCRIPTION)
    root = fingerprint(succeeded(amity("federation", "init", "consortium.toml", "--hub", "hub")))
    asked = succeeded(amity("federation", "join", "north", "--site", "north", "--organisation", "North Hospital"))
    added = amity("federation", "add", "north/north.request", "--hub", "hub", "--fingerprint", fingerprint(asked))
    assert fingerprint(succeeded(added)) == fingerprint(asked)
    assert "North Hospital" in added.out
    done = amity("federation", "join", "north", "--site", "north", "--admission", "north.admission")
    assert fingerprint(succeeded(done)) == root
    assert "hearts, at hub.example.org:8443" in done.out
    assert {path.name for path in (tmp_path / "north").iterdir()} == {"key.pem", "kit", "north.request", "silo.toml"}
    assert {path.name for path in (tmp_path / "north" / "kit").iterdir()} == {"startup", "local", "transfer"}
    told = amity("federation", "join", "north", "--site", "north", "--admission", "north.admission", "--root", root)
    assert FINGERPRINT.search(succeeded(told).out) is None, "it was compared"


def test_the_configuration_that_a_silo_begins_with(amity: Amity, hub: Path, tmp_path: Path) -> None:
    admitted(amity, "north")
    file = tmp_path / "north" / "silo.toml"
    assert tomllib.loads(file.read_text()) == {"name": "north", "state": "state", "policy": {}}
    offered = site_of(tomllib.loads(re.sub(r"^# (?=\w+ = )", "", file.read_text(), flags=re.MULTILINE)), file.parent)
    assert (offered.name, offered.state) == ("north", file.parent / "state")
    assert (offered.data, offered.label) == (file.parent / "patients.csv", "diagnosis")
    assert (offered.model, offered.policy.approve) == ("my_models:build", "standing")
    file.write_text('name = "north"\n')
    worked(amity("federation", "renew", "north", "--hub", "hub"))
    worked(amity("federation", "join", "north", "--site", "north", "--admission", "north.admission"))
    assert file.read_text() == 'name = "north"\n', "what the silo has written stays"


def test_init_says_all_that_is_wrong(amity: Amity, tmp_path: Path) -> None:
    (tmp_path / "consortium.toml").write_text('name = "two words"\nport = 0\n')
    said = amity("federation", "init", "consortium.toml", "--hub", "hub")
    refused(said, "name needs", "port needs", "organisation is missing", "host is missing")
    assert not (tmp_path / "hub").exists()


def test_init_takes_no_folder_that_is_in_use(amity: Amity, hub: Path) -> None:
    before = tree(hub)
    refused(amity("federation", "init", "consortium.toml", "--hub", "hub"), "is there already")
    assert tree(hub) == before


def test_init_takes_an_empty_folder(amity: Amity, tmp_path: Path) -> None:
    (tmp_path / "consortium.toml").write_text(DESCRIPTION)
    (tmp_path / "hub").mkdir(0o755)
    worked(amity("federation", "init", "consortium.toml", "--hub", "hub"))
    assert (tmp_path / "hub").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_name_is_admitted_once(amity: Amity, hub: Path) -> None:
    admitted(amity, "north")
    before = tree(hub)
    refused(amity("federation", "add", "north/north.request", "--hub", "hub"), "north was admitted on", "renew")
    assert tree(hub) == before


def test_a_request_of_another_key_than_the_silo_told(amity: Amity, hub: Path) -> None:
    worked(amity("federation", "join", "north", "--site", "north"))
    said = amity("federation", "add", "north/north.request", "--hub", "hub", "--fingerprint", "0" * 64)
    refused(said, "another fingerprint", "do not admit it")
    assert not list((hub / "members").iterdir())


def test_an_altered_request_and_an_altered_admission(amity: Amity, hub: Path, tmp_path: Path) -> None:
    worked(amity("federation", "join", "north", "--site", "north"))
    request = tmp_path / "north" / "north.request"
    (tmp_path / "west.request").write_text(request.read_text().replace('"name": "north"', '"name": "west"'))
    refused(amity("federation", "add", "west.request", "--hub", "hub"), "do not admit it")
    worked(amity("federation", "add", request, "--hub", "hub"))
    admission = tmp_path / "north.admission"
    admission.write_text(admission.read_text().replace("hub.example.org", "bub.example.org"))
    said = amity("federation", "join", "north", "--site", "north", "--admission", admission)
    refused(said, "not as the coordinator signed it")
    assert not (tmp_path / "north" / "kit").exists()


def test_another_root_than_the_coordinator_told(amity: Amity, hub: Path, tmp_path: Path) -> None:
    worked(amity("federation", "join", "north", "--site", "north"))
    worked(amity("federation", "add", "north/north.request", "--hub", "hub"))
    words = ("--site", "north", "--admission", "north.admission", "--root", "0" * 64)
    refused(amity("federation", "join", "north", *words), "another fingerprint", "do not use it")
    assert not (tmp_path / "north" / "kit").exists()


def test_a_site_is_one_silo(amity: Amity, tmp_path: Path) -> None:
    worked(amity("federation", "join", "north", "--site", "site"))
    refused(amity("federation", "join", "south", "--site", "site"), "is that of north")
    refused(amity("federation", "join", "server", "--site", "other"), "a silo's name needs")
    refused(amity("federation", "join", "east", "--site", "other", "--organisation", ""), "an organisation needs")
    assert not (tmp_path / "other").exists()


def test_a_silo_keeps_its_key_when_it_asks_again(amity: Amity, tmp_path: Path) -> None:
    first = fingerprint(succeeded(amity("federation", "join", "north", "--site", "north")))
    again = fingerprint(succeeded(amity("federation", "join", "north", "--site", "north")))
    other = fingerprint(succeeded(amity("federation", "join", "north", "--site", "north", "--new-key")))
    assert first == again != other


def test_a_renewal_with_a_new_key(amity: Amity, hub: Path, tmp_path: Path) -> None:
    admitted(amity, "north")
    admitted(amity, "south")
    others = {name: tree(tmp_path / name) for name in ("south", "hub/server", "hub/admin")}
    asked = fingerprint(succeeded(amity("federation", "join", "north", "--site", "north", "--new-key")))
    said = amity("federation", "renew", "north/north.request", "--hub", "hub", "--out", "new.admission")
    assert fingerprint(succeeded(said)) == asked
    worked(amity("federation", "join", "north", "--site", "north", "--admission", "new.admission"))
    assert {name: tree(tmp_path / name) for name in others} == others
    assert not (tmp_path / "north" / "key.next.pem").exists()


def test_our_own_kits_are_renewed(amity: Amity, hub: Path) -> None:
    for kit, file in (("server", "server.crt"), ("admin", "client.crt")):
        before = (hub / kit / "startup" / file).read_bytes()
        worked(amity("federation", "renew", kit, "--hub", "hub"))
        assert (hub / kit / "startup" / file).read_bytes() != before


def test_remove(amity: Amity, hub: Path) -> None:
    admitted(amity, "north")
    worked(amity("federation", "remove", "north", "--hub", "hub"))
    assert json.loads((hub / "members" / "north.json").read_text())["removed"] is not None
    refused(amity("federation", "remove", "north", "--hub", "hub"), "was removed on")
    refused(amity("federation", "renew", "north", "--hub", "hub"), "was removed on")
    refused(amity("federation", "remove", "west", "--hub", "hub"), "there are north")


def test_a_server_that_cannot_be_told(amity: Amity, hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds its kit, and does not answer: what is written down holds from its next start on."""
    admitted(amity, "north")
    assert "could not be told" not in succeeded(amity("federation", "remove", "north", "--hub", "hub")).out
    told: list[str] = []

    def silent(user: str, kit: str, timeout: float) -> None:
        told.append(user)
        raise NoConnection("cannot connect to server")

    monkeypatch.setattr(flare_api, "new_secure_session", silent)
    handle = hold(hub / "server")
    assert handle is not None
    again = succeeded(amity("federation", "add", "north/north.request", "--hub", "hub"))
    removed = succeeded(amity("federation", "remove", "north", "--hub", "hub"))
    os.close(handle)
    assert "could not be told" in again.out and "could not be told" in removed.out
    assert told == ["coordinator@hearts"] * 2


def test_a_hub_that_is_none(amity: Amity, tmp_path: Path) -> None:
    worked(amity("federation", "join", "north", "--site", "north"))
    refused(amity("federation", "add", "north/north.request", "--hub", "nowhere"), "is no hub")
    refused(amity("federation", "remove", "north", "--hub", "north"), "is no hub")
    assert not (tmp_path / "north.admission").exists()


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['amity', 'federation', 'join', '--help']\n"
        "from amity.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, *{'torch', 'nvflare', 'cryptography', 'psutil'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0", done.stdout + done.stderr


def test_without_the_extra(amity: Amity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    refused(amity("federation", "join", "north", "--site", "north"), "pip install 'amity[federation]'")


def test_a_trial_in_a_folder_that_cannot_be_is_refused_before_anything_is_written(amity: Amity, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    refused(amity("federation", "try", "--keep", "file/below"), "cannot be made")
    refused(amity("federation", "try", "--keep", "two words"), "plain letters")
    refused(amity("federation", "try", "--keep", "file"), "exists")
    refused(amity("federation", "try", "--keep", "~"), "exists")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_cannot_be_made_is_refused(amity: Amity, tmp_path: Path) -> None:
    (tmp_path / "consortium.toml").write_text(DESCRIPTION)
    before = tree(tmp_path)
    for site in ("consortium.toml", "consortium.toml/below"):
        refused(amity("federation", "join", "north", "--site", site), "cannot be made")
    refused(amity("federation", "init", "consortium.toml", "--hub", "consortium.toml/below/hub"), "cannot be made")
    assert tree(tmp_path) == before
