"""What everybody in a federation has agreed on before round 1."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import torch

from amity.config.participation import Participation
from amity.config.privacy import Privacy
from amity.config.robust import Robust
from amity.contract import Federation, Method, Silo, Solver
from amity.learn.streams import key_of
from amity.learn.task import Task


class Plan(NamedTuple):
    """Method, task, public facts, solver and who takes part: the same at the server and at each silo."""

    method: Method
    task: Task
    fed: Federation
    solver: Solver
    rule: Participation
    run: str = "run"  # its name, which every message carries
    robust: Robust = "off"  # how the server protects everybody against bad silos
    privacy: Privacy | None = None  # what silos promise about any one example; None: models are made without noise
    min_count: int = 1  # examples that a number must rest on before a silo tells it (`small_counts.py`)


class Member(NamedTuple):
    """One line of the roster: all that the others know of a silo before round 1.

    A silo describes itself when its data are ready to be learnt from: cut to the run's limit, with its validation part
    set aside, its quantities standardised.
    """

    name: str
    size: int  # training examples
    shape: tuple[int, ...]  # of one example
    classes: int  # that its labels are numbers of; 0: quantities
    validates: bool = False  # whether it has validation data
    group: int | None = None  # the distribution it was drawn from, where that is known (simulation)
    data: str = ""  # a hash of its data


def member_of(silo: Silo, classes: int, data: str = "") -> Member:
    """The line of the roster that describes a silo."""
    train = silo.train
    return Member(silo.name, len(train.y), tuple(train.x.shape[1:]), classes, silo.val is not None, silo.group, data)


def federation_of(roster: Sequence[Member | Silo], rounds: int, seed: int, least_mix: int = 1) -> Federation:
    """The public facts of these silos."""
    groups = [one.group for one in roster]
    known = None if None in groups else torch.tensor(groups)
    sizes = torch.tensor([one.size if isinstance(one, Member) else len(one.train.y) for one in roster])
    return Federation(sizes, torch.tensor([key_of(one.name) for one in roster]), known, rounds, seed, least_mix)


def layout_of(plan: Plan) -> str:
    """A hash of the model's layout and of the method: two sides that agree in it speak of the same vectors."""
    words = f"{plan.task.layout!r}/{type(plan.method).__name__}/{plan.method!r}/{plan.task.classes}/{plan.task.shape}"
    return hashlib.sha256(words.encode()).hexdigest()[:16]
