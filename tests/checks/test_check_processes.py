"""Checks as users meet them: with the process that looks at data, and with FLARE's real server."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from amity.checks.check import check
from amity.checks.child import Child
from amity.checks.findings import Account, Finding
from amity.checks.handshake import Credentials, Dialled, shake_hands
from amity.checks.silo import SAID_BY_SERVER
from amity.engines.flare.kits import server_command
from amity.engines.flare.kits.certificates import load_certificate
from amity.hub.doubles import Doubles
from amity.hub.presence import read_presence
from amity.site.session import TWICE, read_session

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
    for said in SAID_BY_SERVER:
        assert found[said].grade == "PASS", found[said]
    assert "no other service of this silo" in found["elsewhere"].found


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


@contextmanager
def service(site: Path) -> Iterator[None]:
    """A silo's service."""
    command = [sys.executable, "-m", "amity", "federation", "silo", str(site)]
    with (site / "silo.out").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def wait_until(what: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it has not come"
        time.sleep(0.2)


@pytest.mark.slow
def test_a_copy_of_a_kit_that_runs_elsewhere_is_seen(running: Path) -> None:
    copy = Path(shutil.copytree(running / "north", running / "copy"))
    with service(copy):
        wait_until(lambda: "north" in read_presence(running / "hub"))
        found = {one.check: one for one in check(running / "north", patience=PATIENCE).findings}
        assert found["elsewhere"].grade == "FAIL" and "do not start it here" in found["elsewhere"].remedy
        here = {one.check: one for one in check(copy, patience=PATIENCE).findings}
        assert here["elsewhere"].grade == "PASS" and "the silo runs here" in here["running"].found
        (heard,) = read_presence(running / "hub")["north"]
        session = read_session(copy)
        assert session is not None and session.mark == heard.mark, "whoever asks takes no name"


@pytest.mark.slow
def test_two_services_of_one_silo_are_told_at_the_server_and_at_the_silo(running: Path) -> None:
    said: list[str] = []
    doubles = Doubles(running / "hub", said.append)
    copy = Path(shutil.copytree(running / "north", running / "another"))
    with service(running / "north"):
        wait_until(lambda: "north" in read_presence(running / "hub"))
        with service(copy):
            began = time.monotonic()
            wait_until(partial(has_said, doubles, said))
            assert time.monotonic() - began < 60 and "two services run under its name" in said[0]
            for out in (running / "north" / "silo.out", copy / "silo.out"):
                wait_until(partial(is_said, out, TWICE))
            report = check(running / "hub", patience=PATIENCE)
            assert any(one.grade == "FAIL" and "north: two services" in one.found for one in report.findings)


def is_said(file: Path, words: str) -> bool:
    return words in file.read_text()


def has_said(doubles: Doubles, said: list[str]) -> bool:
    doubles.look()
    return bool(said)
