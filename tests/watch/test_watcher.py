"""All that is watched, together: which folders there are, what is new, and the view of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from record.rounds_by_hand import SILOS, record_rounds
from watch.watched_folders import a_hub, begin, finish

from amity.errors import InputError
from amity.watch import watcher as watchers
from amity.watch.folders import Place, places_in
from amity.watch.run_folder import RunFolder
from amity.watch.serving import check_folders
from amity.watch.watcher import Watcher


def fresh(watcher: Watcher) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(watcher.look(hurry=True).text())
    return content


def view(watcher: Watcher) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(watcher.view(hurry=True))
    return content


def test_what_lies_in_a_folder(tmp_path: Path) -> None:
    assert places_in(tmp_path / "later") == [Place("run", tmp_path / "later", "later")]
    begin(tmp_path / "both" / "fedamp")
    begin(tmp_path / "both" / "separate" / "seed-0")
    begin(tmp_path / "both" / "separate" / "seed-1")
    assert [place.name for place in places_in(tmp_path / "both")] == ["fedamp", "separate/seed-0", "separate/seed-1"]
    assert places_in(tmp_path / "both" / "fedamp") == [Place("run", tmp_path / "both" / "fedamp", "fedamp")]
    begin(tmp_path / "both" / "fedamp" / "alone")
    assert [place.name for place in places_in(tmp_path / "both" / "fedamp")] == ["fedamp", "alone"]
    a_hub(tmp_path / "hub")
    assert places_in(tmp_path / "hub") == [Place("hub", tmp_path / "hub", "hub")]
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "silo.toml").write_text('name = "north"\nstate = "../state"\ndata = "x.csv"\n')
    assert places_in(tmp_path / "site") == [Place("silo", tmp_path / "state", "north")]
    (tmp_path / "state" / "approvals").mkdir(parents=True)
    assert places_in(tmp_path / "state") == [Place("silo", tmp_path / "state", "state")]


def test_a_file_is_refused_and_what_is_not_there_is_waited_for(tmp_path: Path) -> None:
    check_folders([tmp_path, tmp_path / "later"])
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="got the file .*file: give the directory"):
        check_folders([tmp_path, tmp_path / "file"])
    with pytest.raises(InputError, match="watch needs directories"):
        check_folders([Path("a\0b")])


def test_a_comparison_that_does_not_exist_yet(tmp_path: Path) -> None:
    watcher = Watcher([tmp_path / "both"])
    (run,) = fresh(watcher)["live"]["runs"]
    assert (run["phase"], run["run"]) == ("waiting", -1)
    assert view(watcher)["view"]["runs"] == []

    record_rounds(begin(tmp_path / "both" / "separate"), [1])
    second = begin(tmp_path / "both" / "fedamp")
    live = fresh(watcher)["live"]
    assert [(run["name"], run["run"]) for run in live["runs"]] == [("fedamp", -1), ("fedamp (separate)", 0)]
    record_rounds(second, [1, 2])
    live = fresh(watcher)["live"]
    found = view(watcher)
    assert [run["folder"] for run in found["view"]["runs"]] == ["fedamp", "separate"]
    assert [run["run"] for run in live["runs"]] == [0, 1]
    assert found["view"]["live"]["runs"] == live["runs"]
    assert len(found["view"]["runs"][0]["course"]["rounds"]) == 2
    assert all(event["words"].startswith(("fedamp: ", "fedamp (separate): ")) for event in live["feed"])
    times = [event["time"] for event in live["feed"]]
    assert times == sorted(times, reverse=True)


def test_the_number_grows_with_every_round_and_stays_otherwise(tmp_path: Path) -> None:
    recorder = begin(tmp_path / "run")
    watcher = Watcher([tmp_path / "run"])
    record_rounds(recorder, [1])
    first = fresh(watcher)["number"]
    assert fresh(watcher)["number"] == first == view(watcher)["number"]
    record_rounds(recorder, [2])
    assert fresh(watcher)["number"] == first + 1
    finish(recorder, [3, 4])
    assert fresh(watcher)["number"] == first + 2
    assert view(watcher)["view"]["runs"][0]["finished"]


def test_time_alone_is_no_news(tmp_path: Path) -> None:
    recorder = begin(tmp_path / "run")
    record_rounds(recorder, [1])
    clock = iter(range(1000, 2000))
    watcher = Watcher([tmp_path / "run"], clock=lambda: float(next(clock)))
    one, other = watcher.look(hurry=True), watcher.look(hurry=True)
    assert one.live["now"] < other.live["now"] and one.news() == other.news()
    record_rounds(recorder, [2])
    assert watcher.look(hurry=True).news() != other.news()


def test_folders_are_looked_at_once_a_second(tmp_path: Path) -> None:
    watcher = Watcher([tmp_path / "run"])
    assert watcher.look().live["runs"][0]["phase"] == "waiting"
    recorder = begin(tmp_path / "run")
    assert watcher.look().live["runs"][0]["phase"] == "waiting"
    assert watcher.look(hurry=True).live["runs"][0]["phase"] == "running"
    recorder.close()


def test_a_view_that_cost_much_is_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "SPARE", 1e6)
    monkeypatch.setattr(watchers, "EVERY", 0.0)
    recorder = begin(tmp_path / "run")
    record_rounds(recorder, [1])
    watcher = Watcher([tmp_path / "run"])
    first = watcher.view()
    record_rounds(recorder, [2])
    assert watcher.view() == first and json.loads(first)["number"] < watcher.look().number
    assert len(json.loads(watcher.view(hurry=True))["view"]["runs"][0]["course"]["rounds"]) == 2


def test_what_cannot_be_followed_or_drawn_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = begin(tmp_path / "run")
    record_rounds(recorder, [1])
    watcher = Watcher([tmp_path / "run", tmp_path / "other"])

    def fail(*given: object, **named: object) -> None:
        raise RuntimeError("a fault")

    with monkeypatch.context() as patched:
        patched.setattr(watchers, "view_of", fail)
        assert "cannot be drawn" in view(watcher)["view"]["notes"][0]
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "_follow", fail)
        runs = fresh(watcher)["live"]["runs"]
        assert "cannot be followed (a fault)" in runs[0]["words"] and runs[1]["phase"] == "waiting"
    assert fresh(watcher)["live"]["runs"][0]["phase"] == "running"


def test_many_folders_are_cut_to_those_that_changed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr(watchers, "MOST_RUNS", 2)
    for name in ("new", "old", "newer"):
        begin(tmp_path / name)
        os.utime(tmp_path / name, (0, {"old": 1, "new": 2, "newer": 3}[name]))
    watcher = Watcher([tmp_path])
    assert [run["name"] for run in fresh(watcher)["live"]["runs"]] == ["fedamp (new)", "fedamp (newer)"]
    os.utime(tmp_path / "old", (0, 4))
    assert [run["name"] for run in fresh(watcher)["live"]["runs"]] == ["fedamp (newer)", "fedamp (old)"]
    assert {place.path.name for place in watcher._followed} == {"newer", "old"}  # the others' records are let go


def test_runs_of_different_silos_stand_side_by_side(tmp_path: Path) -> None:
    """A view has the silos of all runs, each once."""
    from record.rounds_by_hand import CONFIG, FACTS, add_round

    from amity.record import Recorder

    record_rounds(begin(tmp_path / "one"), [1])
    other = Recorder.create(tmp_path / "two", CONFIG, ["west", "north", "tiny"], FACTS)
    add_round(other, 1)
    found = view(Watcher([tmp_path]))["view"]
    assert {silo["name"] for silo in found["silos"]} == {*SILOS, "west", "tiny"}
    assert len(found["runs"]) == 2
