"""Tensors that a silo holds are not sent again, whatever else they come with; one that has forgotten them gets them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from networks import Pauses, trial_of
from small import same

from amity.contract import Download, State
from amity.federation import carrier as asks
from amity.federation.audit import entries, verify
from amity.federation.distant import Distant, Manners
from amity.federation.encoding import Unheld, decode, encode, title
from amity.federation.held import LEAST, LastTensors, down_of
from amity.federation.letters import Letters
from amity.federation.messages import (
    Answer,
    Done,
    Failed,
    Forgotten,
    Keep,
    Measure,
    Measured,
    Message,
    Propose,
    Standing,
    Train,
    Upload,
)
from amity.federation.narrowing import Wire
from amity.federation.transport import Letter, sha256

NAMES = ["ash", "birch"]
SIZE = 4 * LEAST  # bytes of a model


def model(value: float) -> State:
    return {"params": torch.full((LEAST,), value), "count": torch.tensor(3)}


class Holding:
    """Silos that hold what they were sent last; what each was sent, and how many bytes that took."""

    stopped = False

    def __init__(self) -> None:
        self.held = {name: LastTensors() for name in NAMES}
        self.got: list[tuple[str, Message, int]] = []
        self.never = False  # hold anything

    def send(self, letters: Mapping[str, Letter], seconds: Mapping[str, float]) -> Iterator[tuple[str, bytes]]:
        for name in letters:
            content = bytes(letters[name])
            assert content == bytes(letters[name])  # also when it is looked up again
            try:
                message = decode(content, (lambda letter: None) if self.never else self.held[name].find)
            except Unheld as error:
                yield name, encode(Forgotten(*error.head))
                continue
            assert isinstance(message, Message)
            self.held[name].hold(sha256(content), message)
            self.got.append((name, message, len(content)))
            yield name, encode(answer_to(message))

    def last(self, name: str) -> tuple[Message, int]:
        return next((message, size) for silo, message, size in reversed(self.got) if silo == name)


def answer_to(message: Message) -> Answer:
    match message:
        case Propose():
            return Standing(*message[:3], None, "")
        case Train():
            return Upload(*message[:3], {"params": torch.ones(2)})
        case Measure():
            return Measured(*message[:3], 5, 50.0, 1.0, {})
    return Done(*message[:3])


def to(silos: Any, wire: Wire = "float32") -> Distant:
    return Distant(
        NAMES,
        silos,
        Manners("wait", 3600, 900, wire),
        introduce=lambda client: Propose("run", 0, client, "{}"),
        events=lambda event: None,
        notice=lambda name, kind, answer: None,
        pause=lambda seconds: None,
    )


def asked(distant: Distant, messages: asks.Outbox) -> asks.Outbox:
    for _, answer in distant.ask(messages):
        assert not isinstance(answer, Failed), answer
    return messages


@pytest.mark.parametrize("wire", ["float32", "float16"])
def test_what_was_evaluated_is_not_sent_again_to_train_from(wire: Wire) -> None:
    silos = Holding()
    distant = to(silos, wire)
    down = Download(model(1.5), {})
    assert asked(distant, asks.measure("run", 4, [0, 1], down)).spared == 0
    again = Download({key: value.clone() for key, value in model(1.5).items()}, {})  # equal, and elsewhere in memory
    for messages in (asks.keep("run", 4, [0, 1], again), asks.train("run", 5, [0, 1], again)):
        assert asked(distant, messages).spared == 2 * (SIZE + 8)
        for name in NAMES:
            message, size = silos.last(name)
            assert size < 500 and same(down_of(message) or {}, silos.held[name].find(silos.held[name]._letter) or {})


def test_other_tensors_are_sent() -> None:
    silos = Holding()
    distant = to(silos)
    for round, value in enumerate((1.0, 2.0, 1.0), 1):
        messages = asked(distant, asks.train("run", round, [0, 1], Download(model(value), {})))
        message, size = silos.last("birch")
        assert (
            messages.spared == 0 and size > SIZE and isinstance(message, Train) and message.down["params"][0] == value
        )


def test_each_silo_is_sent_its_own() -> None:
    silos = Holding()
    distant = to(silos)
    rows = torch.stack([torch.full((LEAST,), 1.0), torch.full((LEAST,), 2.0)])
    for spared in (0, 2 * SIZE):
        messages = asked(distant, asks.measure("run", 1, [0, 1], Download({}, {"params": rows.clone()})))
        assert messages.spared == spared
        for value, name in enumerate(NAMES, 1):
            message, _ = silos.last(name)
            assert isinstance(message, Measure) and message.down is not None and message.down["params"][7] == value


def test_a_silo_that_was_started_anew_is_sent_everything() -> None:
    silos = Holding()
    distant = to(silos)
    down = Download(model(1.0), {})
    asked(distant, asks.measure("run", 1, [0, 1], down))
    silos.held["ash"] = LastTensors()
    assert asked(distant, asks.train("run", 2, [0, 1], down)).spared == SIZE + 8  # at the other one
    assert silos.last("ash")[1] > SIZE > silos.last("birch")[1]
    assert asked(distant, asks.keep("run", 2, [0, 1], down)).spared == 2 * (SIZE + 8)


def test_a_silo_that_forgets_what_it_was_just_sent_is_in_trouble() -> None:
    class Forgetful(Holding):
        def send(self, letters: Mapping[str, Letter], seconds: Mapping[str, float]) -> Iterator[tuple[str, bytes]]:
            for name, content in list(letters.items()):
                found = title(bytes(content))
                known = found.kind == "Propose"
                yield (
                    name,
                    encode(
                        Standing(found.run, 0, NAMES.index(name))
                        if known
                        else Forgotten(found.run, found.round, NAMES.index(name))
                    ),
                )

    found = dict(to(Forgetful()).ask(asks.train("run", 1, [0], Download(model(1.0), {}))))
    (answer,) = found.values()
    assert isinstance(answer, Failed) and answer.blame == "upload" and "forgotten" in answer.words


def test_few_bytes_are_always_sent() -> None:
    letters = Letters({"ash": Measure("run", 1, 0, {"params": torch.ones(9)})}, "float32")
    assert not title(bytes(letters["ash"])).letter and not letters.refers("ash") and letters.answered("ash") == 0


def test_a_reference_to_nothing_or_to_another_letter_is_not_held() -> None:
    held = LastTensors()
    held.hold("a" * 64, Keep("run", 1, 0, model(1.0)))
    held.hold("b" * 64, Measure("run", 2, 0, None))
    assert held.find("a" * 64) and held.find("b" * 64) is held.find("") is None


@pytest.mark.parametrize("lost", [False, True])
def test_record_and_audits_say_what_crossed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool) -> None:
    """Over real workers: models are the simulator's; the record and the audits of both sides agree on the bytes."""
    monkeypatch.setattr(time, "sleep", Pauses().sleep)
    trial = trial_of(tmp_path, "fedavg", rounds=3)
    size = 650 * 4
    with trial.network() as network:
        if lost:  # one silo's worker is started anew before each letter

            def before(name: str, message: Message) -> None:
                if name == trial.names[0]:
                    network.workers[0]._accounts._held = LastTensors()

            network.before = before
        trial.conduct(network)
    trial.check_models()
    silos = len(trial.names) - lost
    spared = [line.get("bytes_spared", 0) for line in trial.record.lines]
    assert spared == [0, silos * size, silos * size]
    hub = entries(trial.hub / "audit.jsonl")
    assert not verify(trial.hub / "audit.jsonl")
    whole = {entry.sha256 for entry in hub if entry.bytes > size}
    referring = [entry for entry in hub if entry.words.startswith("with the tensors of ")]
    assert referring and all(entry.words.split()[-1] in whole and entry.bytes < size for entry in referring)
    for name in trial.names:
        own = entries(trial.site(name).state / "audit.jsonl")
        assert not verify(trial.site(name).state / "audit.jsonl")
        crossed = [(entry.bytes, entry.sha256, entry.words) for entry in own if entry.what.startswith("received")]
        sent = [(e.bytes, e.sha256, e.words) for e in hub if e.silo == name and e.what.startswith("sent")]
        assert crossed == sent
        forgotten = [entry for entry in own if entry.what == "sent Forgotten"]
        assert bool(forgotten) == (lost and name == trial.names[0])
