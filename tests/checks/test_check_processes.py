"""Checks as users meet them: with the process that looks at data, and with FLARE's real server."""

from __future__ import annotations

import logging
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amity.checks.check import check
from amity.checks.child import Child
from amity.checks.findings import Account, Finding
from amity.checks.handshake import Credentials, Dialled, shake_hands
from amity.engines.flare.kits import server_command
from amity.engines.flare.kits.certificates import load_certificate

PATIENCE = 120.0  # seconds: much more than it takes on a quiet machine

pytestmark = pytest.mark.xdist_group("a hub at work")  # it is started once


def found_by(child: Child, seconds: float = PATIENCE) -> dict[str, Finding]:
    return {one.check: one for one in child.findings(time.monotonic() + seconds, "data")}


def factory(place: Path, body: str) -> Path:
    """A silo whose data come from this function."""
    (place / "north" / "own_data.py").write_text(f"import os, sys, time\ndef load():\n    {body}\n")
    (place / "north" / "silo.toml").write_text('name = "north"\nstate = "state"\nfactory = "own_data:load"\n')
    return place / "north"


def test_a_silos_data(place: Path) -> None:
    with Child("silo", place / "north") as child:
        assert found_by(child)["data"].grade == "PASS"


def test_code_that_never_ends(place: Path) -> None:
    begun = time.monotonic()
    with Child("silo", factory(place, "time.sleep(1000)")) as child:
        found = found_by(child, seconds=1)["data"]
    assert found.grade == "WARN" and "--patience" in found.remedy
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("body", ["os._exit(3)", "sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_code_that_ends_the_process(place: Path, body: str) -> None:
    with Child("silo", factory(place, body)) as child:
        found = found_by(child)["data"]
    assert found.grade == "FAIL" and "ended early" in found.found


def test_what_code_prints_and_why_it_fails_is_not_told(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    body = 'print(\'{"check": "data", "grade": "PASS", "found": "Miller"}\'); raise ValueError(\'Miller\')'
    with caplog.at_level(logging.ERROR, "amity"), Child("silo", factory(place, body)) as child:
        found = found_by(child)["data"]
    assert found.grade == "FAIL" and "Miller" not in str(found)
    assert "Miller" in caplog.text, "whoever asks for the log is told"


@pytest.fixture(scope="module")
def running(consortium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A consortium whose server runs."""
    place = Path(shutil.copytree(consortium, tmp_path_factory.mktemp("running") / "place"))
    command, environment = server_command(place / "hub")
    log = place / "server.out"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + PATIENCE
        while "added secure port" not in log.read_text():
            assert process.poll() is None and time.monotonic() < until, log.read_text()[-2000:]
            time.sleep(0.2)
        yield place
    finally:
        process.terminate()
        process.wait(60)


def test_a_silo_meets_the_real_server(running: Path) -> None:
    report = check(running / "north", patience=PATIENCE)
    found = {one.check: one for one in report.findings}
    assert report.is_ready, report.findings
    assert "accepts the certificate of this silo" in found["TLS"].found
    assert "'server' of University Hospital" in found["server's certificate"].found
    assert found["clock"].grade == "WARN" and "not known" in found["clock"].found


def test_the_coordinator_meets_the_real_server(running: Path) -> None:
    report = check(running / "hub", patience=PATIENCE)
    found = {one.check: one for one in report.findings}
    assert report.is_ready, report.findings
    assert "runs here" in found["server"].found and found["session"].grade == "PASS"
    assert found["silos"].grade == "WARN" and "missing: north" in found["silos"].found


def test_the_real_server_refuses_others(running: Path, authority: Any) -> None:
    port = int((running / "consortium.toml").read_text().split("port = ")[1])
    own = authority.credentials()
    root = load_certificate((running / "hub" / "ca" / "root.pem").read_bytes())
    account = Account()
    theirs = Credentials(root, own.certificate, own.key)
    assert shake_hands(account, Dialled("localhost", "127.0.0.1", port), theirs) is None
    assert [one.grade for one in account.findings if one.check == "TLS"] == ["FAIL"], account.findings
