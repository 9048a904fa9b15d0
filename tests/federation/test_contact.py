"""The server's contact with silos: who is behind, who has left, and whose word is not taken."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from amity.errors import InputError
from amity.federation import carrier as asks
from amity.federation.carrier import Outbox
from amity.federation.contact import Contact, misplaced
from amity.federation.events import Event
from amity.federation.messages import Answer, Done, Failed, Left, Measured, Standing
from amity.federation.reports import Settled
from amity.metric import ACCURACY

NAMES = ["ash", "birch", "cedar"]


class Scripted:
    """A carrier that brings what it is given."""

    def __init__(self, **given: Answer) -> None:
        self.given = [given[name] for name in NAMES if name in given]

    def ask(self, messages: Outbox) -> Iterator[tuple[list[int], Answer]]:
        for answer in self.given:
            yield [answer.silo], answer


def contact(told: list[Event] | None = None, **given: Answer) -> Contact:
    carrier: Any = Scripted(**given)
    listener: Any = (lambda event: None) if told is None else told.append
    return Contact(carrier, NAMES, listener, frozenset())


def finish() -> Outbox:
    return asks.finish("run", 3, range(3))


def test_who_is_away_is_behind_and_who_leaves_has_left() -> None:
    told: list[Event] = []
    found = contact(told, ash=Done("run", 3, 0), birch=Failed("run", 3, 1, "absent", "gone"), cedar=Left("run", 2, 2))
    found.told(finish())
    assert found.behind == {1} and found.left == {2} and found.near([0, 1, 2]) == [0]
    assert [(event.what, event.silo) for event in told] == [("left", "cedar")]


def test_what_goes_wrong_at_a_silo_is_raised_with_its_name() -> None:
    with pytest.raises(InputError, match="too small"):
        contact(ash=Failed("run", 3, 0, "input", "too small")).told(finish())
    with pytest.raises(RuntimeError, match="silo birch: TypeError"):
        contact(birch=Failed("run", 3, 1, "code", "TypeError")).told(finish())


def test_scores_that_are_none_are_lines_of_silos_that_are_not_there() -> None:
    told: list[Event] = []
    score = Measured("run", 3, 0, 5, 50.0, 1.0, {})
    found = contact(
        told, ash=score, birch=Failed("run", 3, 1, "upload", "it answers another question"), cedar=Left("run", 2, 2)
    )
    scores = found.scores(asks.measure("run", 3, range(3), None), ACCURACY)
    assert scores[0] is score and scores[1].examples == scores[2].examples == 0
    assert [(event.what, event.silo) for event in told if event.what != "measured"] == [
        ("refused", "birch"),
        ("left", "cedar"),
    ]


def test_a_score_that_no_model_can_have_is_refused_in_words() -> None:
    told: list[Event] = []
    found = contact(told, ash=Measured("run", 3, 0, 5, 250.0, 1.0, {}))
    scores = found.scores(asks.measure("run", 3, [0], None), ACCURACY)
    assert scores[0].examples == 0 and math.isnan(scores[0].main)
    (refused,) = [event for event in told if event.what == "refused"]
    assert refused.words == "score refused: its accuracy is not between 0 and 100" and refused.silo == "ash"


@pytest.mark.parametrize(
    ("answer", "asked", "said"),
    [
        (Done("run", 3, 0), None, "silo ash does not say where it stands"),
        (Standing("run", 0, 0, None, "other"), None, "silo ash has come to another plan"),
        (
            Standing("run", 1, 0, None, "same"),
            Settled(2, "accepted"),
            "stands at round 1, but has sent an upload in round 2",
        ),
        (
            Standing("run", 1, 0, 3, "same"),
            Settled(2, "refused"),
            "stands at round 1, but has sent an upload in round 2",
        ),
    ],
)
def test_a_silo_that_stands_elsewhere_is_refused(answer: Answer, asked: Settled | None, said: str) -> None:
    assert said in (misplaced("ash", answer, "same", asked) or "")


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        (Standing("run", 0, 0, None, "same"), None),
        (Standing("run", 2, 0, None, "same"), Settled(2, "accepted")),
        (Standing("run", 1, 0, 2, "same"), Settled(2, "accepted")),
        (Standing("run", 1, 0, None, "same"), Settled(2, "lost")),  # it may never have heard of that round
        (Standing("run", 2, 0, 3, "same"), Settled(2, "accepted")),
    ],
)
def test_a_silo_that_stands_where_it_should_is_gone_on_with(answer: Answer, asked: Settled | None) -> None:
    assert misplaced("ash", answer, "same", asked) is None
