"""The second convolution of the McMahan CNN by spectra, written by hand for its one shape: none of it is Amity's.

The bare loop of `local.py` needs it to have the same tricks. 14x14 pictures, 5x5 kernels and padding 2 fit a circle of
16 places; 9 of 16 frequencies of the rows are enough.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ROUND, HALF = 16, 9


def _waves(places: range) -> Tensor:
    """e^(2 pi i f t / 16), frequencies by places."""
    turns = torch.outer(torch.arange(ROUND), torch.tensor(places)) % ROUND
    return torch.polar(torch.ones(turns.shape), 2 * torch.pi / ROUND * turns)


PICTURE, KERNEL = _waves(range(14)), _waves(range(-2, 3))
WEIGHT = torch.tensor([1.0, *[2.0] * 7, 1.0])[:, None] / ROUND**2  # for the seven that are left out


def _there(x: Tensor, waves: Tensor) -> Tensor:
    rows = waves[:HALF] @ x.reshape(x.shape[0], -1).to(torch.complex64)
    return (waves @ rows.view(HALF, x.shape[1], -1)).view(HALF * ROUND, *x.shape[2:])


def _back(spectrum: Tensor, waves: Tensor) -> Tensor:
    columns = waves.mT @ spectrum.view(HALF, ROUND, -1)
    places = (waves[:HALF] * WEIGHT).mT @ columns.view(HALF, -1)
    return places.real.reshape(waves.shape[1], waves.shape[1], *spectrum.shape[1:])


class Convolution(torch.autograd.Function):
    """[14, 14, pictures, 32] and weights [64, 32, 5, 5] to [14, 14, pictures, 64]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        pictures, kernels = _there(x, PICTURE.conj()), _there(weight.permute(2, 3, 1, 0), KERNEL)
        ctx.save_for_backward(pictures, kernels)
        return _back(pictures @ kernels, PICTURE)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor]:
        pictures, kernels = ctx.saved_tensors
        wanted = _there(outer, PICTURE)
        return _back(wanted @ kernels.mT, PICTURE.conj()), _back(pictures.mT @ wanted, KERNEL).permute(3, 2, 0, 1)
