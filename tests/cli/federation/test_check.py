"""`amity federation check`: lines for people, JSON for programs, and an exit code for scripts."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from cli.commands import Amity, refused, worked

DESCRIPTION = 'name = "hearts"\norganisation = "University Hospital"\nhost = "127.0.0.1"\nport = {port}\n'


@pytest.fixture
def site(amity: Amity, tmp_path: Path) -> Path:
    """A silo that has just joined: its data are not named yet, and no server runs."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port = trial.getsockname()[1]
    (tmp_path / "consortium.toml").write_text(DESCRIPTION.format(port=port))
    worked(amity("federation", "init", "consortium.toml", "--hub", "hub"))
    worked(amity("federation", "join", "north", "--site", "north"))
    worked(amity("federation", "add", "north/north.request", "--hub", "hub"))
    worked(amity("federation", "join", "north", "--site", "north", "--admission", "north.admission"))
    return tmp_path / "north"


def test_lines_for_people(amity: Amity, site: Path) -> None:
    said = amity("federation", "check", "north")
    assert said.code == 2 and said.err == ""
    lines = said.out.splitlines()
    assert lines[-1].startswith("north (silo): not ready (2 FAIL, ")
    for number, line in enumerate(lines[:-2]):
        if line.startswith(("FAIL", "WARN")):
            assert lines[number + 1].strip().startswith("-> "), line
        else:
            assert line.startswith(("PASS", "SKIP")) or line.strip().startswith("-> ")


def test_json_for_programs(amity: Amity, site: Path) -> None:
    said = amity("federation", "check", "north", "--json")
    report = json.loads(said.out)
    assert said.code == 2 and (report["kind"], report["ready"]) == ("silo", False)
    assert {one["check"] for one in report["findings"] if one["grade"] == "FAIL"} == {"silo.toml", "port"}
    assert all(set(one) == {"check", "grade", "found", "remedy"} for one in report["findings"])


def test_a_hub_that_is_ready(amity: Amity, site: Path) -> None:
    said = amity("federation", "check", "hub")
    worked(said)
    assert "WARN  server" in said.out and said.out.splitlines()[-1].startswith("hub (hub): ready (0 FAIL")


def test_what_is_neither(amity: Amity, tmp_path: Path) -> None:
    refused(amity("federation", "check", "nowhere"), "nowhere is no folder")
    (tmp_path / "empty").mkdir()
    refused(amity("federation", "check", "empty"), "neither a silo's folder")
    refused(amity("federation", "check", "empty", "--run", "RUN.toml"), "RUN.toml is no file")
