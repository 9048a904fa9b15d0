"""From the facts beside a personal model to a module that predicts."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from amity import models
from amity.contract import Model, Scale
from amity.errors import InputError
from amity.learn.task import Task
from amity.record.contents import ModelFacts

Builds = Callable[[], nn.Module] | nn.Module
"""A function that builds a model, or a model that is copied."""

_BATCH = 250  # examples at a time: more of them leave the processor's cache


def is_own(facts: ModelFacts) -> bool:
    """Return whether code of the user's own builds the model."""
    return facts.get("own", facts["model"] not in ("auto", *models.MODELS))


def task_of(facts: ModelFacts, build: Builds | None, remedy: str) -> Task:
    """Return the task that a model was trained for. `build`: the user's own model, which `remedy` asks for."""
    shape, classes = tuple(facts["shape"]), len(facts["labels"] or ())
    if isinstance(build, nn.Module):
        return Task(functools.partial(copy.deepcopy, build), shape, classes)
    if build is not None:
        return Task(build, shape, classes)
    if is_own(facts):
        raise InputError(f"the model {facts['model']!r} of {facts['silo']} is your own and needs its code: {remedy}")
    return Task(models.make(facts["model"], shape, classes or 1), shape, classes)


def outputs_of(task: Task, model: Model, x: Tensor) -> Tensor:
    """Return what a model gives for these examples.  # [n, classes]"""
    module = task.module(model)
    with torch.no_grad():
        return torch.cat([module(part) for part in x.split(_BATCH)])


class Restored(nn.Module):
    """Quantities in the silo's own unit, from standardised ones."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, value: Tensor) -> Tensor:
        return value * self.scale.unit + self.scale.zero


def restored(values: Tensor, scale: Scale) -> Tensor:
    """Return quantities in the silo's own unit, with all digits."""
    return values.double() * scale.unit + scale.zero
