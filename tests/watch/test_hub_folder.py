"""A hub that is watched: boards by hand, and the record beside them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from signed_contracts import CONTRACT
from watch.watched_folders import a_hub

from amity.federation.transport import SILENT
from amity.record import Recorder
from amity.report.contents import LiveRun
from amity.watch import hub_folder
from amity.watch.hub_folder import STALE, HubFolder

NAME = CONTRACT.name
FACTS = dict(method="fedamp", data="own", setting="own", model="mlp", clients=3, seed=0, engine="flare", version="0.1")


def live(hub: HubFolder, now: float) -> LiveRun:
    (look,) = hub.look(now)
    return look.live


def test_a_hub_without_runs_waits(tmp_path: Path) -> None:
    (tmp_path / "consortium.toml").write_text("")
    run = live(HubFolder(tmp_path, "hub"), time.time())
    assert run["phase"] == "waiting" and "amity federation submit" in run["words"]


def test_of_many_runs_those_that_changed_last_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub keeps its runs for years: the page neither shows nor remembers all of them."""
    monkeypatch.setattr(hub_folder, "MOST_RUNS", 2)
    a_hub(tmp_path / "hub")
    runs, now = tmp_path / "hub" / "runs", time.time()
    for number, name in enumerate(("b-old", "a-new", "c-newest")):
        shutil.copytree(runs / NAME, runs / name)
        for file in (runs / name).iterdir():
            os.utime(file, (now + number, now + number))
    for file in (runs / NAME).iterdir():
        os.utime(file, (now - 9, now - 9))
    hub = HubFolder(tmp_path / "hub", "hub")
    assert [look.live["name"] for look in hub.look(now)] == ["a-new", "c-newest"]
    os.utime(runs / "b-old" / "contract.json", (now + 9, now + 9))
    assert [look.live["name"] for look in hub.look(now)] == ["b-old", "c-newest"]
    assert hub._records.keys() == {"b-old", "c-newest"}


def test_silos_stand_as_the_board_says(tmp_path: Path) -> None:
    board = a_hub(tmp_path / "hub")
    hub, now = HubFolder(tmp_path / "hub", "hub"), time.time()
    board.phase("queued", "waiting for cirrus to connect")
    run = live(hub, now)
    assert (run["phase"], run["words"]) == ("waiting", "queued: waiting for cirrus to connect")
    assert [(silo["name"], silo["state"], silo["health"]) for silo in run["silos"]] == [
        ("aurora", "invited", "none"),
        ("borea", "invited", "none"),
        ("cirrus", "invited", "none"),
    ]

    board.seen("aurora", now - 2, {"amity": "0.1.0"})
    board.seen("borea", now - 20, {"amity": "0.1.0"})
    board.seen("cirrus", now - SILENT - 5, {"amity": "0.1.0"})
    board.silo("aurora", "training")
    board.silo("cirrus", "absent", "no sign of life since 10:00:00")
    board.took_part(1, ["aurora", "borea"])
    board.phase("running")
    run = live(hub, now)
    assert (run["phase"], run["words"], run["round"], run["rounds"]) == ("running", "", 1, 8)
    assert [(silo["state"], silo["health"], silo["round"]) for silo in run["silos"]] == [
        ("training", "green", 1),
        ("connected", "orange", 1),
        ("absent", "red", 0),
    ]
    assert run["silos"][2]["words"] == "no sign of life since 10:00:00"

    board.silo("aurora", "declined", "its policy allows 5 rounds")
    board.phase("incomplete", "aurora took part in 1 of the 4 rounds that were agreed")
    run = live(hub, now)
    assert run["phase"] == "incomplete" and run["words"].startswith("aurora took part")
    assert [(silo["state"], silo["health"]) for silo in run["silos"]][0] == ("declined", "none")


def test_a_board_that_nobody_writes_is_said(tmp_path: Path) -> None:
    board = a_hub(tmp_path / "hub")
    board.phase("running")
    hub = HubFolder(tmp_path / "hub", "hub")
    assert live(hub, time.time() + STALE - 5)["phase"] == "running"
    late = live(hub, time.time() + STALE + 5)
    assert late["phase"] == "dead" and "is `amity federation server" in late["words"]
    board.phase("ended")
    assert live(hub, time.time() + 10 * STALE)["phase"] == "ended"


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"phase": 1}'])
def test_a_damaged_board_is_said(tmp_path: Path, content: bytes) -> None:
    a_hub(tmp_path / "hub")
    file = tmp_path / "hub" / "runs" / NAME / "status.json"
    file.write_bytes(content)
    run = live(HubFolder(tmp_path / "hub", "hub"), time.time())
    assert run["phase"] == "waiting" and "status.json" in run["words"]


def test_rounds_come_from_the_record(tmp_path: Path) -> None:
    from record.rounds_by_hand import add_round

    board = a_hub(tmp_path / "hub")
    board.phase("running")
    folder = tmp_path / "hub" / "runs" / NAME / "record"
    recorder = Recorder.create(folder, {"method": "fedamp", "rounds": 8}, CONTRACT.invited, FACTS)
    add_round(recorder, 1)
    add_round(recorder, 2)
    (look,) = HubFolder(tmp_path / "hub", "hub").look(time.time())
    assert look.record is not None and len(look.record.lines) == 2
    assert [silo["recent"] for silo in look.live["silos"]] == [[50.0, 100.0], [50.0, 75.0], [50.0, 50.0]]
    (folder / "rounds.jsonl").write_bytes(b"!\n")
    hub = HubFolder(tmp_path / "hub", "hub")
    hub.look(time.time())
    assert "rounds.jsonl" in live(hub, time.time())["words"]


def test_a_contract_of_another_version_does_not_hide_the_board(tmp_path: Path) -> None:
    board = a_hub(tmp_path / "hub")
    board.phase("running")
    (tmp_path / "hub" / "runs" / NAME / "contract.json").write_text("{}")
    assert live(HubFolder(tmp_path / "hub", "hub"), time.time())["phase"] == "running"
    (tmp_path / "hub" / "runs" / NAME / "status.json").unlink()
    assert "a run contract cannot be read" in live(HubFolder(tmp_path / "hub", "hub"), time.time())["words"]
