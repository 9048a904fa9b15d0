"""Questions that a method asks silos beside their turns (`abilities.Consults`), at the server's side.

    before the next round   step by step, of all silos: they agree on a key, for example
    in a round              of those whose uploads were admitted, before the uploads become part of the server's state

An answer is admitted as an upload is: exactly the keys, shapes and types that the method declares, finite numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from amity.contract import Consults, InputError, Question, State, nbytes
from amity.federation import carrier as asks
from amity.federation.admission import Admission
from amity.federation.contact import Contact
from amity.federation.messages import Failed, Left, Told
from amity.federation.plan import Plan
from amity.federation.reports import sent_bytes
from amity.federation.robust import Guard


class Consulted(NamedTuple):
    """What silos have said in a round."""

    accepted: list[int]  # places among those that were asked to train: whose upload can be used
    answers: State  # their answers, with a leading axis
    refused: dict[int, str]  # silo -> why
    missing: dict[int, str]
    bytes_up: int = 0
    bytes_down: int = 0


class _Heard(NamedTuple):
    """What came of one question."""

    values: dict[int, State]  # silo -> its answer
    refused: dict[int, str]
    missing: dict[int, str]


def agree(contact: Contact, plan: Plan, server: State, number: int, here: Sequence[int]) -> tuple[State, int, int]:
    """Ask what a method asks before a round can begin; the server's new state comes back, with bytes up and down."""
    method, up, down, step = plan.method, 0, 0, 0
    if not isinstance(method, Consults):
        return server, 0, 0
    while (question := method.opening(server, step, list(here))) is not None:
        heard = _ask(contact, plan, method, number, question)
        for client, why in (heard.refused | heard.missing).items():
            raise InputError(
                f"silo {contact.names[client]} does not agree with the others on a key ({why}): begin anew"
            )
        answers = _stacked(heard, question.who)
        server = method.opened(server, question.who, answers)
        up, down, step = up + nbytes(answers), down + sent_bytes(question.down, len(question.who)), step + 1
    return server, up, down


def consult(
    contact: Contact, plan: Plan, server: State, number: int, asked: Sequence[int], accepted: list[int], shelf: Guard
) -> Consulted:
    """Ask what a method asks about the uploads of a round; anew for the others where a silo does not answer."""
    method, up, down = plan.method, 0, 0
    refused: dict[int, str] = {}
    missing: dict[int, str] = {}
    while accepted and isinstance(method, Consults):
        clients = [asked[place] for place in accepted]
        question = method.question(server, clients, shelf.look(accepted))
        if question is None:
            break
        heard = _Heard({}, dict(question.refused), {})
        if not heard.refused:
            heard = _ask(contact, plan, method, number, question)
            up += sum(nbytes(values) for values in heard.values.values())
            down += sent_bytes(question.down, len(question.who))
        refused |= heard.refused
        missing |= heard.missing
        if len(heard.values) == len(clients):
            contact.tell_about("refused", number, refused)
            return Consulted(accepted, _stacked(heard, clients), refused, missing, up, down)
        accepted = [place for place in accepted if asked[place] not in heard.refused.keys() | heard.missing.keys()]
    contact.tell_about("refused", number, refused)
    return Consulted(accepted, {}, refused, missing, up, down)


def _ask(contact: Contact, plan: Plan, method: Consults, number: int, question: Question) -> _Heard:
    """Answers to a question, those that can be used, and why the others cannot."""
    admission = Admission(method.answer_kinds(plan.fed, question.down))
    near = set(contact.near(question.who))
    away = {client: "it has not come back" for client in question.who if client not in near}
    heard = _Heard({}, {}, away)
    messages = asks.question(plan.run, number, question.who, question.down).without(away)
    for (client,), answer in contact.answers(messages):
        if isinstance(answer, Left) or (isinstance(answer, Failed) and answer.blame == "absent"):
            heard.missing[client] = "it has left" if isinstance(answer, Left) else answer.words
        elif not isinstance(answer, Told) or answer.run != plan.run or answer.round != number:
            words = answer.words if isinstance(answer, Failed) else "upload refused: it answers another question"
            heard.refused[client] = words
        elif (wrong := admission.refused(answer.values)) is not None:
            heard.refused[client] = wrong
        else:
            heard.values[client] = answer.values
    return heard


def _stacked(heard: _Heard, who: Sequence[int]) -> State:
    """Answers with a leading axis."""
    first = heard.values[who[0]]
    return {key: torch.stack([heard.values[client][key] for client in who]) for key in first}
