"""events.jsonl: what is written when, what a resumed run keeps of it, and how damage shows."""

from __future__ import annotations

import hashlib
import json
import stat
import sys
import threading
from pathlib import Path
from typing import get_args

import pytest
from record.rounds_by_hand import CONFIG, FACTS, SILOS, add_round, events_of, models, record_rounds, saved_at, whole

from amity.errors import DamagedFile
from amity.federation.events import Event, What
from amity.record import Recorder, read
from amity.record.checksums import read_sums, sum_of, sums_text
from amity.record.events import EventLog, read_events

FULL = Event("trained", 3, "north", bytes=0, seconds=0.5, words="é", done=1, total=2, time=1.5)


def test_a_line_has_what_is_known_and_nothing_else(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.listen(Event("ended", time=1.0))
    log.listen(FULL)
    log.listen(Event("measured", 3, seconds=float("nan"), time=2.0))
    log.flush()
    assert (tmp_path / "events.jsonl").read_text() == (
        '{"what":"ended","round":0,"time":1.0}\n'
        '{"what":"trained","round":3,"silo":"north","bytes":0,"seconds":0.5,"words":"\\u00e9","done":1,"total":2,'
        '"time":1.5}\n'
        '{"what":"measured","round":3,"time":2.0}\n'
    )
    read_back = read_events(tmp_path / "events.jsonl", whole=True)
    assert read_back == [Event("ended", time=1.0), FULL, Event("measured", 3, time=2.0)]


def test_events_reach_the_disk_with_rounds_checkpoints_and_the_end(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    assert not file.exists() and read(tmp_path).events == []

    def on_disk_after(word: str) -> list[str]:
        recorder.listen(Event("note", len(recorder.lines), words=word, time=1.0))
        return [event.words for event in read(tmp_path).events]

    assert on_disk_after("a") == []
    add_round(recorder, 1)
    assert on_disk_after("b") == ["a"]
    recorder.checkpoint(saved_at(1))
    assert on_disk_after("c") == ["a", "b"]
    recorder.interrupted()
    assert on_disk_after("too late") == ["a", "b", "c"]


def test_what_comes_before_an_error_reaches_the_disk_when_the_directory_is_let_go(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    recorder.listen(FULL)
    recorder.close()
    assert read(tmp_path).events == [FULL]


@pytest.mark.skipif(sys.platform == "win32", reason="modes are others there")
@pytest.mark.parametrize(("share", "mode"), [("private", 0o600), ("group", 0o660)])
def test_events_are_for_those_who_may_read_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: str, mode: int
) -> None:
    monkeypatch.setenv("AMITY_SHARE", share)
    log = EventLog(tmp_path / "events.jsonl")
    log.listen(FULL)
    log.flush()
    assert stat.S_IMODE((tmp_path / "events.jsonl").stat().st_mode) == mode


def test_a_finished_run_gives_its_events_back_and_refuses_damaged_ones(tmp_path: Path) -> None:
    recorder = whole(tmp_path)
    recorder.listen(FULL)  # too late: the file has its checksum
    recorder.close()
    wanted = [
        event for number in range(1, 5) for event in (*events_of(number), Event("recorded", number, time=number + 0.75))
    ]
    assert read(tmp_path).events == wanted
    file = tmp_path / "events.jsonl"
    content = file.read_bytes()
    for damage in (content[:-1], content + b"\n", content.replace(b"A/B", b"A/C", 1), b""):
        file.write_bytes(damage)
        with pytest.raises(DamagedFile, match="events.jsonl is damaged"):
            _ = read(tmp_path).events
    file.unlink()
    with pytest.raises(DamagedFile, match="events.jsonl is part of the run and cannot be read"):
        _ = read(tmp_path).events


def test_a_resumed_run_keeps_the_events_up_to_its_checkpoint(tmp_path: Path) -> None:
    """Also where the checkpoint is saved when the next round has begun, as after Ctrl-C."""
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    record_rounds(recorder, [1])
    add_round(recorder, 2)
    recorder.listen(Event("recorded", 2, time=2.75))
    recorder.listen(Event("round", 3, time=3.0))
    recorder.listen(Event("note", 0, words="in round 3", time=3.1))
    recorder.checkpoint(saved_at(2))
    recorder.listen(Event("stopped", 3, time=3.2))
    recorder.interrupted()
    assert [event.what for event in read(tmp_path).events][-4:] == ["recorded", "round", "note", "stopped"]
    recorder, _ = Recorder.resume(tmp_path, CONFIG)
    kept = [*events_of(1), Event("recorded", 1, time=1.75), Event("recorded", 2, time=2.75)]
    assert recorder.notes == [] and read(tmp_path).events == kept
    record_rounds(recorder, [3, 4])
    recorder.finish(models())
    assert read(tmp_path).events[: len(kept)] == kept
    assert [event.round for event in read(tmp_path).events if event.what == "recorded"] == [1, 2, 3, 4]
    recorder, _ = Recorder.resume(tmp_path, {**CONFIG, "rounds": 5})  # more rounds: the end was none
    assert len(read(tmp_path).events) == len(kept) + 6 and recorder.notes == []


@pytest.mark.parametrize("damage", ["changed", "cut", "gone"])
def test_a_damaged_beginning_is_told_and_not_carried_on(tmp_path: Path, damage: str) -> None:
    record_rounds(Recorder.create(tmp_path, CONFIG, SILOS, FACTS), [1, 2])
    file = tmp_path / "events.jsonl"
    content = file.read_bytes()
    file.write_bytes(content.replace(b"A/B", b"A/C", 1) if damage == "changed" else content[:-1])
    if damage == "gone":
        file.unlink()
    recorder, saved = Recorder.resume(tmp_path, CONFIG)
    assert saved is not None and saved.progress.round == 2
    assert recorder.notes == [f"{file} is not as it was written: the events of earlier rounds are lost, it begins anew"]
    record_rounds(recorder, [3, 4])
    recorder.finish(models())
    assert {event.round for event in read(tmp_path).events} == {3, 4}


def test_the_checkpoint_of_a_version_without_events_lets_them_begin_anew(tmp_path: Path) -> None:
    record_rounds(Recorder.create(tmp_path, CONFIG, SILOS, FACTS), [1])
    folder = tmp_path / "checkpoint"
    progress = json.loads((folder / "progress.json").read_text())
    content = (tmp_path / "events.jsonl").read_bytes()
    assert progress.pop("events") == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    text = json.dumps(progress).encode()
    sums = read_sums(folder)
    assert sums is not None
    (folder / "progress.json").write_bytes(text)
    (folder / "checksums.json").write_bytes(
        sums_text(sums._replace(files={**sums.files, "progress.json": sum_of(text)}))
    )
    recorder, found = Recorder.resume(tmp_path, CONFIG)
    assert found is not None and found.progress.round == 1
    assert recorder.notes == [] and read(tmp_path).events == []


def test_a_run_that_starts_again_forgets_its_events(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    recorder.listen(FULL)
    recorder.close()
    recorder, saved = Recorder.resume(tmp_path, CONFIG)
    assert saved is None and recorder.notes == [] and read(tmp_path).events == []


def test_what_a_full_disk_has_left_of_a_line_is_written_over(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    log = EventLog(file)
    log.listen(FULL)
    log.flush()
    with file.open("ab") as half:
        half.write(b'{"what":"trained","round":3,"words":"a long text of which a part came to the disk')
    assert read_events(file, whole=False) == [FULL]
    log.listen(FULL)
    log.flush()
    assert read_events(file, whole=True) == [FULL, FULL]
    assert log.until(3) == {"bytes": file.stat().st_size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def test_threads_may_report_at_once(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")

    def report(silo: str) -> None:
        for number in range(100):
            log.listen(Event("trained", number, silo, time=1.0))
            if number % 10 == 0:
                log.flush()

    threads = [threading.Thread(target=report, args=(f"silo-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.flush()
    content = (tmp_path / "events.jsonl").read_bytes()
    assert log.until(100) == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    events = read_events(tmp_path / "events.jsonl", whole=True)
    assert len(events) == 400
    for number in range(4):
        assert [event.round for event in events if event.silo == f"silo-{number}"] == list(range(100))


TRAINED = b'{"what":"trained","round":1,"time":1.0}'


def test_each_kind_of_event_is_read(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(
        b"".join(TRAINED.replace(b"trained", w.encode()) + b"\n" for w in get_args(What))
    )
    assert [event.what for event in read_events(tmp_path / "events.jsonl", whole=True)] == [*get_args(What)]


@pytest.mark.parametrize(
    "line",
    [
        *(b"[]", b"{}", b'{"what":"run","round":"1","time":1.0}', b"\xff", b"", b"[" * 100_000),
        TRAINED.replace(b"trained", b"traiNed"),  # a flipped bit
    ],
    ids=lambda line: line[:20].decode("latin-1"),
)
def test_a_line_that_is_no_event_is_refused(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "events.jsonl").write_bytes(b'{"what":"ended","round":0,"time":1.0}\n' + line + b"\n")
    with pytest.raises(DamagedFile, match=r"events.jsonl line 2 is (no event|not valid JSON)"):
        read_events(tmp_path / "events.jsonl", whole=False)
