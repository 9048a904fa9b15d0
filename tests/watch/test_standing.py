"""How silos stand, from events that were made by hand."""

from __future__ import annotations

import pytest

from amity.federation.events import Event
from amity.record.contents import Line
from amity.watch.standing import GREEN, ORANGE, RECENT, Standings, health, recent_scores

SILOS = ["north", "south", "east"]


def stands(standings: Standings) -> dict[str, tuple[str, float | None, str]]:
    return {name: (one.state, one.since, one.words) for name, one in standings.silos.items()}


def states(standings: Standings) -> list[str]:
    return [one.state for one in standings.silos.values()]


def a_line(number: int, took_part: list[str], dropped: dict[str, str], scores: list[float | None] | None) -> Line:
    return {
        "round": number,
        "mean": 50.0,
        "worst": 40.0,
        "accuracy": scores,
        "bytes_up": 1,
        "bytes_down": 1,
        "bytes_eval": 0,
        "seconds": {},
        "took_part": took_part,
        "dropped": dropped,
        "warnings": [],
    }


def test_a_round_step_by_step() -> None:
    one = Standings(SILOS)
    assert states(one) == ["invited"] * 3
    one.take(Event("round", 1, total=3, time=10.0))
    assert stands(one)["north"] == ("training", 10.0, "")
    one.take(Event("trained", 1, "north", 900, 1.0, done=1, total=3, time=11.0))
    one.take(Event("refused", 1, "south", words="not finite", time=12.0))
    one.take(Event("trained", 1, "south", None, 1.0, done=2, total=3, time=12.0))
    one.take(Event("dropped", 1, "east", words="dropped before training", time=13.0))
    assert stands(one) == {
        "north": ("uploaded", 11.0, ""),
        "south": ("refused", 12.0, "not finite"),
        "east": ("absent", 13.0, "dropped before training"),
    }
    one.take(Event("measured", 1, done=3, total=3, time=14.0))
    one.take(Event("recorded", 1, time=15.0))
    one.settle(a_line(1, ["north"], {"south": "x", "east": "y"}, [1.0, 2.0, 3.0]), SILOS, 15.0)
    assert states(one) == ["evaluated", "refused", "absent"]
    assert [silo["round"] for silo in one.rows([[], [], []])] == [1, 1, 0]


def test_absent_since_when_outlasts_the_next_round_until_the_silo_is_back() -> None:
    one = Standings(SILOS)
    one.take(Event("round", 1, total=3, time=10.0))
    one.take(Event("dropped", 1, "east", words="gone", time=11.0))
    one.take(Event("round", 2, total=3, time=20.0))
    one.take(Event("dropped", 2, "east", words="gone", time=21.0))
    assert stands(one)["east"] == ("absent", 11.0, "gone")
    one.take(Event("trained", 2, "east", 5, 1.0, time=22.0))
    assert stands(one)["east"] == ("uploaded", 22.0, "")


def test_a_silo_that_is_set_aside_is_absent_with_the_reason() -> None:
    one = Standings(SILOS)
    one.take(Event("round", 1, total=3, time=10.0))
    one.take(Event("aside", 1, "east", words="its disk is full", time=11.0))
    assert stands(one)["east"] == ("absent", 11.0, "its disk is full")


def test_silos_that_train_together_are_told_apart_by_the_line_alone() -> None:
    one = Standings(SILOS)
    one.take(Event("round", 1, total=2, time=1.0))  # of three: whom, nobody says
    assert states(one) == ["idle"] * 3
    one.take(Event("trained", 1, None, 10, 1.0, done=2, total=2, time=2.0))
    one.take(Event("aggregated", 1, total=2, time=2.0))
    assert states(one) == ["idle"] * 3
    one.take(Event("recorded", 1, time=3.0))
    one.settle(a_line(1, ["north", "east"], {}, [1.0, None, 3.0]), SILOS, 3.0)
    assert states(one) == ["evaluated", "idle", "evaluated"]


def test_a_line_of_the_round_before_changes_nothing_of_the_one_under_way() -> None:
    one = Standings(SILOS)
    one.take(Event("round", 1, total=3, time=1.0))
    one.take(Event("recorded", 1, time=2.0))
    one.take(Event("round", 2, total=3, time=3.0))
    one.settle(a_line(1, SILOS, {}, [1.0, 1.0, 1.0]), SILOS, 2.0)
    assert states(one) == ["training"] * 3
    assert [silo["round"] for silo in one.rows([[], [], []])] == [1, 1, 1]


def test_the_end_and_leaving() -> None:
    one = Standings(SILOS)
    one.take(Event("round", 1, total=3, time=1.0))
    one.take(Event("left", 1, "south", time=2.0))
    one.take(Event("round", 2, total=2, time=3.0))
    assert states(one) == ["training", "left", "training"]
    one.take(Event("ended", 2, time=4.0))
    assert states(one) == ["finished", "left", "finished"]


def test_time_left_goes_by_the_median_of_the_last_rounds() -> None:
    one = Standings(SILOS)
    assert one.left(10, 0, 0.0) is None
    now = 0.0
    for number, took in enumerate([100.0, 2.0, 2.0, 60.0, 2.0, 2.0], start=1):  # the first is too long ago
        one.take(Event("round", number, total=3, time=now))
        now += took
        one.take(Event("recorded", number, time=now))
        now += 1000.0  # the process was dead: that is no part of the pace
    assert one.left(10, 6, now) == pytest.approx(8.0)
    one.take(Event("round", 7, total=3, time=now))
    assert one.left(10, 6, now + 1.5) == pytest.approx(6.5)
    assert one.left(10, 6, now + 50.0) == pytest.approx(6.0)  # a round that takes longer is not counted back


@pytest.mark.parametrize(
    ("age", "colour"),
    [(0.0, "green"), (GREEN, "green"), (GREEN + 1, "orange"), (ORANGE, "orange"), (ORANGE + 1, "red")],
)
def test_the_colour_of_a_sign_of_life(age: float, colour: str) -> None:
    assert health(1000.0 - age, 1000.0) == colour
    assert health(None, 1000.0) == "none"


def test_recent_scores_skip_rounds_without_evaluation() -> None:
    lines = [a_line(number, [], {}, None if number % 2 else [number, None, 1.006]) for number in range(1, 101)]
    found = recent_scores(lines, 3)
    assert found[0] == [float(number) for number in range(102 - 2 * RECENT, 101, 2)]
    assert found[1] == [None] * RECENT and found[2][-1] == 1.01
    assert recent_scores([], 3) == [[], [], []]
