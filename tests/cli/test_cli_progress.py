"""Progress on the command line, on a terminal and elsewhere."""

from __future__ import annotations

import io
import re
from typing import get_args

import pytest
from cli.commands import TINY, Amity, worked
from rich.console import Console

from amity import Run
from amity.cli import progress as cli_progress
from amity.federation.events import Event, What


def test_on_a_terminal_progress_is_shown(amity: Amity, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(cli_progress, "err", Console(file=screen, force_terminal=True, width=120))
    worked(amity("run", "pfedatt", *TINY, "--set", "k=99", "--out", "a"))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "round 2/2" in shown and "pfedatt" in shown and "left" in shown
    assert shown.count("clipped to 3") == 1


@pytest.mark.parametrize("terminal", [False, True])
def test_waiting_for_a_core_is_said_once(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(cli_progress, "err", Console(file=screen, force_terminal=terminal, width=120))
    with cli_progress.shown(Run("fedavg", rounds=1)) as listener:
        for _ in range(3):
            listener(Event("waiting", 1, done=1, total=2))
        listener(Event("round", 1, total=2))
    assert (
        screen.getvalue().count("fedavg: 1 of 2 workers have not begun: other work may keep the Ray cluster busy") == 1
    )


# From events alone


def events(first: int, last: int) -> list[Event]:
    """Return the events of rounds in which two silos take part; the second round is not evaluated."""
    found = []
    for number in range(first, last + 1):
        found += [Event("round", number, words="2 silos")]
        found += [Event("trained", number, f"silo-0{n}", done=n + 1, total=2) for n in range(2)]
        if number != 2:
            found += [Event("measured", number, f"silo-0{n}", done=n + 1, total=2) for n in range(2)]
        found += [Event("recorded", number, words="" if number == 2 else f"mean 9{number}.20 worst 80.00")]
    return found


def test_elsewhere_each_round_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with cli_progress.shown(Run("fedavg", rounds=3)) as listener:
        for event in events(1, 3):
            listener(event)
    told = [line.rpartition(" left ")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == [
        "fedavg round 1/3 mean 91.20 worst 80.00",
        "fedavg round 2/3",
        "fedavg round 3/3 mean 93.20 worst 80.00",
    ]


def test_the_time_left_follows_the_rounds_of_this_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is resumed at round 11 knows nothing of how long the first ten took."""
    clock = iter([100.0, 104.0, 108.0])
    monkeypatch.setattr("amity.cli.progress.time.monotonic", lambda: next(clock))
    with cli_progress.shown(Run("fedavg", rounds=20)) as listener:
        for event in events(11, 12):
            listener(event)
    assert [line.rpartition(" left ")[2] for line in capsys.readouterr().err.splitlines()] == ["36s", "32s"]


@pytest.mark.parametrize("terminal", [False, True])
def test_remarks_are_printed_once_and_notes_as_they_come(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(cli_progress, "err", Console(file=screen, force_terminal=terminal, width=120))
    with cli_progress.shown(Run("fedavg", rounds=3)) as listener:
        listener(Event("note", words="a holds [no] run yet"))
        for number in (1, 2, 3):
            listener(Event("waiting", number, done=1, total=2))
            listener(Event("note", number, words="k = 9 [is] clipped"))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    for line in (
        "note: a holds [no] run yet",
        "fedavg: 1 of 2 workers have not begun: other work may keep the Ray cluster busy",
        "fedavg, round 1: k = 9 [is] clipped",
    ):
        assert shown.count(line) == 1, shown
    assert "round 2: k" not in shown


def test_on_a_terminal_the_bar_follows_each_silo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training is nine tenths of a round; it is complete when it is on record. Resumed, the bar begins where it was."""
    monkeypatch.setattr(cli_progress, "err", Console(file=io.StringIO(), force_terminal=True, width=120))
    places = []
    with cli_progress.shown(Run("fedavg", rounds=4)) as listener:
        (task,) = listener._bar.tasks  # type: ignore[attr-defined]
        for event in events(2, 3):
            listener(event)
            places.append((event.what, round(task.completed, 3), task.fields["round"], task.fields["mean"]))
    assert places == [
        ("round", 1, 0, "-"),
        ("trained", 1.45, 0, "-"),
        ("trained", 1.9, 0, "-"),
        ("recorded", 2, 2, "-"),
        ("round", 2, 2, "-"),
        ("trained", 2.45, 2, "-"),
        ("trained", 2.9, 2, "-"),
        ("measured", 2.95, 2, "-"),
        ("measured", 2.999, 2, "-"),
        ("recorded", 3, 3, "93.20 %"),
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_events_that_are_not_shown_do_no_harm(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    monkeypatch.setattr(cli_progress, "err", Console(file=io.StringIO(), force_terminal=terminal, width=120))
    with cli_progress.shown(Run("fedavg", rounds=1)) as listener:
        for what in get_args(What):
            listener(Event(what, 1))
