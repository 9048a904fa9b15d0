"""An outline of a model: its tensors with few numbers each, in proportion to their sizes."""

from __future__ import annotations

from itertools import accumulate

import torch

from amity.contract import Federation, Model
from amity.learn.task import Task
from amity.learn.vectors import Layout, Slot, length


class Outline(Task):
    """A task whose model has `width` numbers for each hundredth of the parameters, and no buffers.

    So a part of the model, such as its last layer, is as large a part of the outline.
    """

    def __init__(self, task: Task, width: int) -> None:
        self.__dict__.update(task.__dict__)
        counts = [width * share for share in shares(task)]
        starts = [0, *accumulate(counts)]
        named = zip((slot.name for slot in task.layout.params), counts, starts, strict=False)
        slots = tuple(Slot(name, torch.Size([count]), start) for name, count, start in named)
        self.layout = Layout(slots, (), ())
        self.size = length(slots)

    def initial(self, fed: Federation, client: int | None = None) -> Model:
        none = torch.zeros(0, dtype=self.dtype)
        return {"params": torch.zeros(self.size, dtype=self.dtype), "buffers": none, "counts": none.long()}


def shares(task: Task) -> list[int]:
    """How many hundredths of the parameters each tensor has, one at least."""
    return [max(1, round(100 * slot.shape.numel() / task.size)) for slot in task.layout.params]
