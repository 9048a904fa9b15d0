"""The relay: a worker that dies once, always or late, and letters that nobody waits for any more."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amity.errors import LostWorker
from amity.site.relay import Relay

# Answers with its own number and the letter; a letter may say what is to happen first. No torch: it starts at once.
WORKER = """
import os, pathlib, sys, time
here = pathlib.Path(sys.argv[1])
(here / str(os.getpid())).touch()
number = len(list(here.iterdir()))
while len(head := sys.stdin.buffer.read(8)) == 8:
    letter = sys.stdin.buffer.read(int.from_bytes(head, "big"))
    match letter.split(b" "):
        case [b"die", b"once"] if number == 1: os._exit(9)
        case [b"die", b"always"]: os._exit(7)
        case [b"half", b"once"] if number == 1:
            sys.stdout.buffer.write((99).to_bytes(8, "big") + b"half"); sys.stdout.flush(); os._exit(3)
        case [b"slowly", seconds]: time.sleep(float(seconds))
    answer = b"%d: %s" % (number, letter)
    sys.stdout.buffer.write(len(answer).to_bytes(8, "big") + answer)
    sys.stdout.flush()
"""


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    (tmp_path / "seen").mkdir()
    (tmp_path / "worker.py").write_text(WORKER)
    relay = Relay([sys.executable, "-S", str(tmp_path / "worker.py"), str(tmp_path / "seen")])
    yield relay
    relay.end(0.1)


def alive(tmp_path: Path) -> list[int]:
    """The workers that are still there."""
    pids = [int(path.name) for path in (tmp_path / "seen").iterdir()]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def soon(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not what():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_letters_are_answered_by_one_worker(relay: Relay, tmp_path: Path) -> None:
    relay.start()
    assert relay.ask(b"one") == b"1: one" and relay.ask(b"x" * 300_000) == b"1: " + b"x" * 300_000
    assert relay.life.starts == 1 and not relay.life.busy and len(alive(tmp_path)) == 1
    relay.end()
    assert alive(tmp_path) == []


@pytest.mark.parametrize("letter", [b"die once", b"half once"])
def test_a_worker_that_dies_once_is_started_again_and_asked_again(relay: Relay, letter: bytes) -> None:
    assert relay.ask(letter) == b"2: " + letter
    assert relay.ask(b"next") == b"2: next" and relay.life.starts == 2


def test_a_worker_that_is_killed_between_two_letters_is_started_again(relay: Relay, tmp_path: Path) -> None:
    assert relay.ask(b"one") == b"1: one"
    (pid,) = alive(tmp_path)
    os.kill(pid, 9)
    assert relay.ask(b"two") == b"2: two"


def test_a_worker_that_always_dies_is_lost_in_words(relay: Relay, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(LostWorker, match=r"its worker ended 2 times \(exit code 7\): see worker.log"):
            relay.ask(b"die always")
    assert not relay.life.busy and relay.life.starts == 4
    assert relay.ask(b"better") == b"5: better"


def test_a_command_that_cannot_be_started_is_lost_too(tmp_path: Path) -> None:
    relay = Relay([str(tmp_path / "nothing")])
    with pytest.raises(LostWorker, match="its worker cannot be started"):
        relay.ask(b"one")
    relay.end()


def test_a_letter_that_nobody_waits_for_any_more_does_not_answer_the_next(relay: Relay) -> None:
    relay.ask(b"awake")
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    assert relay.ask(b"slowly 1", stop.is_set) is None
    assert relay.life.busy
    assert relay.ask(b"next") == b"1: next" and relay.ask(b"after") == b"1: after"
    assert relay.life.starts == 1


def test_a_letter_that_is_given_up_while_another_is_at_work_is_never_sent(relay: Relay) -> None:
    relay.ask(b"awake")
    assert relay.ask(b"slowly 1", lambda: True) is None
    assert relay.ask(b"die always", lambda: True) is None  # which would be seen
    assert relay.ask(b"next") == b"1: next"


def test_the_end_waits_for_no_worker_that_does_not_even_read(tmp_path: Path) -> None:
    relay = Relay([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    assert relay.ask(b"x" * 3_000_000, lambda: True) is None
    began = time.monotonic()
    relay.end(0.2)
    assert time.monotonic() - began < 5
    soon(lambda: not relay.life.busy)


def test_the_end_waits_for_no_worker_that_is_busy(relay: Relay, tmp_path: Path) -> None:
    relay.ask(b"awake")
    assert relay.ask(b"slowly 60", lambda: True) is None
    soon(lambda: relay.life.busy)
    began = time.monotonic()
    relay.end(0.2)
    assert time.monotonic() - began < 5 and alive(tmp_path) == []
    soon(lambda: not relay.life.busy)
    assert alive(tmp_path) == []  # and nobody starts another for a letter that nobody waits for
    relay.end()
