"""Every method with class weights: the same on every engine, and the laws that training takes part in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from methods.cases import DEFAULTS
from small import CLASSES, FEATURES, flat, mlp, run, silos
from torch import Tensor, nn

from amity.learn.task import Task
from amity.testing import cases, check_law, federation, laws_state, laws_symmetry
from amity.testing.cases import Case, check_equal

SOME = ("fedavg", "fedavg-ft", "fedamp", "apple", "ditto", "scaffold", "perfedavg")  # that train in different ways
some = pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case.name in SOME else pytest.mark.slow) for case in DEFAULTS], ids=str
)
LAWS = ("pure", "form_of_states", "resume", "relabelling", "coupling", "identical_silos")


def weighted(make: Callable[[], nn.Module] = mlp, *, start: Mapping[str, Tensor] | None = None) -> Task:
    return Task(make, (FEATURES,), CLASSES, dtype=torch.float64, start=start, class_weights="balanced")


@pytest.fixture
def weighted_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All tasks that laws make have class weights."""
    for module in (federation, laws_state, laws_symmetry):
        monkeypatch.setattr(module, "fresh_task", weighted)
    cases.forget()
    yield
    cases.forget()


@some
def test_engines_agree(case: Case) -> None:
    """Loop and memory in all bits, the stacked engine up to rounding; and weights make a difference."""
    how: dict[str, Any] = {"rounds": 2, "epochs": 2, "at": silos(), "participation": 0.8}
    loop = run(case.method, on=weighted(), **how)
    check_equal(loop, run(case.method, on=weighted(), engine="memory", **how))
    stacked = run(case.method, on=weighted(), engine="stacked", **how)
    assert torch.allclose(flat(loop[-1]), flat(stacked[-1]), rtol=1e-9, atol=1e-9)
    unweighted = run(case.method, on=Task(mlp, (FEATURES,), CLASSES, dtype=torch.float64), **how)
    assert not torch.allclose(flat(loop[-1]), flat(unweighted[-1]), rtol=1e-6, atol=1e-6)


@some
def test_laws_hold(case: Case, weighted_tasks: None) -> None:
    for name in LAWS:
        law = cases.LAWS[name]
        check_law(name, case, law.over[0])
