"""Checks of examples and labels as tensors: what a model can be trained on, and in which form."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from amity.errors import InputError


def as_features(x: Tensor, where: str) -> Tensor:
    """Return examples as a model takes them: float32 on the CPU, every number finite."""
    check_features(x, where)
    x = x.detach().cpu().float()
    for start, rows in _blocks(x):
        bad = (~rows.isfinite()).flatten(1).any(1).nonzero().flatten()
        if len(bad):
            raise InputError(
                f"{where} x must be finite, got NaN or infinity in row {start + bad[0]}: impute or drop it"
            )
    return x


def check_features(x: Tensor, where: str) -> None:
    """Refuse examples of another kind or shape than [n, ...] floating point or uint8."""
    # Other whole numbers may be counts or indices into a table: only the user knows which.
    if not x.is_floating_point() and x.dtype != torch.uint8:
        raise InputError(f"{where} x must be floating point or uint8, got {_dtype(x)}: convert it to float32")
    if x.layout != torch.strided:
        raise InputError(f"{where} x must be dense, got {_layout(x)}: call to_dense()")
    if x.ndim < 2:
        raise InputError(f"{where} x must be [n, ...] with features, got shape {tuple(x.shape)}: add an axis")
    if not math.prod(x.shape[1:]):
        raise InputError(f"{where} x must have at least one feature, got shape {tuple(x.shape)}: add some")


def as_labels(y: Tensor, where: str, quantities: bool) -> Tensor:
    """Return labels [n] as int64 classes from 0 on, or as finite float64 quantities."""
    if y.is_complex() or y.is_floating_point() and not quantities:
        raise InputError(
            f"{where} labels must be whole numbers, got {_dtype(y)}: convert them to int64, "
            "or set classes=0 if they are quantities"
        )
    if y.layout != torch.strided:
        raise InputError(f"{where} labels must be dense, got {_layout(y)}: call to_dense()")
    if y.ndim != 1:
        raise InputError(f"{where} labels must be [n], got shape {tuple(y.shape)}: give one per example")
    if quantities:
        y = y.detach().cpu().double()  # until they are standardised, which float32 may not survive
        if len(bad := (~y.isfinite()).nonzero()):
            raise InputError(f"{where} labels must be finite, got NaN or infinity in row {bad[0, 0]}: drop the row")
        return y
    y = y.detach().cpu().long()
    if len(y) and y.min() < 0:
        raise InputError(f"{where} labels must be >= 0, got {y.min()}: number the classes from 0")
    return y


def _blocks(x: Tensor, numbers: int = 2**22) -> Iterator[tuple[int, Tensor]]:
    """Yield the rows of a tensor in blocks of this many numbers, each with the place where it starts.

    Temporary tensors made from a block stay small.
    """
    step = max(1, numbers // max(1, math.prod(x.shape[1:])))
    for start in range(0, len(x), step):
        yield start, x[start : start + step]


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _layout(tensor: Tensor) -> str:
    return str(tensor.layout).removeprefix("torch.")
