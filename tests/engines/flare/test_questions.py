"""Questions to a process of the server's that is gone: given up when the next one tells who it is, and not before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.cell import Cell, SimpleWaiter
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.streaming.stream_types import StreamFuture

from amity.engines.flare.questions import Questions

SERVER = "server.job-1"


class Network:
    """FLARE's list of questions, with some that are open."""

    def __init__(self, *names: str, to: str = SERVER) -> None:
        self.requests_dict = {name: SimpleWaiter(name, to, "nobody has answered") for name in names}
        self.questions = Questions(lambda: self, SERVER)

    def given_up(self, name: str) -> bool:
        return bool(self.requests_dict[name].in_receiving.is_set())

    def beat(self, mark: object, *between: str) -> int:
        """A sign of life; questions may be asked between it and its answer."""
        self.questions.note()
        self.requests_dict |= {name: SimpleWaiter(name, SERVER, "nobody has answered") for name in between}
        return self.questions.heard(mark)


def test_what_the_process_before_was_asked_is_given_up() -> None:
    network = Network("a")
    assert network.beat("one") == network.beat("one") == 0 and not network.given_up("a")
    assert network.beat("two", "b") == 1 and network.given_up("a")
    assert not network.given_up("b"), "it may be the new process that was asked"
    assert network.beat("two") == 0 and not network.given_up("b")


@pytest.mark.parametrize("mark", [None, 7, "one"])
def test_nothing_is_given_up_without_a_new_mark(mark: object) -> None:
    network = Network("a")
    network.beat("one")
    assert network.beat(mark) == 0 and not network.given_up("a")


def test_questions_to_others_and_those_that_were_answered_are_left_alone() -> None:
    network = Network("a", "b", to="east")
    network.beat("one", "c")
    network.questions.note()
    answered = network.requests_dict.pop("c")
    assert network.questions.heard("two") == 0
    assert not network.given_up("a") and not network.given_up("b") and not answered.in_receiving.is_set()


def test_an_answer_that_has_begun_to_come_does_not_come_to_its_end() -> None:
    network = Network("a")
    coming = network.requests_dict["a"].receiving_future = StreamFuture(1)
    network.beat("one")
    assert network.beat("two") == 1 and coming.cancelled()


def test_another_version_of_flare_waits_as_it_did() -> None:
    questions = Questions(SimpleNamespace, SERVER)
    questions.note()
    assert questions.heard("one") == questions.heard("two") == 0


def test_flare_takes_it_for_a_question_that_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """By FLARE's own code, which would wait for a minute here."""
    cell = Cell.__new__(Cell)
    sent = StreamFuture(1)
    sent.set_result(0)
    cell.logger, cell.requests_dict = SimpleNamespace(debug=print, info=print, error=print), {}
    questions = Questions(lambda: cell, SERVER)
    questions.heard("one")

    def send(**_: object) -> StreamFuture:
        questions.note()
        questions.heard("two")
        return sent

    monkeypatch.setattr(cell, "send_blob", send)
    question = SimpleNamespace(add_headers=lambda headers: None)
    answer = cell._send_one_request("server_command", SERVER, "get_task", question, 60.0, abort_signal=Signal())
    assert answer.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.TIMEOUT
    assert not cell.requests_dict
