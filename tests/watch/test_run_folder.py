"""A run directory that is followed while it is written, killed, resumed, damaged and finished."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from record.rounds_by_hand import SILOS, add_round, events_of, record_rounds
from watch.watched_folders import begin, finish, live, looked, record_of, resume

from amity import record
from amity.federation.events import Event
from amity.record.lines import read_line
from amity.record.lock import Lock, held
from amity.watch import run_folder
from amity.watch.run_folder import RunFolder


def test_a_run_is_followed_from_before_its_beginning_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "run"
    folder = RunFolder(path, "run")
    assert live(folder)["phase"] == "waiting" and "no run yet" in live(folder)["words"]

    recorder = begin(path)
    begun = live(folder)
    assert (begun["phase"], begun["round"], begun["rounds"], begun["name"]) == ("running", 0, 4, "fedamp (run)")
    assert [silo["name"] for silo in begun["silos"]] == SILOS

    record_rounds(recorder, [1])
    for event in events_of(2):
        recorder.listen(event)
    recorder.listen(Event("dropped", 2, "..", words="its line is cut", time=2.6))
    look = looked(folder)
    assert look.live["round"] == 1 and look.live["words"] == "round 2 is under way"
    states = {silo["name"]: silo["state"] for silo in look.live["silos"]}
    assert states["A/B"] == "training"  # nothing more is on disk: events wait a moment for each other
    assert record_of(look).lines == record.read(path).lines
    assert look.live["silos"][0]["recent"] == [50.0] and look.live["silos"][0]["health"] == "none"

    record_rounds(recorder, [2, 3])
    look = looked(folder)
    assert [silo["recent"] for silo in look.live["silos"]] == [
        [50.0, 100.0, 75.0],
        [50.0, 75.0, 75.0],
        [50.0, 50.0, 75.0],
    ]
    assert look.live["left"] == pytest.approx(0.5)  # from 0.25 to 0.75 of each second, one round to go

    finish(recorder, [4])
    look = looked(folder)
    assert (look.live["phase"], look.live["round"], look.live["left"]) == ("ended", 4, None)
    assert record_of(look).summary == record.read(path).summary


def test_what_is_followed_equals_what_is_read_at_once(tmp_path: Path) -> None:
    """Lines, checks, events and matrices, at every step of the way."""
    path = tmp_path / "run"
    folder = RunFolder(path, "run")
    recorder = begin(path)
    for number in (1, 2, 3):
        record_rounds(recorder, [number])
        found, known = record_of(looked(folder)), record.read(path)
        assert found.lines == known.lines and list(found.checks) == list(known.checks)
        assert found.events == known.events
        assert found.weights.keys() == known.weights.keys() == set(range(1, number + 1))
        for round in known.weights:
            np.testing.assert_array_equal(found.weights[round], known.weights[round])
        assert found.results["delivered"] == known.results["delivered"]
    finish(recorder, [4])
    np.testing.assert_array_equal(record_of(looked(folder)).weights[4], record.read(path).weights[4])


def test_nothing_is_parsed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    folder = RunFolder(path, "run")
    recorder = begin(path)
    looked(folder)
    parsed: list[int] = []

    def counted(*given: object, **named: object) -> object:
        parsed.append(given[2])  # type: ignore[arg-type]
        return read_line(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(run_folder, "read_line", counted)
    for number in (1, 2, 3):
        record_rounds(recorder, [number])
        looked(folder)
        looked(folder)
    assert parsed == [1, 2, 3]


def test_a_process_that_is_gone_and_a_run_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run"
    folder = RunFolder(path, "run")
    recorder = begin(path)
    record_rounds(recorder, [1, 2])
    assert live(folder)["phase"] == "running"
    assert recorder._lock is not None
    recorder._lock.release()  # as when the process was killed
    dead = live(folder)
    assert dead["phase"] == "dead" and dead["left"] is None
    assert dead["words"] == f"its process is gone; `amity run --out {path} --resume` continues it"

    again = resume(path)
    assert live(folder)["phase"] == "running"
    finish(again, [3, 4])
    assert (live(folder)["phase"], live(folder)["round"]) == ("ended", 4)


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run"
    folder = RunFolder(path, "run")
    recorder = begin(path)
    record_rounds(recorder, [1])
    recorder.listen(Event("stopped", time=9.0))
    recorder.interrupted()
    assert live(folder)["phase"] == "stopped"
    assert live(folder)["words"].startswith("it was interrupted after round 1; `amity run --out ")


def test_rounds_that_a_resumed_run_forgets_are_forgotten(tmp_path: Path) -> None:
    """A checkpoint of round 1, rounds up to 3 on disk: whoever resumes begins with round 2."""
    path = tmp_path / "run"
    folder = RunFolder(path, "run")
    recorder = begin(path)
    record_rounds(recorder, [1])
    shutil.copytree(path / "checkpoint", tmp_path / "kept")
    record_rounds(recorder, [2, 3])
    assert live(folder)["round"] == 3
    assert recorder._lock is not None
    recorder._lock.release()
    for name in ("checkpoint", "checkpoint.old"):
        shutil.rmtree(path / name)
    shutil.copytree(tmp_path / "kept", path / "checkpoint")
    again = resume(path)
    look = looked(folder)
    assert look.live["round"] == 1 and set(record_of(look).weights) == {1}
    finish(again, [2, 3, 4])
    assert live(folder)["phase"] == "ended"


def test_a_line_without_an_end_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "run"
    folder = RunFolder(path, "run")
    recorder = begin(path)
    record_rounds(recorder, [1])
    for event in events_of(2):
        recorder.listen(event)
    add_round(recorder, 2)
    content = (path / "rounds.jsonl").read_bytes()
    (path / "rounds.jsonl").write_bytes(content[:-20])
    assert live(folder)["round"] == 1 and live(folder)["words"] == "round 2 is under way"
    with (path / "rounds.jsonl").open("ab") as file:
        file.write(content[-20:])
    assert live(folder)["round"] == 2


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("rounds.jsonl", lambda content: content + b"!\n"),
        ("events.jsonl", lambda content: content + b'{"what": 5}\n'),
        ("facts.json", lambda content: b"!" + content[1:]),
        ("config.toml", lambda content: content + b"x = 1\n"),
    ],
)
def test_damage_is_said_at_the_second_look_and_ends_when_it_is_mended(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "run"
    folder = RunFolder(path, "run")
    recorder = begin(path)
    record_rounds(recorder, [1, 2])
    assert live(folder)["words"] == ""
    content = (path / name).read_bytes()
    (path / name).write_bytes(damage(content))
    assert live(folder)["words"] == ""  # a file may be in the middle of being written
    for _ in range(2):
        look = looked(folder)
        assert str(path / name) in look.live["words"] and look.live["phase"] == "running"
        assert look.live["round"] == 2 and len(record_of(look).lines) == 2  # what is known is still shown
    (path / name).write_bytes(content)
    assert live(folder)["words"] == "" and live(folder)["round"] == 2


def test_damaged_weights_are_said(tmp_path: Path) -> None:
    path = tmp_path / "run"
    folder = RunFolder(path, "run")
    recorder = begin(path)
    record_rounds(recorder, [1])
    content = bytearray((path / "weights.part").read_bytes())
    content[-1] ^= 1
    (path / "weights.part").write_bytes(bytes(content))
    look = looked(folder)
    assert look.record is None and "weights.part round 1 is damaged" in look.live["words"]


def test_a_run_without_locks_counts_as_gone_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    folder = RunFolder(path, "run")
    record_rounds(begin(path), [1])
    monkeypatch.setattr(run_folder, "held", lambda path: None)
    written = live(folder)["written"]
    assert live(folder, written + run_folder.QUIET - 1)["phase"] == "running"
    assert live(folder, written + run_folder.QUIET + 1)["phase"] == "dead"


def test_the_feed_is_in_plain_words_and_counts_many_silos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    recorder = begin(path)
    recorder.listen(Event("round", 1, total=3, time=1.0))
    recorder.listen(Event("trained", 1, "north", bytes=2_300_000, seconds=4.0, done=1, total=3, time=2.0))
    recorder.listen(Event("measured", 1, done=1, total=3, time=2.5))
    recorder.listen(Event("aggregated", 1, total=2, time=3.0))
    record_rounds(recorder, [1])
    words = [event["words"] for event in looked(RunFolder(path, "run")).feed]
    assert any(text.startswith("north: round 1 uploaded, 2.3 MB") for text in words)
    assert any(text.startswith("round 1: 2 of 3 returned") for text in words)
    assert not any("measured" in text for text in words)
    monkeypatch.setattr(run_folder, "MANY", 2)
    few = [event["words"] for event in looked(RunFolder(path, "run")).feed]
    assert not any("uploaded" in text for text in few) and any("2 of 3 returned" in text for text in few)


def test_whoever_asks_whether_a_run_is_written_keeps_nobody_from_writing(tmp_path: Path) -> None:
    assert held(tmp_path) is False
    lock = Lock(tmp_path)
    assert held(tmp_path) is True
    with pytest.raises(ValueError, match="another process is writing"):
        Lock(tmp_path)
    lock.release()
    assert held(tmp_path) is False
    assert held(tmp_path / "nowhere") is None


def test_a_writer_waits_for_whoever_only_asks(tmp_path: Path) -> None:
    """Asking takes the lock for a moment; a run that begins in that moment is not refused."""
    import threading

    asking = Lock(tmp_path)
    threading.Timer(0.1, asking.release).start()
    Lock(tmp_path).release()


def test_weights_of_a_round_that_are_missing_are_said(tmp_path: Path) -> None:
    """A flipped bit may make the entry one of another round."""
    path = tmp_path / "run"
    folder = RunFolder(path, "run")
    record_rounds(begin(path), [1, 2])
    assert record_of(looked(folder)).weights.keys() == {1, 2}
    content = bytearray((path / "weights.part").read_bytes())
    content[len(content) // 2 + 1] ^= 1
    for damage in (bytes(content), b"", None):
        (path / "weights.part").unlink() if damage is None else (path / "weights.part").write_bytes(damage)
        look = looked(RunFolder(path, "run"))
        assert look.record is None and "weights.part round" in look.live["words"] and "damaged" in look.live["words"]


def test_damaged_events_of_a_run_that_has_ended_are_said(tmp_path: Path) -> None:
    path = tmp_path / "run"
    finish(begin(path), [1, 2, 3, 4])
    whole = (path / "events.jsonl").read_bytes()
    assert live(RunFolder(path, "run"))["words"] == "all rounds are done"
    for damage in (whole.replace(b'"round":3', b'"round":2', 1), whole[:-30], b"", None):
        (path / "events.jsonl").unlink() if damage is None else (path / "events.jsonl").write_bytes(damage)
        folder = RunFolder(path, "run")
        live(folder)  # files change while they are read: it is said when it is so at a second look
        assert "events.jsonl" in live(folder)["words"] and not looked(folder).feed
        (path / "events.jsonl").write_bytes(whole)
        assert live(folder)["words"] == "all rounds are done" and looked(folder).feed
