"""Plans for test_footprint.py and its programs: a model so wide that its tensors are all that counts in memory."""

from __future__ import annotations

from typing import Any

from small import CLASSES, FEATURES, silos, solver_of
from torch import nn

from amity.config.participation import Participation
from amity.federation.plan import Plan, federation_of
from amity.learn.task import Task
from amity.methods import build

WIDE = 4000


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, WIDE), nn.ReLU(), nn.BatchNorm1d(WIDE), nn.Linear(WIDE, CLASSES))


ON = Task(wide, (FEATURES,), CLASSES)


def plan_of(name: str, on: Task, count: int = 5, settings: Any = None, **rule: Any) -> Plan:
    method = build(name, settings)
    fed = federation_of(silos(count), 3, 1)
    return Plan(method, on, fed, solver_of(method), Participation(epochs=1, **rule))
