"""The attackers of the benchmark do what they say, on a federation of milliseconds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from small import plan_of, same, silos
from torch import Tensor

from amity.config.robust import Robust
from amity.contract import State
from amity.federation.reports import Round
from amity.federation.server import ServerSide
from benchmarks import imitators
from benchmarks.attackers import ABSENT, IMITATIONS, KINDS, Attacked
from benchmarks.attacks import DATA, METHODS, Case, Found, _cost, cases, tables

BAD = (1, 4)


def attacked(kind: str, bad: Sequence[int] = BAD, robust: Robust = "off", method: str = "fedavg") -> list[Round]:
    plan, at = plan_of(method, at=silos(10), rounds=3)
    return list(ServerSide(plan._replace(robust=robust), Attacked(plan, at, bad, kind)).rounds())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["fedavg", "apple"])
def test_an_attack_changes_the_run_and_nothing_of_it_is_malformed(kind: str, method: str) -> None:
    reports = attacked(kind, method=method)
    assert not any(report.dropped for report in reports)
    honest = attacked(kind, (), method=method)
    assert not same(reports[-1].progress.server, honest[-1].progress.server)


def test_those_that_norm_knows_are_refused_and_then_it_is_as_if_they_were_absent() -> None:
    absent = attacked(ABSENT)
    refused = attacked("noise", robust="norm")
    for one, other in zip(absent, refused, strict=True):
        assert one.dropped.keys() == other.dropped.keys() == set(BAD)
        assert same(one.progress.server, other.progress.server)
    replayed = attacked("replay", robust="norm")
    assert [set(report.dropped) for report in replayed] == [set(), set(BAD), set(BAD)]


def test_who_knows_the_rule_is_let_in() -> None:
    assert not any(report.dropped for report in attacked("inside", robust="norm"))
    honest = attacked("inside", ())
    last, wanted = (run[-1].progress.server["params"] for run in (attacked("inside"), honest))
    first = plan_of("fedavg", at=silos(10))[0].task.initial(plan_of("fedavg", at=silos(10))[0].fed)["params"]
    assert torch.dot(last - first, wanted - first) < 0  # it has turned the others round


def test_the_page_has_the_tables_of_what_was_measured() -> None:
    assert "\n".join(tables(DATA)).strip() in (DATA.parent / "robust.md").read_text(encoding="utf-8")


def test_the_page_has_the_table_of_imitators() -> None:
    assert "\n".join(imitators.table(imitators.DATA)) in (DATA.parent / "robust.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("method", ["fedamp", "fedavg"])
def test_imitators_send_what_their_victim_sends_or_its_step_backwards(method: str) -> None:
    """By hand, from what crossed the wire: the victim is silo 0, and attackers do not disturb round 1 of anybody."""
    plan, at = plan_of(method, at=silos(10), rounds=1)
    sent = {}
    for kind in ("honest", *IMITATIONS):
        carrier = Attacked(plan, at, BAD if kind != "honest" else (), kind, victim=0)
        taken: list[Tensor] = []
        real = type(plan.method).aggregate

        def aggregate(self: object, server: State, who: Tensor, uploads: State, round: int) -> State:
            taken.append(uploads["params"].clone())  # noqa: B023
            return real(self, server, who, uploads, round)  # type: ignore[arg-type]  # noqa: B023

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(plan.method), "aggregate", aggregate)
            assert not any(report.dropped for report in ServerSide(plan, carrier).rounds())
        sent[kind] = taken[0]
    first = plan.task.initial(plan.fed)["params"]
    honest, step = sent["honest"], sent["honest"][0] - first
    for kind, wanted in (("copy", first + step), ("undo", first - step)):
        for attacker in BAD:
            assert torch.allclose(sent[kind][attacker], wanted, atol=1e-12)
        others = [client for client in range(10) if client not in BAD]
        assert torch.equal(sent[kind][others], honest[others])


def test_protected_runs_come_before_those_that_may_be_the_same() -> None:
    every = list(cases(list(METHODS), KINDS))
    assert len(every) == len(set(every))
    for case in every:
        if case.robust == "off" and case.kind != ABSENT:
            assert every.index(case._replace(robust="norm")) < every.index(case)


def test_costs_are_against_the_run_without_attackers() -> None:
    known = {
        "fedavg/absent/3/off": Found(80.0, 45, 0, 1.0),
        "fedavg/noise/3/norm": Found(80.0, 45, 0, 1.0),
        "fedavg/noise/3/off": Found(20.04, 0, 0, 1.0),
        "fedavg/mild/3/off": Found(80.5, 0, 0, 1.0),
    }
    assert [_cost(known, Case("fedavg", "noise", 3, robust)) for robust in ("off", "norm", "krum")] == [
        "60.0",
        "0.0*",
        "",
    ]
    assert _cost(known, Case("fedavg", "mild", 3, "off")) == "-0.5"
