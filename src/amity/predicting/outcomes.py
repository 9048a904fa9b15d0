"""What the delivered models of a run say about each test example of their own silos: `predictions/<silo>.npz`.

truth            the class by its number, or the quantity in the label's own unit
predicted        the same of the model; -1 where its outputs name no class
probabilities    [n, classes] float32. Where those of all silos take more than 100 MB they are float16, and left out
                 where they take more even so
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from amity.contract import Model, Silo
from amity.learn.metrics import usable
from amity.learn.task import Task
from amity.predicting.model import outputs_of, restored
from amity.record.files import Array

LIMIT = 100_000_000
"""Bytes of the probabilities of a run, over all silos."""


def outcomes(task: Task, silos: Sequence[Silo], models: Mapping[str, Model]) -> dict[str, dict[str, Array]]:
    """Return by silo what its model says about its own test examples, as arrays to be written."""
    kind = kind_of(sum(len(silo.test.y) for silo in silos) * task.classes)
    return {silo.name: outcome(task, silo, models[silo.name], kind) for silo in silos}


def kind_of(numbers: int) -> type[np.floating] | None:
    """Return the type in which so many probabilities are kept; None: they are not."""
    kinds: tuple[type[np.floating], ...] = (np.float32, np.float16)
    return next((kind for kind in kinds if numbers * np.dtype(kind).itemsize <= LIMIT), None)


def outcome(task: Task, silo: Silo, model: Model, kind: type[np.floating] | None = np.float32) -> dict[str, Array]:
    """Return what one silo's model says about its test examples; probabilities are of this kind, None: without."""
    outputs = outputs_of(task, model, task.prepare(silo.test).x)
    if not task.classes:
        said, truth = (restored(values, silo.scale) for values in (outputs[:, 0], silo.test.y))
        return {"truth": _array(truth), "predicted": _array(said)}
    guess = outputs.argmax(1).where(usable(outputs), -1)
    found = {"truth": _array(silo.test.y).astype(np.int32), "predicted": _array(guess).astype(np.int32)}
    if kind is not None:
        found["probabilities"] = _array(outputs.softmax(1)).astype(kind)
    return found


def _array(values: Tensor) -> Array:
    return values.numpy(force=True)
