"""The attackers of the benchmark do what they say, on a federation of milliseconds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from small import plan_of, same, silos

from amity.config.robust import Robust
from amity.federation.reports import Round
from amity.federation.server import ServerSide
from benchmarks.attackers import ABSENT, KINDS, Attacked
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
