"""Events in plain words."""

from __future__ import annotations

from typing import get_args

import pytest

from amity.federation.events import Event, What
from amity.report.view_events import duration, in_words, last_events, size


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Event("round", 7, total=5), "round 7 begins: 5 silos are asked"),
        (Event("trained", 7, "north", 2_300_000, 4.25), "north: round 7 uploaded, 2.3 MB, after 4.2 s"),
        (Event("trained", 7, done=3, total=5), "round 7: 3 of 5 silos have trained"),
        (Event("dropped", 7, "east", words="absent since 10:00"), "east: round 7 missing: absent since 10:00"),
        (
            Event("refused", 7, "west", words="upload refused: not finite"),
            "west: round 7 refused: upload refused: not finite",
        ),
        (Event("aggregated", 7, total=4, seconds=0.5), "round 7: 4 returned, combined in 0.5 s"),
        (Event("recorded", 7, words="mean 85.20 worst 61.54"), "round 7 is on record: mean 85.20 worst 61.54"),
        (Event("aside", 4, "west", words="its disk is full"), "west: cannot go on with the run: its disk is full"),
        (Event("joined", 3, "south"), "south: has joined"),
        (Event("left", 3, "south"), "south: has left"),
        (Event("waiting", done=1, total=4), "3 of 4 workers have not begun"),
        (Event("waiting", 2, "south", words="no sign of life"), "south: round 2 is awaited: no sign of life"),
        (Event("note", 0, words="two columns are constant"), "two columns are constant"),
        (Event("ended", 8), "the run is finished"),
        (Event("ended", 8, words="south was short"), "the run is finished, with less than was agreed: south was short"),
        (Event("stopped"), "the run was interrupted"),
    ],
)
def test_events_are_told_in_plain_words(event: Event, words: str) -> None:
    assert in_words(event)["words"] == words


def test_the_last_ones_are_kept_with_how_many_were_asked() -> None:
    events = [
        Event("round", 1, total=5, time=1.0),
        Event("measured", 1, done=5, total=5, time=2.0),
        Event("aggregated", 1, total=4, time=3.0),
        Event("refused", 1, "a", words="why", time=4.0),
    ]
    found = last_events(events, 2)
    assert [event["words"] for event in found] == ["round 1: 4 of 5 returned", "a: round 1 refused: why"]
    assert [event["level"] for event in found] == ["good", "warning"] and found[0]["time"] == 3.0


def test_every_event_has_words() -> None:
    assert all(in_words(Event(what, 1, "a"))["words"] for what in get_args(What))


def test_sizes_and_times() -> None:
    assert [size(n) for n in (5, 1500, 2_300_000, 4 * 10**9, 10**16)] == [
        *("5 bytes", "1.5 kB", "2.3 MB", "4.0 GB", "10000.0 TB")
    ]
    assert [duration(s) for s in (0.26, 42, 120, 9000)] == ["0.3 s", "42 s", "2 min", "2.5 h"]
