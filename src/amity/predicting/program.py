"""A personal model as one module for others: what comes out are probabilities, or the quantity in its own unit."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import torch
from torch import Tensor, nn

from amity.contract import Model, Scale
from amity.errors import AmityError
from amity.learn.task import Task
from amity.models.fourier import TwoConvolutions
from amity.predicting.model import Restored
from amity.record.contents import ModelFacts

CLOSE = 1e-5
"""How far an exported model's outputs may be from ours, over the largest of them or 1."""

COUNTS = (1, 2, 33)  # examples at a time that an exported model is tried with


def program_of(facts: ModelFacts, task: Task, model: Model) -> nn.Module:
    """Return the model with its last step: softmax, or the silo's own unit."""
    last = Restored(Scale(*facts["scale"])) if facts["labels"] is None else nn.Softmax(1)
    return nn.Sequential(plain(task.module(model).cpu()), last).eval()


def plain(module: nn.Module) -> nn.Module:
    """Return the same function without convolutions by spectra, which no exporter knows."""
    return nn.Sequential(*module) if isinstance(module, TwoConvolutions) else module


def inputs_like(facts: ModelFacts, count: int) -> Tensor:
    """Return made-up examples between the smallest and the largest number that the model was trained on."""
    low, high = facts.get("seen", [-1.0, 1.0])
    rng = torch.Generator().manual_seed(count)
    return low + (high - low) * torch.rand(count, *facts["shape"], generator=rng)


@contextmanager
def quiet_torch() -> Iterator[None]:
    """Silence torch's exporters: what they say about their own future, and about packages that they can do without."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            for kind in (DeprecationWarning, FutureWarning):
                warnings.simplefilter("ignore", kind)
            yield
    finally:
        log.setLevel(before)


class NotEqual(AmityError):
    """An exported model does not say what ours says: it is not left on disk."""


def check_equal(said: Tensor, ours: Tensor, where: str) -> float:
    """Return how far outputs are apart, over the largest or 1; refuse what is too far."""
    same = said.shape == ours.shape
    far = float((said - ours).abs().max() / ours.abs().max().clamp(min=1)) if same else float("inf")
    if not far <= CLOSE:
        raise NotEqual(f"{where} must say what the model says to {CLOSE:g}, it is {far:.2g} away: nothing was written")
    return far
