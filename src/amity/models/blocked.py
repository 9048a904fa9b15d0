"""Layers in oneDNN's own memory order: blocks of channels, with faster kernels than any order that torch knows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def through(layers: Sequence[nn.Module], x: Tensor) -> Tensor:
    """One layer after the other."""
    for layer in layers:
        x = layer(x)
    return x


def through_blocks(first: nn.Conv2d, after: Sequence[nn.Module], x: Tensor) -> Tensor:
    """A convolution, then pools and ReLU, in blocks where that is possible: the same up to rounding, only sooner.

    It pays for many channels and for training, not for a first layer or evaluation. The pool of oneDNN may lose a NaN,
    so numbers must be too small for one: nothing that the convolution adds up can exceed the bound.
    """
    layers = [first, *after]
    possible = x.device.type == "cpu" and x.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    if possible and torch.is_grad_enabled() and len(x) and torch.isfinite(_bound(first, x)):
        return through(layers, x.to_mkldnn()).to_dense()
    return through(layers, x)


@torch.no_grad()
def _bound(layer: nn.Conv2d, x: Tensor) -> Tensor:
    most = x.abs().amax() * layer.weight.abs().sum()
    return most if layer.bias is None else most + layer.bias.abs().amax()
