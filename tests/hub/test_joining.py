"""A silo that joins while a run goes on: as in a simulation, whoever ends or is away meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from networks import DIGITS, Killed, MemoryNetwork, Trial, check_equal, delivered, trial_of
from torch import Tensor

from amity.contract import Silo
from amity.engines.memory import Memory
from amity.federation.encoding import decode, encode
from amity.federation.messages import Commit, Measured, Message, Propose, Train
from amity.federation.plan import Plan, member_of
from amity.federation.resume import begin
from amity.federation.stored_server import Roster, StoredServer
from amity.hub import requests
from amity.hub.conduct import planned
from amity.resolve import resolve
from amity.site.data import prepared
from amity.site.model_file import read_facts

FOUNDERS = ["silo-00", "silo-01", "silo-02"]
LATE = ["silo-03", "silo-04"]
METHODS = ["apple", "fedamp", "scaffold", "heurfedamp", "fedavg-ft"]


def joining(tmp_path: Path, method: str, late: Sequence[str] = LATE[:1], **options: Any) -> Trial:
    """A run of four rounds that three silos begin; the others have not approved it yet."""
    terms = {"policy": "quorum", "quorum": 3}
    return trial_of(
        tmp_path, method, clients=3 + len(late), rounds=4, unapproved=late, terms=terms, **{"epochs": 1, **options}
    )


def begun(trial: Trial, network: MemoryNetwork, rounds: int) -> None:
    """Conduct a run that is to regroup after some rounds."""

    def ask(name: str, message: Message) -> None:
        if isinstance(message, Commit) and message.round == rounds:
            requests.ask(trial.folder, "regroup")

    network.before = ask
    trial.conduct(network)
    network.before = delivered
    assert trial.phase == "regrouping" and trial.status["round"] == rounds


def simulated(trial: Trial, joins: dict[str, int]) -> dict[str, dict[str, Tensor]]:
    """Every silo's model in a simulation in which silos join after these rounds."""
    silos = {name: _silo(trial, name) for name in trial.names}
    members = {name: member_of(silo, DIGITS.classes) for name, silo in silos.items()}
    founders = [name for name in trial.names if joins.get(name, 0) == 0]
    plan = resolve(trial.contract.options, [members[name] for name in founders]).plan
    with Memory(plan, {i: silos[name] for i, name in enumerate(founders)}) as carrier:
        server, names = begin(plan, carrier, names=founders), list(founders)
        for report in server.rounds():
            for name in [name for name, after in joins.items() if after == report.round]:
                carrier.host(_joined(server, members[name]), len(names), silos[name])
                names.append(name)
        server.keep()
        models = [server.plan.task.export_state(model) for model in carrier.delivered()]
    return dict(zip(names, models, strict=True))


def _joined(server: Any, member: Any) -> Plan:
    server.join(member)
    plan: Plan = server.plan
    return plan


def _silo(trial: Trial, name: str) -> Silo:
    (silo,) = prepared(trial.site(name), trial.contract.data, trial.contract.options).silos
    return silo


def check_models(trial: Trial, wanted: dict[str, dict[str, Tensor]]) -> None:
    for name, model in wanted.items():
        check_equal(model, trial.model(name), name)


@pytest.mark.parametrize("method", METHODS)
def test_a_silo_that_joins_has_what_it_has_in_a_simulation(method: str, tmp_path: Path) -> None:
    trial = joining(tmp_path, method)
    with trial.network() as network:
        begun(trial, network, 2)
        assert trial.steps["silo-03"] == "declined"
        trial.approve("silo-03")
        trial.conduct(network)
    roster = StoredServer(trial.folder / "server", "trial").roster()
    assert [one.name for one in roster.founders] == FOUNDERS and [one.name for one in roster.joined] == ["silo-03"]
    assert [line["took_part"] for line in trial.record.lines] == [FOUNDERS] * 2 + [[*FOUNDERS, "silo-03"]] * 2
    assert trial.phase == "ended", trial.status["words"]
    check_models(trial, simulated(trial, {"silo-03": 2}))


def test_a_silo_joins_where_silos_are_sampled(tmp_path: Path) -> None:
    """One that was not asked yet begins as everybody does, and grows as everybody does."""
    trial = joining(tmp_path, "apple", participation=0.5)
    with trial.network() as network:
        begun(trial, network, 1)
        trial.approve("silo-03")
        trial.conduct(network)
    check_models(trial, simulated(trial, {"silo-03": 1}))


@pytest.mark.parametrize("method", ["apple", "scaffold"])
@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
def test_several_join(method: str, together: bool, tmp_path: Path) -> None:
    trial = joining(tmp_path, method, LATE)
    with trial.network() as network:
        begun(trial, network, 1)
        trial.approve("silo-03")
        if together:
            trial.approve("silo-04")
        else:
            begun(trial, network, 3)
            trial.approve("silo-04")
        trial.conduct(network)
    check_models(trial, simulated(trial, {"silo-03": 1, "silo-04": 1 if together else 3}))


@pytest.mark.parametrize("method", ["apple", "scaffold"])
def test_a_silo_joins_before_any_round_is_done(method: str, tmp_path: Path) -> None:
    """The server ends in round 1, when some have trained: all of them grow from what they began with."""
    trial = joining(tmp_path, method)
    with trial.network() as network:
        end_at(trial, network, Train, 1, "silo-01")
        trial.approve("silo-03")
        trial.conduct(network)
    assert [len(line["took_part"]) for line in trial.record.lines] == [4] * 4
    assert trial.phase == "ended", trial.status["words"]


@pytest.mark.parametrize("kind", [Propose, Train, Commit], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("method", ["apple", "scaffold"])
def test_a_server_may_end_while_a_silo_joins(method: str, kind: type[Message], tmp_path: Path) -> None:
    """At a Commit of round 3 all have trained in the larger federation; at a Propose some have not heard of it."""
    trial = joining(tmp_path, method)
    with trial.network() as network:
        begun(trial, network, 2)
        trial.approve("silo-03")
        end_at(trial, network, kind, 0 if kind is Propose else 3, "silo-02")
        trial.conduct(network)
    check_models(trial, simulated(trial, {"silo-03": 2}))


def test_workers_that_are_started_again_know_who_has_joined(tmp_path: Path) -> None:
    trial = joining(tmp_path, "apple")
    with trial.network() as network:
        begun(trial, network, 2)
    trial.approve("silo-03")
    with trial.network() as network:
        end_at(trial, network, Train, 4, "silo-03")
    with trial.network() as network:
        trial.conduct(network)
    check_models(trial, simulated(trial, {"silo-03": 2}))


@pytest.mark.parametrize("method", ["apple", "scaffold"])
def test_a_pending_turn_grows_too(method: str, tmp_path: Path) -> None:
    """The server ends before it has told all that round 2 counts, and comes back with a newcomer."""
    trial = joining(tmp_path, method)
    with trial.network() as network:
        end_at(trial, network, Commit, 2, "silo-01")
        trial.approve("silo-03")
        trial.conduct(network)
    check_models(trial, simulated(trial, {"silo-03": 2}))


@pytest.mark.parametrize("method", ["apple", "scaffold"])
def test_the_newest_checkpoint_may_be_damaged_after_somebody_joined(method: str, tmp_path: Path) -> None:
    trial = joining(tmp_path, method)
    with trial.network() as network:
        begun(trial, network, 2)
        trial.approve("silo-03")
        end_at(trial, network, Commit, 3, "silo-02")
        (trial.folder / "server" / "current" / "round.json").write_text("{")
        trial.conduct(network)
    check_models(trial, simulated(trial, {"silo-03": 2}))


def test_a_newcomer_gets_a_model_where_an_earlier_round_is_delivered(tmp_path: Path) -> None:
    """Validation data chose a round before it came: it keeps the model of the last one."""
    trial = joining(tmp_path, "fedamp", val_fraction=0.3, lr=0.1)
    with trial.network() as network:
        begun(trial, network, 2)
        trial.approve("silo-03")

        def worse(name: str, message: Message, answer: bytes) -> bytes:
            found = decode(answer)
            return encode(found._replace(val=0.0)) if isinstance(found, Measured) else answer

        network.after = worse
        trial.conduct(network)
    assert trial.phase == "ended", trial.status["words"]
    assert set(trial.steps.values()) == {"finished"}
    kept = {name: read_facts(trial.site(name).run("trial"))["round"] for name in trial.names}
    assert kept["silo-03"] == 4 and {kept[name] for name in FOUNDERS} == {trial.record.results["delivered_round"]} <= {
        1,
        2,
    }


def test_the_plan_follows_from_the_founders(tmp_path: Path) -> None:
    trial = joining(tmp_path, "apple")
    members = tuple(member_of(_silo(trial, name), DIGITS.classes) for name in trial.names)
    first, plan = planned(trial.contract, Roster(members[:3], members[3:]))
    alone, _ = planned(trial.contract, Roster(members[:3], ()))
    assert first == alone and first.clients == 4 and plan.fed.clients == 4


def end_at(trial: Trial, network: MemoryNetwork, kind: type[Message], round: int, silo: str) -> None:
    """Conduct a run whose server ends when it is about to send a letter."""

    def end(name: str, message: Message) -> None:
        if isinstance(message, kind) and message.round == round and name == silo:
            raise Killed

    network.before = end
    with pytest.raises(Killed) as caught:
        trial.conduct(network)
    del caught
    network.before = delivered
    gc.collect()
