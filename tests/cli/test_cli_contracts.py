"""`amity federation approve, contract, audit`: what a silo is shown, what it may answer, and what is found in logs."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from cli.commands import Amity, refused, worked
from signed_contracts import CONTRACT, certified

from amity.engines.flare.kits.hub import make_hub
from amity.engines.flare.kits.places import signing_key
from amity.federation.approvals import offer, read_approvals
from amity.federation.audit import Audit, entries, verify
from amity.federation.run_contract import RunContract
from amity.federation.signed import sign, to_json

TODAY = datetime.now(UTC)
DATES: dict[str, Any] = {"begins": TODAY - timedelta(days=1), "ends": TODAY + timedelta(days=1)}
ROOT = certified("north", **DATES)
ADMIN = certified("ada@north", ROOT, role="project_admin", **DATES)
SIGNED_AT = datetime.now(UTC)


def document(contract: RunContract = CONTRACT) -> str:
    return to_json(sign(contract, ADMIN.key_pem, ADMIN.pem, SIGNED_AT))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder of a silo that was asked, and has not approved."""
    folder = tmp_path / "aurora"
    (folder / "kit" / "startup").mkdir(parents=True)
    (folder / "kit" / "startup" / "rootCA.pem").write_bytes(ROOT.pem)
    configured(folder)
    offer(tmp_path / "state", "sepsis-1", document())
    return folder


def configured(folder: Path, **policy: Any) -> None:
    table = {"name": "aurora", "state": "../state", "data": "patients.csv", "policy": policy}
    (folder / "silo.toml").write_text(tomli_w.dumps(table))


def given_at(site: Path) -> list[str]:
    return [approval.contract for approval in read_approvals(site.parent / "state", "aurora").given]


def log_of(site: Path) -> list[tuple[str, str]]:
    path = site.parent / "state" / "audit.jsonl"
    assert verify(path) == []
    return [(entry.what, entry.words) for entry in entries(path)]


def answering(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(words))


def test_a_silo_sees_what_it_approves(amity: Amity, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "y\n")
    said = amity("federation", "approve", "sepsis-1", "--site", site)
    worked(said)
    for needed in (
        "invited: 3 silos: aurora, borea, cirrus",
        "fedamp, model auto, 8 rounds",
        "at most 4.0 kB in a round, 32.1 kB in all 8 rounds",
        "signature: verified, by ada@north",
        "this silo's policy: has nothing against it",
        "Does aurora take part in run sepsis-1?",
        "aurora takes part in run sepsis-1 under exactly this contract",
    ):
        assert needed in said.out
    assert given_at(site) == [CONTRACT.hash()]
    assert [what for what, _ in log_of(site)] == ["approved"] and log_of(site)[0][1].startswith("by ")


def test_no_means_no(amity: Amity, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "n\n")
    said = amity("federation", "approve", "sepsis-1", "--site", site)
    assert said.code == 1 and "not approved; nothing was changed" in said.out
    assert given_at(site) == [] and log_of(site)[0][0] == "not approved"


def test_silence_is_no_approval(amity: Amity, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "")
    said = amity("federation", "approve", "sepsis-1", "--site", site)
    assert said.code == 2 and "an approval needs an answer, got none" in said.err and given_at(site) == []


def test_an_approval_is_withdrawn(amity: Amity, site: Path) -> None:
    worked(amity("federation", "approve", "sepsis-1", "--site", site, "--yes"))
    listed = amity("federation", "approve", "--site", site)
    assert "sepsis-1: approved by " in listed.out
    said = amity("federation", "approve", "sepsis-1", "--site", site, "--withdraw")
    worked(said)
    assert given_at(site) == [] and [what for what, _ in log_of(site)] == ["approved", "withdrawn"]
    refused(amity("federation", "approve", "sepsis-1", "--site", site, "--withdraw"), "has no approval at aurora")


def test_what_waits_is_listed(amity: Amity, site: Path) -> None:
    said = amity("federation", "approve", "--site", site)
    worked(said)
    assert "sepsis-1: waits for `amity federation approve sepsis-1" in said.out
    (site.parent / "state" / "pending" / "sepsis-1.json").unlink()
    assert "no run waits for an approval" in amity("federation", "approve", "--site", site).out


def test_the_policy_is_told_and_holds(amity: Amity, site: Path) -> None:
    configured(site, most_rounds=5, methods=["fedavg"])
    said = amity("federation", "approve", "sepsis-1", "--site", site, "--yes")
    assert said.code == 2 and given_at(site) == []
    assert "this silo's policy: has something against it\n  methods allows fedavg, it has fedamp" in said.out
    assert "most_rounds is 5, it has 8" in said.err and log_of(site)[0][0] == "not approved"


@pytest.mark.parametrize(
    ("offered", "why"),
    [
        (document().replace('"quorum":2', '"quorum":1'), "its signature does not hold"),
        (document(replace(CONTRACT, consortium="south")), "it is of the consortium 'south'"),
        (document(replace(CONTRACT, name="other")), "is of run 'other'"),
        ("nothing", "a run contract cannot be read"),
    ],
)
def test_what_does_not_hold_is_not_approved(amity: Amity, site: Path, offered: str, why: str) -> None:
    offer(site.parent / "state", "sepsis-1", offered)
    refused(amity("federation", "approve", "sepsis-1", "--site", site, "--yes"), why)
    assert given_at(site) == []


def test_a_run_that_has_not_asked_cannot_be_approved(amity: Amity, site: Path) -> None:
    refused(amity("federation", "approve", "other", "--site", site, "--yes"), "waiting: sepsis-1")
    refused(amity("federation", "approve", "../x", "--site", site, "--yes"), "a run's name is letters")


def test_a_contract_in_words(amity: Amity, site: Path, tmp_path: Path) -> None:
    file = tmp_path / "contract.json"
    file.write_text(document())
    said = amity("federation", "contract", file)
    worked(said)
    assert "invited: 3 silos" in said.out and "signature: not verified, give --site or --hub" in said.out
    said = amity("federation", "contract", file, "--site", site)
    worked(said)
    assert "signature: verified, by ada@north" in said.out and "has nothing against it" in said.out
    file.write_text(document().replace('"quorum":2', '"quorum":1'))
    refused(amity("federation", "contract", file, "--site", site), "its signature does not hold")
    refused(amity("federation", "contract", tmp_path / "nowhere.json"), "cannot be read")


def test_a_run_file_in_words(amity: Amity, tmp_path: Path) -> None:
    file = tmp_path / "RUN.toml"
    table: dict[str, Any] = {"name": "trial", "data": {"shape": [4], "classes": 2}, "run": {"method": "fedavg"}}
    file.write_text(tomli_w.dumps(table))
    refused(amity("federation", "contract", file), "does not say who is invited")
    file.write_text(tomli_w.dumps({**table, "invited": ["aurora", "borea"]}))
    said = amity("federation", "contract", file)
    worked(said)
    assert "fedavg, model mlp, 20 rounds" in said.out and "signature: none yet" in said.out
    file.write_text(tomli_w.dumps({**table, "invited": ["aurora"], "run": {"method": "fedavg", "device": "cuda"}}))
    refused(amity("federation", "contract", file), "run.device has no place between silos")


def test_a_hub_knows_its_members_and_verifies_its_contracts(amity: Amity, tmp_path: Path) -> None:
    (tmp_path / "north.toml").write_text('name = "north"\norganisation = "North"\nhost = "localhost"\nport = 8002\n')
    hub = tmp_path / "hub"
    make_hub(tmp_path / "north.toml", hub)
    file = tmp_path / "contract.json"
    file.write_text(to_json(sign(CONTRACT, *signing_key(hub), datetime.now(UTC))))
    said = amity("federation", "contract", file, "--hub", hub)
    worked(said)
    assert "signature: verified, by coordinator@north" in said.out
    run = tmp_path / "RUN.toml"
    run.write_text('name = "trial"\n[data]\nshape = [4]\nclasses = 2\n[run]\nmethod = "fedavg"\n')
    refused(amity("federation", "contract", run, "--hub", hub), "invited must name members, there are none")
    assert "has no lines yet" in amity("federation", "audit", hub).out


def test_a_standing_policy_is_told(amity: Amity, site: Path, tmp_path: Path) -> None:
    configured(site, approve="standing")
    (tmp_path / "contract.json").write_text(document())
    said = amity("federation", "contract", tmp_path / "contract.json", "--site", site)
    assert "has nothing against it\n  and needs no approval by hand" in said.out


def test_approvals_that_do_not_count_are_told(amity: Amity, site: Path) -> None:
    folder = site.parent / "state" / "approvals"
    folder.mkdir()
    (folder / "sepsis-1.json").write_text("{}")
    assert "does not count" in amity("federation", "approve", "--site", site).out


def test_an_account_without_a_name_has_a_number(amity: Amity, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", nameless)
    assert "approved by user " in amity("federation", "approve", "sepsis-1", "--site", site, "--yes").out


def test_a_log_is_verified(amity: Amity, site: Path) -> None:
    state = site.parent / "state"
    for round in range(1, 13):
        Audit(state / "audit.jsonl", "aurora").add("upload", run="sepsis-1", round=round, bytes=4000, sha256="ab" * 32)
    for folder in (site, state, state / "audit.jsonl"):
        said = amity("federation", "audit", folder, "--last", "2")
        worked(said)
        assert "12 lines, all as they were written" in said.out and "round 11" in said.out
        assert "round 10" not in said.out and "4,000 bytes  sha256 abababababab" in said.out
        assert said.out.splitlines()[-1] == entries(state / "audit.jsonl")[-1].hash


def test_what_is_wrong_with_a_log_is_told(amity: Amity, site: Path) -> None:
    log = site.parent / "state" / "audit.jsonl"
    for _ in range(3):
        Audit(log, "aurora").add("upload", bytes=4000)
    log.write_bytes(log.read_bytes().replace(b"4000", b"4001", 1))
    said = amity("federation", "audit", site)
    assert said.code == 2 and "line 1: it was changed: its hash is not that of its content" in said.err
    log.write_bytes(b"\n" * 50)
    said = amity("federation", "audit", site)
    assert said.code == 2 and "and 31 more" in said.err and len(said.err.splitlines()) == 1


def test_where_there_is_no_log(amity: Amity, site: Path, tmp_path: Path) -> None:
    said = amity("federation", "audit", site)
    worked(said)
    assert "has no lines yet" in said.out
    refused(amity("federation", "audit", tmp_path / "nowhere"), "is no hub, no silo and has no audit.jsonl")
