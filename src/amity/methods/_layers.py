"""Parts of a model: which layers belong to one, taken out of its flat vectors and put back.

Methods that share some layers and keep others differ in which layers those are (`Chosen`), not in how they are cut.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from amity.config.options import unknown
from amity.contract import MODEL, InputError, Model
from amity.learn.task import Task
from amity.learn.vectors import Slot

Chosen = Callable[[Slot], bool]
"""Whether a tensor of the module belongs to the part."""


def part(task: Task, model: Model, chosen: Chosen, side: bool = True) -> Model:
    """Of a whole model the tensors that are chosen; with `side=False` the others."""
    out = {}
    for key, slots in zip(MODEL, task.layout, strict=True):
        pieces = [model[key][s.start : s.start + s.shape.numel()] for s in slots if chosen(s) == side]
        out[key] = torch.cat([model[key][:0], *pieces])
    return out


def whole(task: Task, inside: Model, outside: Model, chosen: Chosen) -> Model:
    """The model of which `inside` has the chosen tensors and `outside` the others."""
    out = {}
    for key, slots in zip(MODEL, task.layout, strict=True):
        pieces, used = [inside[key][:0]], {True: 0, False: 0}
        for slot in slots:
            side = chosen(slot)
            stop = used[side] + slot.shape.numel()
            pieces.append((inside if side else outside)[key][used[side] : stop])
            used[side] = stop
        out[key] = torch.cat(pieces)
    return out


def ones(task: Task, chosen: Chosen, side: bool = True) -> Tensor:
    """1 at the parameters that are chosen and 0 at the others, or the other way round.  # [d]"""
    pieces = [torch.full((slot.shape.numel(),), float(chosen(slot) == side)) for slot in task.layout.params]
    return torch.cat(pieces).to(task.device, task.dtype)


def layer_of(slot: Slot) -> str:
    """The name of the layer that a tensor lies in."""
    return slot.name.rpartition(".")[0]


def within(name: str, layer: str) -> bool:
    """Whether a tensor is this one, or lies in this layer."""
    return f"{name}.".startswith(f"{layer}.")


def named(task: Task, names: str) -> Chosen:
    """The tensors whose names begin with one of these, which commas part; a name that fits none is refused."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = [slot.name for slots in task.layout for slot in slots]
    for name in wanted:
        if not any(within(other, name) for other in known):
            raise unknown("parameter or layer", name, known)
    return lambda slot: any(within(slot.name, name) for name in wanted)


def last_layer(task: Task) -> Chosen:
    """The last layer that has parameters; of a model with one such layer its last tensor, the bias."""
    last = task.layout.params[-1]
    if all(layer_of(slot) == layer_of(last) for slot in task.layout.params):
        return lambda slot: slot.name == last.name
    return lambda slot: layer_of(slot) == layer_of(last)


def last_layers(task: Task, count: int) -> int:
    """Where the parameters of the last `count` layers begin in a flat vector; 0 where there are no more layers.

    A module lists the parameters of each layer together, so those of the last layers are the end of the vector.
    """
    starts: dict[str, int] = {}
    for slot in task.layout.params:
        starts.setdefault(layer_of(slot), slot.start)
    return [*starts.values(), task.size][max(0, len(starts) - count)]


def head_of(task: Task, head: str, method: str) -> Chosen:
    """The head: the last layer, or what is named. Refused where it would be all of the model or nothing of it."""
    chosen = last_layer(task) if head == "last" else named(task, head)
    sides = {chosen(slot) for slot in task.layout.params}
    if len(sides) == 1:
        what = "all of the model" if sides == {True} else "none of it"
        names = ", ".join(slot.name for slot in task.layout.params)
        raise InputError(f"{method} needs a head and a body, got a head that is {what}: set head to some of {names}")
    return chosen


def batchnorm(task: Task) -> Chosen:
    """Scales, shifts and statistics of the layers that normalise over the batch."""
    return lambda slot: layer_of(slot) in task.normalisers
