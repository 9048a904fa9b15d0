"""What has to be kept with a personal model, so that it can be used when the run is long over."""

from __future__ import annotations

from amity.contract import Silo
from amity.data.silos import Silos
from amity.learn.task import Task
from amity.models import BuiltIn
from amity.record.contents import ModelFacts


def facts_of(silos: Silos, silo: Silo, task: Task, *, method: str, model: str, round: int) -> ModelFacts:
    """Return what the personal model of a silo takes and gives.

    `silos`: the federation, made ready as it was learnt from. `model`: what the model is called. `round`: after which
    it is the personal model.
    """
    return ModelFacts(
        silo=silo.name,
        method=method,
        model=model,
        own=not isinstance(task.make, BuiltIn),
        round=round,
        shape=list(task.shape),
        labels=_classes(silos, task),
        label=silos.label or None,
        features=list(silos.features) or None,
        pixels=silos.pixels,
        scale=list(silo.scale),
        schema=None if silos.schema is None else dict(silos.schema.json()),
        seen=_seen(silos, silo),
    )


def _classes(silos: Silos, task: Task) -> list[str] | None:
    """Return the classes in the order of the outputs, by their numbers where they have no names."""
    if not task.classes:
        return None
    return list(silos.labels) if len(silos.labels) == task.classes else [str(place) for place in range(task.classes)]


def _seen(silos: Silos, silo: Silo) -> list[float]:
    """Return the smallest and the largest number among training examples; pooled, they lie at the first silo."""
    x = silo.train.x if len(silo.train.y) else silos.silos[0].train.x
    low, high = x.aminmax()
    return [float(low), float(high)]
