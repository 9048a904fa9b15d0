"""Questions beside turns: who does not answer is left out of the round, and a key needs everybody."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from methods.blind_methods import blind
from small import fresh_task, plan_of, silos

from amity.contract import Consults, InputError
from amity.engines.memory import Memory, Wire, wired
from amity.federation.encoding import decode, encode
from amity.federation.events import Event
from amity.federation.messages import Answer, Ask, Done, Failed, Left, Message
from amity.federation.plan import Plan
from amity.federation.server import ServerSide
from amity.federation.silo import SiloSide
from amity.methods import build


def served(
    change: Callable[[Message], Answer | None], method: str = "fedamp", rounds: int = 2
) -> tuple[ServerSide, dict[int, SiloSide], list[Event]]:
    """A server whose silo 1 answers something else where `change` says so."""
    plan, hosted = plan_of(blind(method), at=silos(3), on=fresh_task(), rounds=rounds, epochs=1)
    sides = {client: SiloSide(plan, client, one) for client, one in hosted.items()}
    wires: dict[int, Wire] = {client: wired(side) for client, side in sides.items()}
    honest = wires[1]

    def other(content: bytes) -> bytes:
        message = decode(content)
        assert isinstance(message, Message)
        answer = change(message)
        return honest(content) if answer is None else encode(answer)

    wires[1] = other
    events: list[Event] = []
    return ServerSide(plan, Memory(plan, wires=wires), events=events.append), sides, events


def products(message: Message) -> bool:
    return isinstance(message, Ask) and "products" in message.down


def test_a_silo_that_does_not_answer_counts_as_dropped_and_the_others_are_asked_anew() -> None:
    def change(message: Message) -> Answer | None:
        return Failed(*message[:3], "absent", "it is away") if products(message) and message.round == 1 else None

    server, sides, _ = served(change)
    first, second = server.rounds()
    assert first.took_part == [0, 2] and first.dropped == {1: "it is away"}
    assert not first.progress.server["heard"][1] and first.progress.server["gram"][1].abs().sum() == 0
    gram = first.progress.server["gram"]
    moved = [sides[i].state["params"] for i in (0, 2)]
    assert gram[0, 2] != 0 and len(moved) == 2
    assert second.took_part == [0, 1, 2] and not second.dropped  # it is back
    start = fresh_task().initial(server.plan.fed)["params"]
    moved = [side.state["params"] - start for side in sides.values()]
    true = torch.stack(moved) @ torch.stack(moved).T
    assert torch.allclose(second.progress.server["gram"], true, atol=1e-4)


def test_a_silo_that_leaves_in_the_middle_of_a_round_is_left_out_of_it() -> None:
    server, _, events = served(lambda message: Left(*message[:3]) if products(message) else None, rounds=1)
    (report,) = server.rounds()
    assert report.took_part == [0, 2] and report.dropped == {1: "it has left"}
    assert ("left", "1") in [(event.what, event.silo) for event in events]


def test_an_answer_to_another_question_is_refused() -> None:
    server, _, events = served(lambda message: Done(*message[:3]) if products(message) else None, rounds=1)
    (report,) = server.rounds()
    assert report.took_part == [0, 2] and report.dropped == {1: "upload refused: it answers another question"}
    assert [event.words for event in events if event.what == "refused"] == [report.dropped[1]]


@pytest.mark.parametrize("key", ["public", "box"])
def test_a_key_needs_everybody(key: str) -> None:
    def change(message: Message) -> Answer | None:
        return (
            Failed(*message[:3], "absent", "it is away") if isinstance(message, Ask) and key in message.down else None
        )

    server, _, _ = served(change)
    with pytest.raises(InputError, match=r"silo 1 does not agree with the others on a key \(it is away\)"):
        list(server.rounds())


def test_bytes_of_questions_and_answers_are_on_record() -> None:
    server, _, _ = served(lambda message: None)
    first, second = server.rounds()
    method = server.plan.method
    assert isinstance(method, Consults)
    keys = len(first.progress.server["keys"])
    assert keys < first.bytes_up - second.bytes_up < 2 * keys  # the boxes with the key come on top, and little else
    question = 3 * 1 * 262_660  # three pairs, one for each silo
    assert question < second.bytes_down < 1.5 * question + 3 * 140_000


def test_a_method_without_questions_answers_none() -> None:
    plan, hosted = plan_of(build("fedavg"), at=silos(2))
    side = SiloSide(plan, 0, hosted[0])
    with pytest.raises(InputError, match="FedAvg asks silos nothing beside their turns"):
        side.answer(Ask(Plan(*plan).run, 1, 0, {"public": torch.tensor(True)}))
