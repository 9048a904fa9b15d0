"""The carrier to silos elsewhere: how long it waits for whom, whom it asks again, and what it takes for an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch

from amity.contract import Download
from amity.errors import DiskFull, InputError, LostWorker
from amity.federation import carrier as asks
from amity.federation.carrier import Outbox
from amity.federation.distant import LEAST, PATIENCE, TRIES, Distant, Manners
from amity.federation.encoding import decode, encode
from amity.federation.events import Event
from amity.federation.messages import (
    Answer,
    Commit,
    Declined,
    Done,
    Failed,
    Hello,
    Left,
    Measure,
    Measured,
    Message,
    Propose,
    Standing,
    Train,
    Upload,
    failure,
)
from amity.federation.transport import Away, Letter

NAMES = ["ash", "birch", "cedar"]
WAIT, QUORUM = Manners("wait", 3600, 900), Manners("quorum", 3600, 900)


class Scripted:
    """Silos that answer as they should after some seconds, unless a test says otherwise."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stopped = False
        self.took = dict.fromkeys(NAMES, 1.0)
        self.answer: Callable[[str, Message], Answer | Away | bytes | None] = lambda name, message: None
        self.sent: list[tuple[str, str, float]] = []

    def send(self, letters: Mapping[str, Letter], seconds: Mapping[str, float]) -> Iterator[tuple[str, bytes | Away]]:
        began = self.now
        for name in sorted(letters, key=lambda name: self.took[name]):
            message = decode(bytes(letters[name]))
            assert isinstance(message, Message)
            self.sent.append((name, type(message).__name__, seconds[name]))
            self.now = began + self.took[name]
            given = self.answer(name, message)
            yield name, given if isinstance(given, bytes | Away) else encode(given or usual(message))

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def usual(message: Message) -> Answer:
    match message:
        case Propose() | Hello():
            return Standing(*message[:3], None, "")
        case Train():
            return Upload(*message[:3], {"params": torch.ones(2)})
        case Measure():
            return Measured(*message[:3], 5, 50.0, 1.0, {})
    return Done(*message[:3])


def to(silos: Scripted, manners: Manners = WAIT, **more: Any) -> Distant:
    usual_parts: dict[str, Any] = {
        "introduce": lambda client: Propose("run", 0, client, "{}"),
        "events": lambda event: None,
        "notice": lambda name, kind, answer: None,
        "pause": silos.sleep,
        "clock": lambda: silos.now,
    }
    return Distant(NAMES, silos, manners, **{**usual_parts, **more})


def train(round: int = 1, needed: int = 0, who: range = range(3)) -> Outbox:
    return asks.train("run", round, list(who), Download({"params": torch.zeros(2)}, {}), needed)


def answers(distant: Distant, messages: Outbox) -> dict[int, Answer]:
    return {client: answer for (client,), answer in distant.ask(messages)}


def kinds(silos: Scripted, name: str) -> list[str]:
    return [kind for silo, kind, _ in silos.sent if silo == name]


def test_a_silo_is_told_the_plan_once_before_anything_else() -> None:
    silos = Scripted()
    distant = to(silos)
    assert all(isinstance(answer, Upload) for answer in answers(distant, train()).values())
    answers(distant, asks.commit("run", 1, dict.fromkeys(range(3), "accepted")))
    assert all(kinds(silos, name) == ["Propose", "Train", "Commit"] for name in NAMES)
    assert distant.door is None and distant.notes() == []


def test_a_slow_silo_is_waited_for_by_its_own_pace() -> None:
    """The first turn may take all that the contract allows; later ones a multiple of the slowest so far."""
    silos = Scripted()
    distant = to(silos)
    silos.took = {"ash": 1.0, "birch": 100.0, "cedar": 900.0}
    answers(distant, train())
    silos.took["birch"] = 5.0  # quick for once: that is no reason to be less patient
    answers(distant, train(2))
    answers(distant, train(3))
    given = {(name, number): seconds for number, (name, kind, seconds) in enumerate(silos.sent) if kind == "Train"}
    by_name = {name: [seconds for (silo, _), seconds in given.items() if silo == name] for name in NAMES}
    assert by_name["ash"] == [3600, LEAST, LEAST]
    assert by_name["birch"] == [3600, PATIENCE * 100, PATIENCE * 100]
    assert by_name["cedar"] == [3600, 3600, 3600]  # the contract's limit, whatever the pace


def test_the_pace_of_a_silo_is_one_for_each_kind_of_question() -> None:
    silos = Scripted()
    distant = to(silos)
    silos.took = dict.fromkeys(NAMES, 200.0)
    answers(distant, train())
    silos.took = dict.fromkeys(NAMES, 1.0)
    answers(distant, asks.measure("run", 1, range(3), None))
    answers(distant, asks.measure("run", 2, range(3), None))
    assert [seconds for name, kind, seconds in silos.sent if (name, kind) == ("ash", "Measure")] == [3600, LEAST]


def test_an_absence_is_no_pace() -> None:
    silos = Scripted()
    distant = to(silos, QUORUM)
    silos.took["cedar"] = 3000.0
    silos.answer = lambda name, message: Away("no answer") if (name, type(message)) == ("cedar", Train) else None
    answers(distant, train())
    silos.answer, silos.took["cedar"] = lambda name, message: None, 1.0
    answers(distant, train(2))
    assert [seconds for name, kind, seconds in silos.sent if (name, kind) == ("cedar", "Train")] == [3600, 3600]


def away_for(times: int, who: str = "cedar", kind: type[Message] = Train) -> Callable[[str, Message], Away | None]:
    left = [times]

    def answer(name: str, message: Message) -> Away | None:
        if name != who or not isinstance(message, kind) or not left[0]:
            return None
        left[0] -= 1
        return Away("no sign of life")

    return answer


def test_where_all_are_waited_for_only_the_missing_one_is_asked_again() -> None:
    silos, told = Scripted(), list[Event]()
    silos.answer = away_for(7)
    found = answers(to(silos, events=told.append), train())
    assert all(isinstance(answer, Upload) for answer in found.values()) and len(found) == 3
    assert kinds(silos, "ash").count("Train") == 1 and kinds(silos, "cedar").count("Train") == 8
    assert [(event.silo, event.words) for event in told] == [("cedar", "absent: no sign of life")]  # said once


def test_with_a_quorum_the_missing_are_left_out_once_enough_have_come() -> None:
    silos = Scripted()
    silos.answer = away_for(99)
    found = answers(to(silos, QUORUM), train(needed=2))
    assert found[2] == Failed("run", 1, 2, "absent", "absent: no sign of life")
    assert kinds(silos, "cedar").count("Train") == 1


def test_below_its_quorum_a_round_waits_for_the_missing() -> None:
    silos = Scripted()
    silos.answer = away_for(3)
    found = answers(to(silos, QUORUM), train(needed=3))
    assert isinstance(found[2], Upload) and kinds(silos, "cedar").count("Train") == 4


def test_who_has_left_is_nobody_to_wait_for_and_nobody_to_count() -> None:
    silos = Scripted()
    silos.answer = lambda name, message: Left("run", 0, 0) if name == "ash" else None
    found = answers(to(silos), train())
    assert isinstance(found[0], Left) and kinds(silos, "ash") == ["Propose"]
    silos.answer = lambda name, message: (
        Left(*message[:3]) if name == "ash" else Away("away") if name == "cedar" and silos.now < 60 else None
    )
    assert isinstance(answers(to(silos, QUORUM), train(needed=2))[2], Upload)  # ash does not make two


def test_a_run_is_given_up_when_its_limit_is_over_with_names_and_reasons() -> None:
    silos = Scripted()
    silos.answer = away_for(9999)
    with pytest.raises(LostWorker, match=r"has waited 90\d s, .* for cedar: absent: no sign of life: see to them"):
        answers(to(silos), train())
    assert 900 < silos.now < 920


def test_the_same_trouble_five_times_in_a_row_is_somebodys_to_mend() -> None:
    silos = Scripted()
    silos.answer = lambda name, message: (
        Failed(*message[:3], "code", "no\n room") if name == "birch" and isinstance(message, Train) else None
    )
    with pytest.raises(
        InputError, match=r"silo birch: no room \(5 times in a row\): see state/worker.log at the silo, mend it"
    ):
        answers(to(silos), train())
    assert kinds(silos, "birch").count("Train") == TRIES
    silos.sent.clear()
    found = answers(to(silos, QUORUM), train(needed=2))
    assert isinstance(found[1], Failed) and found[1].blame == "absent"


def test_a_silo_whose_disk_is_full_is_waited_for_as_one_that_is_away() -> None:
    silos, left = Scripted(), [TRIES + 3]

    def answer(name: str, message: Message) -> Answer | None:
        if name != "birch" or not isinstance(message, Train) or not left[0]:
            return None
        left[0] -= 1
        return failure(message, DiskFull("no room"))

    silos.answer = answer
    assert isinstance(answers(to(silos), train())[1], Upload)
    assert kinds(silos, "birch").count("Train") == TRIES + 4
    left[0] = 10**6
    with pytest.raises(LostWorker, match="which is its limit, for birch: no room"):
        answers(to(silos), train())


def test_under_a_quorum_a_trouble_that_does_not_pass_ends_nothing_while_others_may_come() -> None:
    """Two are needed: one cannot, one can, and one is only away for a while."""
    silos, away = Scripted(), away_for(TRIES + 3)

    def answer(name: str, message: Message) -> Answer | bytes | Away | None:
        if name == "birch" and isinstance(message, Train):
            return Failed(*message[:3], "code", "no room")
        return away(name, message)

    silos.answer = answer
    found = answers(to(silos, QUORUM), train(needed=2))
    assert isinstance(found[0], Upload) and isinstance(found[2], Upload)
    assert found[1] == Failed("run", 1, 1, "absent", "no room") and kinds(silos, "birch").count("Train") > TRIES
    with pytest.raises(InputError, match=r"silo birch: no room \(5 times in a row\)"):
        answers(to(silos, QUORUM), train(needed=3))


def test_troubles_that_pass_are_not_counted_together() -> None:
    silos, asked = Scripted(), [0]

    def answer(name: str, message: Message) -> Answer | None:
        if name == "birch" and isinstance(message, Train):
            asked[0] += 1
            if asked[0] % TRIES:
                return Failed(*message[:3], "input", "no room")
        return None

    silos.answer = answer
    distant = to(silos)
    for round in (1, 2, 3):
        assert isinstance(answers(distant, train(round))[1], Upload)


def test_a_silo_that_declines_the_plan_is_missing_with_its_words() -> None:
    silos = Scripted()
    silos.answer = lambda name, message: (
        Declined(*message[:3], "not before Monday") if (name, type(message)) == ("ash", Propose) else None
    )
    found = answers(to(silos, QUORUM), train(needed=2))
    assert found[0] == Failed("run", 1, 0, "absent", "declined: not before Monday") and kinds(silos, "ash") == [
        "Propose"
    ]


def hello() -> Outbox:
    return asks.hello("run", 4, range(3), {})


def commit() -> Outbox:
    return asks.commit("run", 4, dict.fromkeys(range(3), "accepted"))


@pytest.mark.parametrize("ask", [hello, commit], ids=["Hello", "Commit"])
@pytest.mark.parametrize(
    "lie",
    [
        b"",
        b"\x00" * 99,
        Done("run", 4, 1),
        Done("another", 4, 0),
        Standing("another", 4, 0, None, ""),
        Measured("run", 4, 0, 5, 50.0, 1.0, {}),
        Upload("run", 4, 0, {}),
        Done("run", 3, 0),
    ],
    ids=["nothing", "garbage", "another's", "another run", "another's run", "a score", "an upload", "another round"],
)
def test_answers_to_other_questions_are_trouble(ask: Callable[[], Outbox], lie: Answer | bytes) -> None:
    silos = Scripted()
    silos.answer = lambda name, message: lie if name == "ash" and not isinstance(message, Propose) else None
    found = answers(to(silos, QUORUM), ask())
    assert isinstance(found[0], Failed) and found[0].blame == "absent"
    assert isinstance(found[1], Standing if ask is hello else Done)
    with pytest.raises(InputError, match=r"silo ash: .* \(5 times in a row\)"):
        answers(to(silos), ask())


@pytest.mark.parametrize("lie", [Measured("run", 3, 0, 5, 99.0, 1.0, {}), Done("run", 4, 0), b"no"], ids=repr)
def test_a_score_that_is_none_keeps_nobody_waiting(lie: Answer | bytes) -> None:
    silos = Scripted()
    silos.answer = lambda name, message: lie if name == "ash" and isinstance(message, Measure) else None
    found = answers(to(silos), asks.measure("run", 4, range(3), None))
    assert isinstance(found[0], Failed) and found[0].blame == "upload" and isinstance(found[1], Measured)


def test_what_a_silo_says_of_its_trouble_is_one_short_line() -> None:
    silos = Scripted()
    silos.answer = lambda name, message: Failed(*message[:3], "input", "x\n" * 9999) if name == "ash" else None
    found = answers(to(silos, QUORUM), train(needed=2))
    assert isinstance(found[0], Failed) and len(found[0].words) <= 500 and "\n" not in found[0].words


def test_a_run_that_is_stopped_sends_nothing_more() -> None:
    silos = Scripted()

    def answer(name: str, message: Message) -> None:
        silos.stopped = silos.stopped or isinstance(message, Commit)

    silos.answer = answer
    with pytest.raises(LostWorker, match="the run was stopped at the server"):
        answers(to(silos), commit())


def test_notice_is_given_of_each_message_and_each_answer() -> None:
    silos, seen = Scripted(), list[tuple[str, str, str]]()

    def notice(name: str, kind: type[Message], answer: Answer | None) -> None:
        seen.append((name, kind.__name__, type(answer).__name__))

    answers(to(silos, notice=notice), train(who=range(1)))
    assert seen == [
        ("ash", "Propose", "NoneType"),
        ("ash", "Propose", "Standing"),
        ("ash", "Train", "NoneType"),
        ("ash", "Train", "Upload"),
    ]
