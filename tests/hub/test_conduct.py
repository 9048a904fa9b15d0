"""Conducting a run, over a network in this process: the simulator's models, its record, and every way to an end."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from networks import Killed, Pauses, check_equal, trial_of
from small import quickly

import amity
from amity import record
from amity.federation.messages import Commit, Describe, Finish, Message, Train
from amity.federation.transport import Away
from amity.hub import requests
from amity.methods import METHODS
from amity.report import compare_table, write_report
from amity.site.data import prepared
from amity.site.ending import ask_to_leave

EVERY = [name for name in METHODS if name != "pooled"]  # which needs all data in one place
RECORDED = ("mean", "worst", "val", "accuracy", "loss", "per_silo", "metrics", "took_part", "dropped", "epochs")
COUNTED = ("bytes_up", "bytes_down", "bytes_eval", "collaborators", "warnings")


# What the other methods send is compared bit for bit by the law `carriers`.
@pytest.mark.parametrize("method", quickly(EVERY))
def test_every_method_has_the_simulators_models_and_record(method: str, tmp_path: Path) -> None:
    trial = trial_of(tmp_path, method, terms={"least_rounds": 3})
    with trial.network() as network:
        trial.conduct(network)
    assert trial.phase == "ended", trial.status["words"]
    assert set(trial.steps.values()) == {"finished"}
    wanted = trial.simulated()
    trial.check_models(wanted)
    check_record(trial.record, wanted)


def check_record(found: amity.Record, wanted: amity.Result) -> None:
    """The record says what that of the simulation says, but for weights that are known at the silos alone."""
    assert len(found.lines) == len(wanted.lines)
    local = found.weights.keys() != wanted.weights.keys()  # as APPLE's, which never leave a silo
    for line, same in zip(found.lines, wanted.lines, strict=True):
        for key in (*RECORDED, *COUNTED):
            if not (local and key in ("collaborators", "warnings")):
                assert line[key] == same[key], key  # type: ignore[literal-required]
    for round in found.weights:
        np.testing.assert_array_equal(found.weights[round], wanted.weights[round])


@pytest.mark.parametrize("method", ["scaffold", "apple", "fedavg-ft"])
def test_silos_are_sampled_as_in_a_simulation(method: str, tmp_path: Path) -> None:
    trial = trial_of(tmp_path, method, participation=0.7)
    with trial.network() as network:
        trial.conduct(network)
    assert any(len(line["took_part"]) < 3 for line in trial.record.lines)
    trial.check_models()


@pytest.mark.parametrize("method", ["scaffold", "apple", "fedavg-ft"])
def test_uploads_that_are_really_lost_are_what_a_simulation_plays_at(method: str, tmp_path: Path) -> None:
    """Those that the simulator draws, in every round and in the last one too, get lost on the way to the server."""
    trial = trial_of(tmp_path, method, rounds=4, terms={"policy": "quorum", "quorum": 1})
    wanted = amity.run(replace(trial.run, drop=0.4, drop_phase="after", engine="loop"), trial.silos)
    lost = {(name, line["round"]) for line in wanted.lines for name in line["dropped"]}

    def lose(name: str, message: Message, answer: bytes) -> bytes | Away:
        return Away("it is lost") if isinstance(message, Train) and (name, message.round) in lost else answer

    with trial.network() as network:
        network.after = lose
        trial.conduct(network)
    assert {round for _, round in lost} == {1, 2, 3, 4}
    assert [line["took_part"] for line in trial.record.lines] == [line["took_part"] for line in wanted.lines]
    assert trial.phase == "ended", trial.status["words"]
    trial.check_models(wanted)


@pytest.mark.parametrize("method", ["fedamp", "fedavg-ft"])
def test_validation_data_choose_the_round_to_deliver(method: str, tmp_path: Path) -> None:
    trial = trial_of(tmp_path, method, val_fraction=0.3, rounds=5, lr=0.5, per_silo=40)
    with trial.network() as network:
        trial.conduct(network)
    wanted = trial.simulated()
    assert trial.record.results["delivered_round"] == wanted.summary["delivered_round"]
    trial.check_models(wanted)


@pytest.mark.parametrize("method", ["fedamp", "fedavg-ft"])
def test_server_and_silos_agree_in_metric_and_class_weights(method: str, tmp_path: Path) -> None:
    """Models, the round that validation data choose and all scores are the simulator's."""
    trial = trial_of(tmp_path, method, metric="balanced", class_weights="balanced", val_fraction=0.2)
    with trial.network() as network:
        trial.conduct(network)
    assert trial.phase == "ended", trial.status["words"]
    wanted = trial.simulated()
    trial.check_models(wanted)
    for line, same in zip(trial.record.lines, wanted.lines, strict=True):
        assert record.scores_of(line) == record.scores_of(same) != record.scores_of(line, "accuracy")
        assert record.scores_of(line, "accuracy") == record.scores_of(same, "accuracy")
        assert (line["mean"], line["worst"], line["val"]) == (same["mean"], same["worst"], same["val"])
    told = trial.record.results
    assert (told["score"], told["delivered_round"]) == ("balanced_accuracy", wanted.round)
    usual = trial_of(tmp_path / "usual", method, metric="balanced", val_fraction=0.2).simulated()
    assert usual.lines[-1]["loss"] != wanted.lines[-1]["loss"]


def test_the_record_is_read_reported_and_has_no_models(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedamp")
    with trial.network() as network:
        trial.conduct(network)
    found = trial.record
    assert found.summary is not None and found.models_elsewhere and not found.has_models
    assert not (found.path / "weights.part").exists()
    with pytest.raises(amity.InputError, match="has no models, each silo has its own"):
        _ = found.models
    page = write_report([found], tmp_path / "report.html").read_text()
    assert all(name in page for name in trial.names)
    compare_table([found], None)
    assert [event.what for event in found.events][-1] == "ended"
    with trial.network() as network:  # a run that was ended before its board said so
        before = (found.path / "summary.json").read_bytes()
        trial.conduct(network)
    assert trial.phase == "ended" and (found.path / "summary.json").read_bytes() == before


def test_fewer_rounds_than_agreed_are_no_success(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg", participation=0.34, terms={"least_rounds": 3})
    with trial.network() as network:
        trial.conduct(network)
    assert trial.phase == "incomplete"
    assert "of the 3 rounds that were agreed" in trial.status["words"]
    trial.check_models()


@pytest.mark.parametrize("method", ["ditto", "fedavg-ft"])  # in which nothing depends on how many rounds there are
def test_a_silo_that_leaves_keeps_its_model_and_the_others_go_on(method: str, tmp_path: Path) -> None:
    trial = trial_of(tmp_path, method, rounds=4, terms={"least_rounds": 1})

    def leave(name: str, message: Message) -> None:
        if isinstance(message, Train) and (name, message.round) == ("silo-01", 3):
            ask_to_leave(trial.site(name), "trial")

    with trial.network() as network:
        network.before = leave
        trial.conduct(network)
    assert trial.phase == "incomplete" and trial.status["words"] == "silo-01 has left"
    assert trial.steps == {"silo-00": "finished", "silo-01": "left", "silo-02": "finished"}
    assert [line["took_part"] for line in trial.record.lines[2:]] == [["silo-00", "silo-02"]] * 2
    assert trial.record.lines[2]["dropped"] == {"silo-01": "it has left"} and not trial.record.lines[3]["dropped"]
    early = amity.run(replace(trial.run, rounds=2, engine="loop"), trial.silos)
    check_equal(early.model("silo-01").state_dict(), trial.model("silo-01"), "the model of the silo that left")
    sent = network.rounds_sent(Train, "silo-01")
    with trial.network() as network:  # who has left is not asked again by a server that comes back
        trial.conduct(network)
    assert sent == [1, 2, 3] and network.rounds_sent(Train, "silo-01") == []
    assert trial.phase == "incomplete" and trial.steps["silo-01"] == "left"


@pytest.mark.parametrize(("policy", "quorum"), [("wait", 3), ("quorum", 2)])
def test_a_run_that_too_many_leave_fails_in_words(policy: str, quorum: int, tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg", terms={"policy": policy, "quorum": quorum})
    leaving = trial.names if policy == "wait" else trial.names[1:]

    def leave(name: str, message: Message) -> None:
        if isinstance(message, Train) and message.round == 2 and name in leaving:
            ask_to_leave(trial.site(name), "trial")

    with trial.network() as network:
        network.before = leave
        trial.conduct(network)
    assert trial.phase == "failed"
    assert "silos have not left the run, which needs" in trial.status["words"]
    assert trial.record.lines[1]["took_part"] == []  # below its quorum nothing is aggregated


def test_a_contract_that_is_declined_waits_for_whoever_approves_it(
    tmp_path: Path, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = trial_of(tmp_path, "fedavg", unapproved=["silo-01"])
    read: Counter[str] = Counter()
    monkeypatch.setattr(
        "amity.site.answering.prepared", lambda site, *how: read.update([site.name]) or prepared(site, *how)
    )

    def look() -> None:
        silo = trial.status["silos"]["silo-01"]
        assert silo["step"] == "declined" and "nobody here has approved it" in silo["words"]
        assert trial.phase == "gathering" and "silo-01" not in read

    pauses.script = [look, look, lambda: trial.approve("silo-01")]
    with trial.network() as network:
        trial.conduct(network)
    assert trial.phase == "ended" and len(network.rounds_sent(Describe, "silo-01")) == 4
    assert len(network.rounds_sent(Describe, "silo-00")) == 1
    trial.check_models()


def test_a_run_stops_between_two_rounds_and_leaves_every_silo_its_model(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg-ft")

    def ask(name: str, message: Message) -> None:
        if isinstance(message, Commit):
            requests.ask(trial.folder, "stop")

    with trial.network() as network:
        network.before = ask
        trial.conduct(network)
    assert trial.phase == "stopped" and trial.status["round"] == 1
    assert [line["round"] for line in trial.record.lines] == [1] and trial.record.summary is not None
    write_report([trial.record], tmp_path / "report.html")
    trial.check_models(amity.run(replace(trial.run, rounds=1, engine="loop"), trial.silos))
    assert not requests.asked(trial.folder, "stop")


def test_a_stop_that_a_crash_interrupts_is_not_forgotten(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg")

    def ask(name: str, message: Message) -> None:
        if isinstance(message, Commit):
            requests.ask(trial.folder, "stop")
        if isinstance(message, Finish):
            raise Killed

    with trial.network() as network:
        network.before = ask
        with pytest.raises(Killed):
            trial.conduct(network)
    assert requests.asked(trial.folder, "stop") and trial.phase == "running"  # for whoever looks after the run next


@pytest.mark.parametrize("done", [0, 1])
def test_a_stop_waits_for_nobody(done: int, tmp_path: Path, pauses: Pauses) -> None:
    trial = trial_of(tmp_path, "fedavg")
    pauses.script = [lambda: requests.ask(trial.folder, "stop")]
    with trial.network() as network:

        def go(name: str, message: Message) -> None:
            if isinstance(message, Train) and message.round == done + 1:
                network.away["silo-02"] = "no sign of life"

        network.before = go
        trial.conduct(network)
    assert trial.phase == "stopped" and pauses.count == 1 and len(trial.record.lines) == done


def test_a_run_that_waits_for_a_silo_can_be_stopped(tmp_path: Path, pauses: Pauses) -> None:
    trial = trial_of(tmp_path, "fedavg")
    pauses.script = [lambda: None, lambda: requests.ask(trial.folder, "stop")]

    def lost(name: str, message: Message, answer: bytes) -> bytes | Away:
        return Away("it is away") if isinstance(message, Train) and name == "silo-02" else answer

    with trial.network() as network:
        network.after = lost
        trial.conduct(network)
    assert trial.phase == "stopped" and trial.record.lines == []


def test_a_run_that_is_to_regroup_goes_on_where_it_was(tmp_path: Path, turns: Counter[tuple[str, int]]) -> None:
    trial = trial_of(tmp_path, "scaffold")

    def ask(name: str, message: Message) -> None:
        if isinstance(message, Commit) and message.round == 2:
            requests.ask(trial.folder, "regroup")

    with trial.network() as network:
        network.before = ask
        trial.conduct(network)
        assert trial.phase == "regrouping" and trial.status["round"] == 2
        assert not requests.asked(trial.folder, "regroup")
        network.before = lambda name, message: None
        trial.conduct(network)
    assert trial.phase == "ended" and trial.status["jobs"] == 2
    assert set(turns.values()) == {1} and [line["round"] for line in trial.record.lines] == [1, 2, 3]
    trial.check_models()


def test_what_nobody_foresaw_fails_the_run_without_its_text(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg")

    def break_it(name: str, message: Message) -> None:
        raise ZeroDivisionError("a secret")

    with trial.network() as network:
        network.before = break_it
        trial.conduct(network)
    assert trial.phase == "failed" and trial.status["words"] == "ZeroDivisionError, the server's log says more"


def test_data_that_make_another_model_than_the_contract_fail_the_run(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg", terms={"layout": "0" * 16})
    with trial.network() as network:
        trial.conduct(network)
    assert trial.phase == "failed" and "look at [data] in the run file" in trial.status["words"]
    assert math.isfinite(trial.status["written"]) and not (trial.folder / "server" / "roster.json").exists()


def test_a_run_that_is_stopped_leaves_every_silo_its_model(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "fedavg")

    def ask(name: str, message: Message) -> None:
        if isinstance(message, Commit) and message.round == 2:
            requests.ask(trial.folder, "stop")

    with trial.network() as network:
        network.before = ask
        trial.conduct(network)
    assert trial.phase == "stopped" and len(trial.record.lines) == 2
    for folder in trial.folders.values():
        facts = json.loads((folder / "state" / "runs" / trial.contract.name / "model.json").read_text())
        assert facts["round"] == 2
