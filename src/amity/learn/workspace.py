"""One thread's copy of a module, bound to flat vectors, and random numbers that are its own."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from amity.contract import Model
from amity.learn.vectors import Layout, length


class Workspace:
    """One thread's module, bound to flat vectors."""

    def __init__(self, module: nn.Module, layout: Layout, dtype: torch.dtype, device: torch.device) -> None:
        self.module = module
        self.gradient = torch.zeros(length(layout.params), dtype=dtype, device=device)
        self.vectors: Model = {
            "params": torch.zeros_like(self.gradient),
            "buffers": torch.zeros(length(layout.buffers), dtype=dtype, device=device),
            "counts": torch.zeros(length(layout.counts), dtype=torch.int64, device=device),
        }
        params = dict(module.named_parameters())
        for slot in layout.params:
            params[slot.name].data = slot.view(self.vectors["params"])
            params[slot.name].grad = slot.view(self.gradient)
        for slot in layout.buffers:
            _replace_buffer(module, slot.name, slot.view(self.vectors["buffers"]))
        # Counters keep their integer type inside the module (they may be used as indices) and are copied.
        buffers = dict(module.named_buffers())
        self._counters = [(buffers[s.name], s.view(self.vectors["counts"])) for s in layout.counts]

    def load(self, model: Model) -> Model:
        """Copy a model in, unless it is this workspace's own."""
        if model["params"] is not self.vectors["params"]:
            for key, value in self.vectors.items():
                value.copy_(model[key])
            for inside, flat in self._counters:
                inside.copy_(flat)
        return self.vectors

    def read_counts(self) -> None:
        """Copy the module's counters into the flat vector."""
        for inside, flat in self._counters:
            flat.copy_(inside)


def _replace_buffer(module: nn.Module, name: str, value: Tensor) -> None:
    owner, _, leaf = name.rpartition(".")
    module.get_submodule(owner)._buffers[leaf] = value


class Keyed(TorchDispatchMode):
    """Every random operation inside draws from the given generator instead of the process-wide one."""

    def __init__(self, rng: Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rng = rng

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        takes = any(argument.name == "generator" for argument in func._schema.arguments)
        if not takes and any("generator" in overload for overload in func.overloadpacket.overloads()):
            func, takes = func.overloadpacket, True  # torch.rand and the like: another overload takes it
        if takes and kwargs.get("generator") is None:
            kwargs["generator"] = self.rng
        return func(*args, **kwargs)


class Threads(threading.local):
    """What each thread keeps for itself."""

    space: Workspace | None = None
