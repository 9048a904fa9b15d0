"""Silos that lie: what they send is refused or taken for an absence, and the others go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from networks import check_equal, trial_of

from amity.config.participation import Participation
from amity.contract import Federation
from amity.federation import server as server_side
from amity.federation.encoding import decode, encode
from amity.federation.messages import (
    Answer,
    Commit,
    Described,
    Hello,
    Keep,
    Measure,
    Measured,
    Message,
    Standing,
    Train,
    Upload,
)
from amity.federation.participation import Lot, draw

AWAY = "silo-02"
TWO_OF_THREE = {"policy": "quorum", "quorum": 2}


def changed(**how: Any) -> Any:
    return lambda answer: encode(answer._replace(**how))


def upload_with(change: Any) -> Any:
    return lambda answer: encode(answer._replace(values={**answer.values, "params": change(answer.values["params"])}))


LIES = {
    "garbage": (lambda answer: b"\x00" * 50, "it cannot be read"),
    "nothing": (lambda answer: b"", "it cannot be read"),
    "cut short": (lambda answer: encode(answer)[:-9], "it cannot be read"),
    "another silo's number": (changed(silo=0), "it is no answer of this silo's own"),
    "a message": (lambda answer: encode(Hello("trial", 2, 1)), "it is no answer of this silo's own"),
    "another run": (changed(run="another"), "it answers another question"),
    "another round": (changed(round=1), "it answers another question"),
    "a score": (lambda answer: encode(Measured("trial", 2, 1, 5, 1.0, 1.0, {})), "it answers another question"),
    "a standing": (lambda answer: encode(Standing("trial", 2, 1)), "it answers another question"),
    "another shape": (upload_with(lambda value: value[:-1]), "has the shape"),
    "another type": (upload_with(lambda value: value.double()), "is float64, not float32"),
    "not a number": (upload_with(lambda value: value * torch.nan), "not finite"),
    "infinite": (upload_with(lambda value: value / 0), "not finite"),
    "no tensors": (changed(values={}), "is missing"),
    "more tensors": (
        lambda answer: encode(answer._replace(values={**answer.values, "more": torch.ones(3)})),
        "is not part of it",
    ),
}


def without_its_upload(rule: Participation, fed: Federation, round: int, left: frozenset[int]) -> Lot:
    """Lose the upload of silo-01 in round 2, and nothing else."""
    lot = draw(rule, fed, round, left)
    return lot._replace(lost=frozenset([1]), dropped={1: "lost"}) if round == 2 else lot


# Under a quorum the others' models are compared too; where all are waited for, one lie shows what becomes of a round.
@pytest.mark.parametrize(
    ("lie", "policy"),
    [
        pytest.param(lie, policy, marks=[] if policy == "quorum" or place == 0 else pytest.mark.slow)
        for place, lie in enumerate(LIES)
        for policy in ("wait", "quorum")
    ],
)
def test_an_upload_that_is_a_lie_is_refused_and_harms_nobody_else(
    lie: str, policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = trial_of(tmp_path, "fedavg-local", terms={"policy": policy, "quorum": 2 if policy == "quorum" else 3})
    make, why = LIES[lie]
    with trial.network() as network:

        def after(name: str, message: Message, answer: bytes) -> bytes:
            found = decode(answer)
            lies = name == "silo-01" and isinstance(message, Train) and message.round == 2
            assert not lies or isinstance(found, Upload)
            return make(found) if lies else answer

        network.after = after
        trial.conduct(network)
    line = trial.record.lines[1]
    assert line["took_part"] == ["silo-00", "silo-02"] and why in line["dropped"]["silo-01"], line["dropped"]
    assert any(event.what == "refused" and event.silo == "silo-01" for event in trial.record.events)
    assert [len(other["took_part"]) for other in trial.record.lines] == [3, 2, 3]
    assert trial.phase == "ended", trial.status["words"]
    if policy == "quorum":
        monkeypatch.setattr(server_side, "draw", without_its_upload)
        wanted = trial.simulated()
        for name in ("silo-00", AWAY):
            check_equal(wanted.model(name).state_dict(), trial.model(name), name)


@pytest.mark.parametrize("kind", [Hello, Commit, Measure, Keep], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("lie", ["garbage", "another silo's number", "another run", "a score of another round"])
def test_other_lies_are_absences_where_silos_may_be_missing(kind: type[Message], lie: str, tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg", terms=TWO_OF_THREE)
    make = LIES[lie][0] if lie in LIES else lambda answer: encode(Measured("trial", 7, 1, 5, 99.0, 1.0, {}))
    with trial.network() as network:

        def after(name: str, message: Message, answer: bytes) -> bytes:
            found = decode(answer)
            assert isinstance(found, Answer)
            return make(found) if name == "silo-01" and isinstance(message, kind) else answer

        network.after = after
        trial.conduct(network)
    assert [line["took_part"][0] for line in trial.record.lines] == ["silo-00"] * 3
    assert trial.steps["silo-00"] == trial.steps[AWAY] == "finished"
    if kind is Measure:
        assert all((line["accuracy"] or [0])[1] is None for line in trial.record.lines)  # and never 99
    if kind in (Measure, Commit):  # what it has not confirmed is settled when it is greeted
        assert trial.phase == "ended", trial.status["words"]
    else:
        assert trial.phase == "incomplete" and "silo-01" in trial.status["words"]


def test_where_all_are_waited_for_a_lie_that_does_not_pass_ends_the_run_in_words(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg")
    with trial.network() as network:
        network.after = lambda name, message, answer: (
            b"\x00" * 9 if name == "silo-01" and isinstance(message, Hello) else answer
        )
        trial.conduct(network)
    assert trial.phase == "failed" and network.rounds_sent(Train, "silo-00") == []
    assert "silo silo-01: " in trial.status["words"] and "(5 times in a row)" in trial.status["words"]


@pytest.mark.parametrize(
    "member",
    [
        "no line",
        "[]",
        '{"name": "silo-01"}',
        {"shape": [5]},
        {"classes": 3},
        {"size": "many"},
        {"size": -4},
        {"group": "x"},
        {"more": 1},
    ],
    ids=str,
)
def test_a_silo_that_describes_itself_as_nobody_is_not_taken_in(member: Any, tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg", terms=TWO_OF_THREE)
    with trial.network() as network:

        def after(name: str, message: Message, answer: bytes) -> bytes:
            found = decode(answer)
            if name != "silo-01" or not isinstance(found, Described):
                return answer
            text = member if isinstance(member, str) else json.dumps({**json.loads(found.member), **member})
            return encode(found._replace(member=text))

        network.after = after
        trial.conduct(network)
    assert [line["took_part"] for line in trial.record.lines] == [["silo-00", AWAY]] * 3
    silo = trial.status["silos"]["silo-01"]
    assert silo["rounds"] == 0 and trial.steps["silo-00"] == "finished"
