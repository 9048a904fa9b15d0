"""Silos that join and leave: what each method makes of it, by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small import CLASSES, near, opened, plan_of, silo, silos, task
from torch import Tensor

from amity.contract import Federation, Silo, State
from amity.engines.local.stacked import carrier_of
from amity.engines.local.threads import Threads
from amity.errors import InputError
from amity.federation.events import Event
from amity.federation.membership import grow_client, grow_server, with_member
from amity.federation.participation import draw
from amity.federation.plan import federation_of, member_of
from amity.federation.resume import begin
from amity.federation.server import ServerSide
from amity.learn.vectors import cosines, squared_distances
from amity.methods import build
from amity.methods.apple import Apple

NEW = silo("gum", 11, 1)
MEMBER = member_of(NEW, CLASSES)


def welcome(server: ServerSide, carrier: Threads, newcomer: Silo) -> None:
    client = server.join(member_of(newcomer, CLASSES))
    carrier.host(server.plan, client, newcomer)


def joined(method: Any, rounds: int = 4, after: int = 2, **rule: Any) -> tuple[ServerSide, Threads, list[Any]]:
    """A run in which a silo joins after some rounds; the reports of those that follow."""
    plan, at = plan_of(method, rounds=rounds, epochs=1, **rule)
    carrier = Threads(plan, at, 1)
    server, reports = begin(plan, carrier), []
    for report in server.rounds():
        reports.append(report)
        if report.round == after:
            welcome(server, carrier, NEW)
    return server, carrier, reports


def larger() -> tuple[Federation, Federation]:
    fed = federation_of(silos(), 4, 1)
    return fed, with_member(fed, MEMBER)


def test_the_facts_of_a_larger_federation_are_those_of_one_that_began_so() -> None:
    _, after = larger()
    want = federation_of([*silos(), NEW], 4, 1)
    assert torch.equal(after.sizes, want.sizes) and torch.equal(after.keys, want.keys) and after[3:] == want[3:]
    assert after.groups is not None and want.groups is not None and torch.equal(after.groups, want.groups)
    assert with_member(after, MEMBER._replace(group=None)).groups is None


def test_fedavg_weighs_the_newcomer_by_its_size() -> None:
    server, carrier, _ = joined("fedavg-local", rounds=3)
    with carrier:
        sizes = torch.tensor([7, 15, 9, 12, 10, 11], dtype=torch.float64)
        held = torch.stack([state["params"] for state in carrier.door.states()])
        assert server.progress.server["sizes"].tolist() == sizes.tolist()
        assert near(server.progress.server["params"], sizes / sizes.sum() @ held)


def test_sca_1_holds_when_a_silo_joins() -> None:
    for rounds in (2, 3, 5):
        server, carrier, _ = joined("scaffold", rounds=rounds)
        with carrier:
            controls = torch.stack([state["control"] for state in carrier.door.states()])
            assert len(controls) == 6 and int(server.progress.server["clients"]) == 6
            assert near(server.progress.server["control"], controls.mean(0)), rounds


@pytest.mark.parametrize(("name", "similarity"), [("fedamp", squared_distances), ("fedacs", cosines)])
def test_similarities_of_a_newcomer_are_to_the_models_as_they_are_now(name: str, similarity: Any) -> None:
    for rounds in (2, 4):
        server, carrier, reports = joined(build(name, {"pool": "latest"}), rounds=rounds, participation=0.6)
        with carrier:
            state = server.progress.server
            assert state["pairs"].shape == (6, 6) and near(state["pairs"], similarity(state["params"]).cpu(), 1e-9)
            assert bool(state["heard"][5]) == any(5 in report.took_part for report in reports)


@pytest.mark.parametrize("budget", ["all", 2, 9])
def test_apple_wants_the_newcomers_core_and_gives_it_no_weight_before_it_learns_one(budget: Any) -> None:
    on, method = task(), Apple(budget=budget)
    before, after = larger()
    server = grow_server(method, on, before, after, method.init_server(on, before))
    for client in range(5):
        first: State = method.init_client(on, before, client)
        first["relations"] = torch.linspace(-1, 1, 5, dtype=torch.float64)
        state = grow_client(method, on, before, after, client, first)
        assert torch.equal(state["wanted"], server["wanted"][client])  # else cores would land in wrong places
        assert (5 in state["wanted"].tolist()) == (budget != 2)
        assert len(set(state["wanted"].tolist())) == len(state["wanted"]) and client not in state["wanted"].tolist()
        assert state["relations"].tolist() == [-1, -0.5, 0, 0.5, 1, 0]
        assert near(state["prior"], after.sizes.double() / after.sizes.sum())
        assert state["seen"].tolist() == [False] * 6 and torch.equal(state["keys"], after.keys)
    assert torch.equal(server["wanted"][5], method.init_client(on, after, 5)["wanted"])


def test_several_may_join_one_after_the_other() -> None:
    plan, at = plan_of("apple", rounds=3, epochs=1)
    with Threads(plan, at, 1) as carrier:
        server = begin(plan, carrier)
        for report in server.rounds():
            name = f"late {report.round}"
            welcome(server, carrier, NEW._replace(name=name))
        assert [len(state["relations"]) for state in carrier.door.states()] == [8] * 8


@pytest.mark.parametrize("name", ["heurfedamp", "ditto", "fedavg-ft"])
def test_stacks_grow_too(name: str) -> None:
    models: list[list[Tensor]] = []
    for engine in ("loop", "stacked"):
        plan, at = plan_of(name, rounds=4, epochs=1)
        with carrier_of(engine, plan, at, 1) as carrier:
            server = begin(plan, carrier)
            for report in server.rounds():
                assert report.executed == engine
                if report.round == 2:
                    welcome(server, carrier, NEW)
                if report.round == 3:
                    server.leave(0)
            server.keep()
            models.append([model["params"] for model in carrier.door.delivered()])
    assert len(models[0]) == 6 and all(near(a, b) for a, b in zip(*models, strict=True))


def test_whoever_has_left_is_never_drawn() -> None:
    plan, _ = plan_of("fedavg", rounds=50, participation=0.4)
    usual = [draw(plan.rule, plan.fed, round) for round in range(1, 51)]
    fewer = [draw(plan.rule, plan.fed, round, frozenset({1, 3})) for round in range(1, 51)]
    assert {int(i) for lot in usual for i in lot.asked} == {0, 1, 2, 3, 4}
    assert {int(i) for lot in fewer for i in lot.asked} == {0, 2, 4}
    assert {len(lot.asked) for lot in usual} == {2} and {len(lot.asked) for lot in fewer} == {1}  # 0.4 of 3


def test_a_leaver_keeps_the_model_that_it_had() -> None:
    for on in ("loop", "memory"):
        plan, at = plan_of("fedavg-ft", rounds=4, epochs=1)
        with opened(on)(plan, at) as carrier:
            server, seen = begin(plan, carrier, names=[one.name for one in at.values()]), []
            for report in server.rounds():
                if report.round == 2:
                    server.leave(1)
                    silo_side = carrier.silos[1]  # type: ignore[attr-defined]
                    seen.append(silo_side.delivered()["params"])
            server.keep()
            assert carrier.door is not None
            assert torch.equal(carrier.door.delivered()[1]["params"], seen[0])
            assert server.here == [0, 2, 3, 4] and server.progress.left == {1}
            assert report.bytes_eval == report.bytes_down > 0  # a model for each of the four that are there


def test_it_is_said_who_joins_and_leaves_and_nonsense_is_refused() -> None:
    plan, at = plan_of("fedavg", at=silos(2))
    told: list[Event] = []
    with Threads(plan, at, 1) as carrier:
        server = begin(plan, carrier, names=["ash", "birch"], events=told.append)
        welcome(server, carrier, NEW)
        with pytest.raises(InputError, match="needs a name of its own, got 'gum' again: rename it"):
            server.join(MEMBER)
        server.leave(0)
        server.leave(1)
        for client in (0, 7, 2):
            with pytest.raises(InputError, match=f"needs to be there, with another one, got {client}: see who is"):
                server.leave(client)
        assert [report.took_part for report in server.rounds()] == [[2]] * 3
    assert [(e.what, e.silo) for e in told if e.what in ("joined", "left")] == [
        ("joined", "gum"),
        ("left", "ash"),
        ("left", "birch"),
    ]
