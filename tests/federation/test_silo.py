"""A silo's side: verdicts by hand, answers to the wrong questions, and what the two sides settle after a crash."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small import copied, opened, plan_of, same

from amity.contract import State, Turn
from amity.engines.memory import Memory, answered, wired
from amity.errors import InputError
from amity.federation.encoding import decode, encode
from amity.federation.events import Event
from amity.federation.messages import (
    Commit,
    Failed,
    Hello,
    Joined,
    Keep,
    Measure,
    Measured,
    Standing,
    Train,
    Upload,
    Verdict,
)
from amity.federation.plan import layout_of
from amity.federation.reports import Progress
from amity.federation.resume import begin
from amity.federation.server import ServerSide
from amity.federation.silo import SiloSide
from amity.learn.task import Task
from amity.methods.fedavg import FedAvg


def side(method: str = "scaffold", client: int = 2) -> tuple[SiloSide, Train]:
    """A silo, and the question of round 1."""
    plan, at = plan_of(method, epochs=1)
    server = plan.method.init_server(plan.task, plan.fed)
    down = plan.method.download(server, torch.arange(5), 1, lambda role, key: torch.Generator())
    return SiloSide(plan, client, at[client]), Train(plan.run, 1, client, down.to(client))


@pytest.mark.parametrize("verdict", ["accepted", "lost", "refused"])
def test_a_turn_is_pending_until_its_verdict(verdict: Verdict) -> None:
    silo, ask = side()
    first = copied(silo.state)
    answer = silo.answer(ask)
    assert isinstance(answer, Upload) and answer[:3] == ("run", 1, 2) and silo.committed == 0
    assert same(silo.state, first) and silo.pending is not None
    after = copied(silo.pending.after)
    assert not same(after, first) and not torch.equal(after["control"], first["control"])
    silo.answer(Commit("run", 1, 2, verdict))
    paired = {key: first[key] for key in silo.plan.method.paired}
    assert paired.keys() == {"control"}
    assert same(silo.state, {"accepted": after, "lost": {**after, **paired}, "refused": first}[verdict])
    assert silo.committed == 1 and silo.pending is None


def test_verdicts_on_other_rounds_and_a_second_one_are_refused() -> None:
    silo, ask = side()
    with pytest.raises(InputError, match="silo cedar has none to commit, got a verdict on round 1"):
        silo.answer(Commit("run", 1, 2, "accepted"))
    silo.answer(ask)
    with pytest.raises(InputError, match="silo cedar has one of round 1 to commit, got a verdict on round 2"):
        silo.answer(Commit("run", 2, 2, "accepted"))
    silo.answer(Commit("run", 1, 2, "accepted"))
    state = copied(silo.state)
    with pytest.raises(InputError, match="silo cedar has none to commit, got a verdict on round 1"):
        silo.answer(Commit("run", 1, 2, "refused"))
    with pytest.raises(InputError, match="silo cedar has committed round 1, got round 1 to train again"):
        silo.answer(ask)
    assert same(silo.state, state) and silo.pending is None


def test_a_question_that_comes_again_before_the_verdict_gets_the_same_answer() -> None:
    silo, ask = side()
    one, two = silo.answer(ask), silo.answer(ask)
    assert isinstance(one, Upload) and isinstance(two, Upload) and same(one.values, two.values)


@pytest.mark.parametrize("change", [{"run": "another"}, {"silo": 3}])
def test_messages_of_other_runs_and_to_other_silos_are_refused(change: dict[str, Any]) -> None:
    silo, ask = side()
    for message in (ask, Commit("run", 1, 2, "accepted"), Measure("run", 0, 2, None), Keep("run", 0, 2, None)):
        with pytest.raises(InputError, match="silo cedar is number 2 of run 'run', got a message to number"):
            silo.answer(message._replace(**change))
    assert silo.pending is None and silo.committed == 0 and silo.kept is None


class Lying(Memory):
    """Silo 1 answers something else than it was asked."""

    lie: Any = None

    def ask(self, messages: Any) -> Any:
        for clients, answer in super().ask(messages):
            lies = isinstance(answer, Upload) and clients == (1,)
            yield clients, self.lie(answer) if lies else answer


@pytest.mark.parametrize(
    "lie",
    [
        lambda upload: upload._replace(round=upload.round - 1),
        lambda upload: upload._replace(run="another"),
        lambda upload: Measured(upload.run, upload.round, upload.silo, 1, 50.0, 1.0, {}),
        lambda upload: Standing(*upload[:3]),
    ],
    ids=["a replay", "of another run", "a score", "a standing"],
)
def test_answers_to_other_questions_are_refused(lie: Any) -> None:
    plan, at = plan_of("fedavg-local", epochs=1, rounds=2)
    with Lying(plan, at) as carrier:
        carrier.lie = lie
        first = copied(carrier.silos[1].state)
        for report in begin(plan, carrier).rounds():
            assert report.took_part == [0, 2, 3, 4]
            assert report.dropped == {1: "upload refused: it answers another question"}
            assert same(carrier.silos[1].state, first) and carrier.silos[1].committed == report.round


def test_an_answer_of_another_silo_stops_the_run() -> None:
    """Whoever can send in another's name is no broken silo but a broken wire."""
    plan, at = plan_of("fedavg")
    silos = {client: SiloSide(plan, client, one) for client, one in at.items()}
    wires = {client: wired(silo) for client, silo in silos.items()}
    wires[1] = lambda content: encode(decode(answered(silos[1], content))._replace(silo=0))
    with pytest.raises(InputError, match="silo 1 has sent what is no answer of its own"):
        list(ServerSide(plan, Memory(plan, wires=wires)).rounds())


def test_bytes_that_are_no_answer_are_a_refused_upload() -> None:
    plan, at = plan_of("fedavg-local", rounds=1)
    silos = {client: SiloSide(plan, client, one) for client, one in at.items()}
    wires = {client: wired(silo) for client, silo in silos.items()}

    def noisy(content: bytes) -> bytes:
        answer = answered(silos[1], content)
        return answer[:40] if isinstance(decode(content), Train) else answer

    wires[1] = noisy
    (report,) = ServerSide(plan, Memory(plan, wires=wires)).rounds()
    assert report.dropped.keys() == {1} and report.dropped[1].startswith("upload refused: it cannot be read (")


# After a crash


def stands(silo: SiloSide, committed: int) -> Standing:
    """What a silo says that has committed this round and has nothing pending."""
    return Standing("run", committed, 2, None, layout_of(silo.plan))


def test_a_server_that_comes_back_tells_what_became_of_the_last_turn() -> None:
    """It had saved the round, but the silo has not heard so."""
    for verdict in ("accepted", "lost", "refused"):
        silo, ask = side()
        told, _ = side()
        told.answer(ask)
        told.answer(Commit("run", 1, 2, verdict))
        silo.answer(ask)
        assert silo.answer(Hello("run", 1, 2, 1, verdict)) == stands(silo, 1)
        assert same(silo.state, told.state)
        assert silo.answer(Hello("run", 1, 2, 1, verdict)) == stands(silo, 1)  # said twice, done once
        assert same(silo.state, told.state)


def test_a_server_that_has_forgotten_a_turn_asks_again() -> None:
    """It crashed before it had saved the round: the silo forgets its turn and takes it anew."""
    silo, ask = side()
    first, upload = copied(silo.state), silo.answer(ask)
    assert silo.answer(Hello("run", 0, 2)) == stands(silo, 0)
    assert silo.pending is None and same(silo.state, first)
    again = silo.answer(ask)
    assert isinstance(upload, Upload) and isinstance(again, Upload) and same(upload.values, again.values)


def test_a_silo_that_comes_back_says_where_it_stands() -> None:
    silo, ask = side()
    silo.answer(ask)
    silo.answer(Commit("run", 1, 2, "accepted"))
    state = copied(silo.state)
    fresh, _ = side()
    fresh.begin(state, 1)
    assert fresh.answer(Hello("run", 1, 2, 1, "accepted")) == stands(fresh, 1) and same(fresh.state, state)
    with pytest.raises(InputError, match="has committed round 1, got round 1 to train again"):
        fresh.answer(ask)


def test_a_server_older_than_its_silos_is_told_so() -> None:
    silo, ask = side()
    silo.answer(ask)
    silo.answer(Commit("run", 1, 2, "accepted"))
    with pytest.raises(InputError, match="has committed round 1, the server has saved round 0 only: bring back"):
        silo.answer(Hello("run", 0, 2))
    failed = silo.safely(Hello("run", 0, 2))
    assert isinstance(failed, Failed) and failed.blame == "input"


def test_what_goes_wrong_is_said_by_message() -> None:
    silo, ask = side()
    silo.plan = silo.plan._replace(method=None)  # type: ignore[arg-type]
    failed = silo.safely(ask)
    assert isinstance(failed, Failed) and failed.blame == "code" and "silo cedar, round 1" in failed.words


def test_the_server_saves_before_any_silo_is_told() -> None:
    saved: list[tuple[Progress, list[int]]] = []
    plan, at = plan_of("fedavg-local", rounds=2)
    with opened("memory")(plan, at) as carrier:
        hosted = carrier.silos  # type: ignore[attr-defined]
        server = ServerSide(
            plan,
            carrier,
            save=lambda so_far: saved.append((so_far.progress, [one.committed for one in hosted.values()])),
        )
        list(server.rounds())
    assert [(progress.round, committed) for progress, committed in saved] == [(1, [0] * 5), (2, [1] * 5)]
    assert all(settled[:2] == (2, "accepted") for settled in saved[-1][0].settled.values())


def test_a_newcomer_is_told_of_between_turns_only() -> None:
    silo, ask = side()
    silo.answer(ask)
    news = Joined("run", 0, 2, "gum", 11, 1)
    with pytest.raises(InputError, match="has a turn of round 1 to commit, got a newcomer: commit it first"):
        silo.answer(news)
    silo.answer(Commit("run", 1, 2, "accepted"))
    silo.answer(news)
    assert silo.plan.fed.clients == 6


class Quoting(Exception):
    """What code raises that has seen data."""


def test_the_text_of_foreign_errors_stays_with_the_silo() -> None:
    """It is written by code that has seen the silo's data; what is told is its kind and its place."""
    silo, ask = side()

    def quote(*arguments: Any) -> Any:
        raise Quoting("patient 4711, HIV positive")

    silo.turn = quote  # type: ignore[method-assign, assignment]
    failed = silo.safely(ask)
    assert isinstance(failed, Failed) and failed.blame == "code"
    assert "4711" not in encode(failed).decode(errors="replace")
    assert "Quoting" in failed.words and "silo cedar, round 1" in failed.words


def test_a_silo_that_gives_no_account_of_its_model_keeps_nobody_from_going_on() -> None:
    plan, at = plan_of("fedavg-local", epochs=1, rounds=2)
    silos = {client: SiloSide(plan, client, one) for client, one in at.items()}
    wires = {client: wired(silo) for client, silo in silos.items()}

    def mute(content: bytes) -> bytes:
        answer = answered(silos[1], content)
        return b"nothing" if isinstance(decode(content), Measure) else answer

    wires[1] = mute
    heard: list[Event] = []
    for report in ServerSide(plan, Memory(plan, wires=wires), events=heard.append).rounds():
        assert report.scores is not None and [score.examples > 0 for score in report.scores] == [
            True,
            False,
            *[True] * 3,
        ]
        assert report.took_part == [0, 1, 2, 3, 4]
    assert [(event.round, event.silo) for event in heard if event.what == "refused"] == [(1, "1"), (2, "1")]


def test_of_code_that_fails_only_the_place_and_the_kind_are_told() -> None:
    """Its text and the notes that other code has added may quote data, or name files."""

    class Quoting(FedAvg):
        def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
            error = ZeroDivisionError("patient 4711 weighs 0 kg")
            error.add_note("in row 17 of /srv/ward-nine/patients.csv")
            raise error

    plan, at = plan_of(Quoting())
    down = plan.method.download(
        plan.method.init_server(plan.task, plan.fed), torch.arange(5), 1, lambda *_: torch.Generator()
    )
    received = wired(SiloSide(plan, 2, at[2]))(encode(Train("run", 1, 2, down.to(2))))
    assert not any(secret in received for secret in (b"4711", b"17", b"ward-nine"))
    answer = decode(received)
    assert isinstance(answer, Failed) and answer.blame == "code"
    assert answer.words == "silo cedar, round 1, Quoting: ZeroDivisionError, the silo's own log says more"
