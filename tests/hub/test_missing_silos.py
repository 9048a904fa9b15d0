"""Silos that are away or die: the others go on as the contract says, and what a silo has trained is settled right."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from networks import MemoryNetwork, Pauses, Trial, check_equal, trial_of
from safetensors.torch import load_file
from sites import Workers

from amity.errors import LostWorker
from amity.federation.audit import entries
from amity.federation.distant import Distant
from amity.federation.encoding import decode, encode
from amity.federation.messages import (
    Commit,
    Failed,
    Hello,
    Keep,
    Measure,
    Message,
    Train,
)
from amity.federation.run_contract import Limits
from amity.federation.safe_files import checked_json
from amity.federation.transport import Away
from amity.hub.accounts import AUDIT
from amity.site.answering import Worker

AWAY, ROUNDS = "silo-02", 6
TWO_OF_THREE = {"policy": "quorum", "quorum": 2}


def state_of(trial: Trial, name: str, part: str) -> dict[str, torch.Tensor]:
    """A part of what a silo has on its disk: its state, or what its last turn began from or came to."""
    folder = trial.folders[name] / "state" / "runs" / "trial" / "state" / "current"
    return load_file(folder / f"{part}.safetensors")


def standing(trial: Trial, name: str) -> dict[str, Any]:
    folder = trial.folders[name] / "state" / "runs" / "trial" / "state" / "current"
    content: dict[str, Any] = json.loads((folder / "standing.json").read_text())
    return content


class Absence:
    """A silo that is not reached from one letter on, until a round; what was lost first is its question or answer."""

    def __init__(self, trial: Trial, network: MemoryNetwork, kind: type[Message], lost: str) -> None:
        self.trial, self.network, self.kind, self.lost = trial, network, kind, lost
        self.seen: list[tuple[str, str]] = []
        self.back = False
        network.before, network.after = self.before, self.after

    def before(self, name: str, message: Message) -> None:
        if name == AWAY and self._begins(message) and self.lost == "question":
            self.network.away[AWAY] = "no sign of life"
        if isinstance(message, Train) and message.round == 5 and AWAY in self.network.away:
            silo = self.trial.status["silos"][AWAY]
            self.seen.append((silo["step"], silo["words"]))
            self.back = True

    def after(self, name: str, message: Message, answer: bytes) -> bytes | Away:
        if name == AWAY and self._begins(message) and self.lost == "answer":
            self.network.away[AWAY] = "no sign of life"
            return Away("no sign of life")
        if self.back and isinstance(message, Measure) and message.round == 5:
            self.network.away.clear()
        return answer

    def _begins(self, message: Message) -> bool:
        return isinstance(message, self.kind) and message.round == 2 and not self.back


@pytest.mark.parametrize(
    ("kind", "lost", "verdict"),
    [
        (Commit, "question", "accepted"),
        (Commit, "answer", "accepted"),
        (Train, "answer", "lost"),
        (Train, "question", "never asked"),
        (Measure, "question", "accepted"),
    ],
    ids=["its commit", "its word on a commit", "its upload", "its turn", "its evaluation"],
)
def test_a_silo_that_is_away_for_three_rounds_comes_back_and_takes_part(
    kind: type[Message], lost: str, verdict: str, tmp_path: Path, turns: Counter[tuple[str, int]]
) -> None:
    trial = trial_of(tmp_path, "scaffold", rounds=ROUNDS, terms={**TWO_OF_THREE, "least_rounds": 2})
    with trial.network() as network:
        absence = Absence(trial, network, kind, lost)
        settled: list[dict[str, torch.Tensor]] = []

        def after(name: str, message: Message, answer: bytes) -> bytes | Away:
            if name == AWAY and isinstance(message, Hello) and message.round == 5:
                settled.append(state_of(trial, AWAY, "state"))
                settled.append(state_of(trial, AWAY, "before"))
                settled.append(state_of(trial, AWAY, "after"))
            return absence.after(name, message, answer)

        network.after = after
        trial.conduct(network)
    assert absence.seen[0] == ("absent", "no sign of life")
    took = [line["round"] for line in trial.record.lines if AWAY in line["took_part"]]
    assert took == ([1, 2, 6] if verdict == "accepted" else [1, 6])
    assert all(len(line["took_part"]) >= 2 for line in trial.record.lines)
    for line in trial.record.lines[2:5]:
        assert line["dropped"] == {AWAY: "it has not come back"} and AWAY not in line["epochs"]
    assert trial.phase == "ended", trial.status["words"]
    state, before, after_turn = settled[:3]
    assert "control" in state
    if verdict == "accepted":
        check_equal(after_turn, state, "an upload that was accepted, whose verdict came late")
    elif verdict == "lost":
        check_equal({**after_turn, "control": before["control"]}, state, "an upload that was lost")
        assert not torch.equal(after_turn["control"], before["control"])
    else:
        check_equal(after_turn, state, "what it had before")  # of its turn in round 1
        assert turns[AWAY, 2] == 0
    assert set(turns.values()) <= {0, 1} and trial.status["silos"][AWAY]["rounds"] == len(took)
    assert all(torch.isfinite(value).all() for value in trial.model(AWAY).values())


def test_a_turn_that_the_server_went_on_without_is_forgotten(tmp_path: Path, pauses: Pauses) -> None:
    """A silo has trained when the server ends; it is away when the server comes back, which goes on without it."""
    trial = trial_of(tmp_path, "scaffold", rounds=4, terms=TWO_OF_THREE)
    with trial.network() as network:

        def stop(name: str, message: Message, answer: bytes) -> bytes:
            if name == AWAY and isinstance(message, Train) and message.round == 2:
                network.stopped = True
            return answer

        network.after = stop
        with pytest.raises(LostWorker, match="the run was stopped at the server"):
            trial.conduct(network)
        assert trial.phase == "waiting" and standing(trial, AWAY)["turn"] == 2
        network.stopped, network.away = False, {AWAY: "no sign of life"}

        def back(name: str, message: Message, answer: bytes) -> bytes:
            if isinstance(message, Measure) and message.round == 2:
                network.away.clear()
            return answer

        network.after = back
        trial.conduct(network)
    assert [AWAY in line["took_part"] for line in trial.record.lines] == [True, False, True, True]
    assert trial.phase == "ended", trial.status["words"]


def test_below_the_agreed_rounds_a_run_is_no_success(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg", rounds=ROUNDS, terms={**TWO_OF_THREE, "least_rounds": 5})
    with trial.network() as network:
        Absence(trial, network, Train, "question")
        trial.conduct(network)
    assert trial.phase == "incomplete"
    assert trial.status["words"] == f"{AWAY} took part in 2 of the 5 rounds that were agreed"


def test_a_silo_that_is_away_at_the_end_is_named(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg", terms=TWO_OF_THREE)
    with trial.network() as network:

        def go(name: str, message: Message) -> None:
            if isinstance(message, Keep):
                network.away[AWAY] = "no sign of life"

        network.before = go
        trial.conduct(network)
    assert trial.phase == "incomplete"
    assert trial.status["words"] == f"{AWAY} has not got the end of the run (no sign of life)"
    assert trial.steps == {"silo-00": "finished", "silo-01": "finished", AWAY: "absent"}


@pytest.mark.parametrize("kind", [Hello, Train, Commit, Measure, Keep], ids=lambda kind: kind.__name__)
def test_where_all_are_waited_for_nothing_goes_on_without_one(
    kind: type[Message], tmp_path: Path, pauses: Pauses
) -> None:
    trial = trial_of(tmp_path, "scaffold", terms={"least_rounds": 3})
    with trial.network() as network:

        def lose(name: str, message: Message, answer: bytes) -> bytes | Away:
            if name == AWAY and isinstance(message, kind) and pauses.count < 3:
                return Away("no sign of life")
            return answer

        network.after = lose
        sent: list[int] = []
        pauses.script = [lambda: sent.append(len(network.sent))] * 3
        trial.conduct(network)
    assert pauses.count == 3 and trial.phase == "ended"
    assert [later - sooner for sooner, later in zip(sent, sent[1:], strict=False)] == [1, 1]  # it alone is asked again
    trial.check_models()
    waits = [event.words for event in trial.record.events if event.what == "waiting"]
    assert waits == ["absent: no sign of life"]


def test_a_run_that_waits_too_long_says_for_whom(
    tmp_path: Path, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amity.federation.distant.PAUSE", 20.0)
    monkeypatch.setattr(Distant.__init__, "__kwdefaults__", {"clock": lambda: pauses.now})
    trial = trial_of(tmp_path, "fedavg", terms={"limits": Limits(absence=50)})
    with trial.network() as network:
        network.after = lambda name, message, answer: (
            Away("no sign of life") if name == AWAY and isinstance(message, Train) else answer
        )
        with pytest.raises(LostWorker, match="which is its limit, for silo-02: absent: no sign of life: see to them"):
            trial.conduct(network)
    assert trial.phase == "waiting" and trial.steps[AWAY] == "absent" and pauses.count == 3


@pytest.mark.parametrize("kind", [Train, Hello], ids=lambda kind: kind.__name__)
def test_below_its_quorum_a_round_waits(kind: type[Message], tmp_path: Path, pauses: Pauses) -> None:
    trial = trial_of(tmp_path, "fedavg", terms={**TWO_OF_THREE, "least_rounds": 2})
    with trial.network() as network:

        def go(name: str, message: Message) -> None:
            if isinstance(message, kind) and message.round == (1 if kind is Train else 0) and not pauses.count:
                network.away = {"silo-01": "no sign of life", AWAY: "no sign of life"}

        def look() -> None:
            assert network.rounds_sent(Commit, "silo-00") == [] and trial.status["round"] == 0

        network.before = go
        pauses.script = [look, look, lambda: network.away.__delitem__("silo-01")]
        trial.conduct(network)
    assert pauses.count == 3
    assert [line["took_part"] for line in trial.record.lines] == [["silo-00", "silo-01"]] * 3
    assert trial.phase == "incomplete" and AWAY in trial.status["words"]


def test_a_silo_that_is_killed_in_the_middle_of_a_turn_is_asked_again(tmp_path: Path, pauses: Pauses) -> None:
    trial = trial_of(tmp_path, "scaffold", epochs=2)
    with Workers([trial.folders[AWAY]]) as children, trial.network(without=[AWAY]) as network:
        killed: list[int] = []

        def exchange(content: bytes) -> bytes:
            message = decode(content)
            if isinstance(message, Train) and message.round == 2 and not killed:
                child = children.children[0]
                assert child.stdin is not None
                child.stdin.write(len(content).to_bytes(8, "big") + content)
                child.stdin.flush()
                killed.append(child.pid)
                os.kill(child.pid, signal.SIGKILL)
                children.kill(0)
                children.start(0)
                raise LostWorker("its worker has ended")
            return children.send(0, content)

        network.exchanges[AWAY] = exchange
        trial.conduct(network)
    assert killed and pauses.count == 1 and trial.phase == "ended", trial.status["words"]
    trial.check_models()


def gone_back(trial: Trial, *names: str) -> None:
    """Run two rounds; then silos' state folders are put back to what they were after the first of them."""
    copies: dict[str, Path] = {}

    def copy(name: str, message: Message) -> None:
        if isinstance(message, Train) and message.round == 2 and name in names:
            copies[name] = Path(shutil.copytree(state_folder(trial, name), trial.hub / f"{name}-copy"))

    def stop(name: str, message: Message, answer: bytes) -> bytes:
        network.stopped |= isinstance(message, Measure) and message.round == 2
        return answer

    with trial.network() as network:
        network.before, network.after = copy, stop
        with pytest.raises(LostWorker, match="the run was stopped at the server"):
            trial.conduct(network)
    for name in names:
        shutil.rmtree(state_folder(trial, name))
        copies[name].rename(state_folder(trial, name))


def state_folder(trial: Trial, name: str) -> Path:
    return trial.folders[name] / "state" / "runs" / "trial" / "state"


BACK = f"silo {AWAY} stands at round 1, but has sent an upload in round 2: bring back its state folder"


def test_under_a_quorum_the_others_go_on_without_a_silo_whose_state_was_rolled_back(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "scaffold", rounds=4, terms=TWO_OF_THREE)
    gone_back(trial, AWAY)
    shown: list[tuple[str, str]] = []

    def look(name: str, message: Message) -> None:
        if isinstance(message, Train):
            silo = trial.status["silos"][AWAY]
            shown.append((silo["step"], silo["words"]))

    with trial.network() as network:
        network.before = look
        trial.conduct(network)
        assert network.rounds_sent(Train, AWAY) == []
    assert [line["took_part"] for line in trial.record.lines[2:]] == [["silo-00", "silo-01"]] * 2
    for line in trial.record.lines[2:]:
        assert line["dropped"][AWAY].startswith(BACK)
    assert all(step in ("absent", "connected") and words.startswith(BACK) for step, words in shown)
    assert trial.phase == "incomplete" and f"{AWAY} has not got the end of the run ({BACK}" in trial.status["words"]
    events = [json.loads(line) for line in (trial.folder / "record" / "events.jsonl").read_text().splitlines()]
    assert [event["silo"] for event in events if event["what"] == "aside"] == [AWAY], "once"
    lines = [line for line in entries(trial.hub / AUDIT) if line.what == "set aside"]
    assert [(line.silo, line.words.startswith(BACK)) for line in lines] == [(AWAY, True)]


def test_a_silo_whose_state_is_brought_back_takes_part_again(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "scaffold", rounds=4, terms=TWO_OF_THREE)
    right = trial.hub / "right"
    gone_back(trial)
    shutil.copytree(state_folder(trial, AWAY), right)
    with trial.network() as network:
        at = trial.names.index(AWAY)

        def swap(state: Path) -> None:
            """A worker of this silo begins with another state folder."""
            network.workers[at].close()
            shutil.rmtree(state_folder(trial, AWAY))
            shutil.copytree(state, state_folder(trial, AWAY))
            network.workers[at] = Worker(trial.site(AWAY))
            network.exchanges[AWAY] = network.workers[at].exchange

        old = Path(shutil.copytree(right, trial.hub / "old"))
        standing_file = old / "current" / "standing.json"
        content = json.loads(standing_file.read_bytes())
        del content["check"]
        standing_file.write_bytes(checked_json({**content, "committed": 0, "turn": None, "settled": True}))
        swap(old)

        def mend(name: str, message: Message) -> None:
            if isinstance(message, Measure) and message.round == 3 and name == "silo-00":
                swap(right)

        network.before = mend
        trial.conduct(network)
    assert [AWAY in line["took_part"] for line in trial.record.lines] == [True, True, False, True]
    assert trial.phase == "ended", trial.status["words"]
    assert trial.steps[AWAY] == "finished" and trial.status["silos"][AWAY]["words"] == ""


@pytest.mark.parametrize(
    ("terms", "names"), [({}, [AWAY]), (TWO_OF_THREE, ["silo-01", AWAY])], ids=["wait", "below the quorum"]
)
def test_a_run_that_cannot_go_on_without_them_ends_with_names_and_remedy(
    terms: dict[str, Any], names: list[str], tmp_path: Path
) -> None:
    trial = trial_of(tmp_path, "scaffold", rounds=4, terms=terms)
    gone_back(trial, *names)
    with trial.network() as network:
        trial.conduct(network)
    assert trial.phase == "failed" and BACK in trial.status["words"]
    assert all(f"silo {name} stands at round 1" in trial.status["words"] for name in names)
    assert trial.record.lines, "what was done stays"


@pytest.mark.parametrize("policy", ["wait", "quorum"])
def test_a_silo_that_cannot_evaluate(policy: str, tmp_path: Path, pauses: Pauses) -> None:
    trial = trial_of(tmp_path, "fedavg", terms={"policy": policy, "quorum": 2})
    with trial.network() as network:

        def fail(name: str, message: Message, answer: bytes) -> bytes:
            if name == AWAY and isinstance(message, Measure) and message.round == 2:
                return encode(Failed(*message[:3], "code", f"silo {AWAY} has no room for its scores"))
            return answer

        network.after = fail
        trial.conduct(network)
    if policy == "wait":
        assert trial.phase == "failed" and pauses.count == 4
        assert trial.status["words"].startswith(
            f"silo {AWAY}: silo {AWAY} has no room for its scores (5 times in a row)"
        )
        assert "see state/worker.log at the silo, mend it there" in trial.status["words"]
    else:
        assert trial.phase == "ended" and pauses.count == 0
        assert [AWAY in line["took_part"] for line in trial.record.lines] == [True, True, True]
        scores = [line["accuracy"] for line in trial.record.lines]
        assert scores[1] is not None and scores[1][2] is None and scores[1][0] is not None
