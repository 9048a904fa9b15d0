"""A convolution with a large kernel by products of spectra: the same function, several times sooner.

A 5x5 kernel costs 25 multiplications per output and pair of channels; a product of spectra costs four per frequency,
and half of a picture's frequencies are the conjugates of the other half. The transforms are products with small
matrices of waves, so everything is a product of matrices, and rounding errors are smaller than those of 800 terms
added one after the other.

For one side and one pair of channels, with places that wrap round at N = side + padding (x is 0 on the padding),

    y[i]  = sum_u x[i + u - p] w[u]        V(f) = sum_j x[j] e^(-ifj),   U(f) = sum_u w[u] e^(if(u - p))
                                           y[i] = 1/N sum_f V(f) U(f) e^(ifi)
    dx[j] = sum of dy[i] w[u], j = i+u-p   D(f) = sum_i dy[i] e^(ifi),   dx[j] = 1/N sum_f D(f) U(f) e^(-ifj)
    dw[u] = sum of x[j] dy[i], j = i+u-p   dw[u] = 1/N sum_f V(f) D(f) e^(if(u - p))

where f runs over 2 pi/N times 0 .. N-1: pictures have the sign -, kernels and outputs the sign +, and no conjugate is
ever taken. Over two sides the rows need only the frequencies 0 .. N/2, all others being conjugates of these.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

_SPECTRA = {torch.float32: torch.complex64, torch.float64: torch.complex128}
_WORTH = 16  # pictures: with fewer, the kernel's own transforms cost more than is won


class TwoConvolutions(nn.Sequential):
    """Convolution, pool, ReLU, convolution, pool, ReLU, then anything: the second convolution is made by spectra."""

    def forward(self, input: Tensor) -> Tensor:
        layers = list(self)
        second = layers[3]
        assert isinstance(second, nn.Conv2d)
        x = input
        for layer in layers[:3]:
            x = layer(x)
        x = convolve_pool_relu(second, x)
        for layer in layers[6:]:
            x = layer(x)
        return x


def convolve_pool_relu(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """relu(max_pool2d(layer(x), 2)), for a layer without strides, dilation or groups.

    On a CPU and for batches that are not tiny; other devices have fast kernels of their own. The bias comes after the
    pool: it is the same for all that the pool compares.
    """
    if x.device.type != "cpu" or x.dtype not in _SPECTRA or len(x) < _WORTH:
        return F.relu(F.max_pool2d(layer(x), 2))
    padding = layer.padding
    assert isinstance(padding, tuple) and layer.bias is not None
    y: Tensor = _Correlation.apply(x, layer.weight, padding)  # type: ignore[no-untyped-call]
    height, width, count, channels = y.shape
    side_by_side = y.view(1, height, width, count * channels).permute(0, 3, 1, 2)  # one picture with many channels
    pooled = F.max_pool2d(side_by_side, 2).permute(0, 2, 3, 1)
    pooled = pooled.reshape(height // 2, width // 2, count, channels)
    return F.relu(pooled + layer.bias).permute(2, 3, 0, 1)


class _Correlation(torch.autograd.Function):
    """What torch calls convolution, from [n, c, h, w] to [h, w, n, c]: places first, so that they are rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, padding: tuple[int, int]) -> Tensor:
        plan = _plan(tuple(x.shape[2:]), tuple(weight.shape[2:]), padding, x.dtype)
        v = _analyse(x.permute(2, 3, 0, 1), plan.picture)
        u = _analyse(weight.permute(2, 3, 1, 0), plan.kernel)
        ctx.save_for_backward(v, u)
        ctx.plan = plan
        return _synthesise(torch.bmm(v, u), plan.output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        v, u = ctx.saved_tensors
        plan: _Plan = ctx.plan
        d = _analyse(dy, plan.output)
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = _synthesise(torch.bmm(d, u.mT), plan.picture).permute(2, 3, 0, 1)
            dx = dx.contiguous(memory_format=torch.channels_last)
        if ctx.needs_input_grad[1]:
            dw = _synthesise(torch.bmm(v.mT, d), plan.kernel).permute(3, 2, 0, 1)
        return dx, dw, None


def _analyse(x: Tensor, waves: _Waves) -> Tensor:
    """The spectrum [frequencies, a, b] of [h, w, a, b]."""
    height, width, a, b = x.shape
    flat = x.reshape(height, width * a * b)
    rows = flat.new_empty(len(waves.real), width * a * b, 2)
    rows[..., 0] = waves.real @ flat
    rows[..., 1] = waves.imag @ flat
    both = waves.columns @ torch.view_as_complex(rows).view(len(rows), width, a * b)
    return both.view(-1, a, b)


def _synthesise(spectrum: Tensor, waves: _Waves) -> Tensor:
    """[h, w, a, b] of a spectrum; only places that somebody asks for are computed."""
    _, a, b = spectrum.shape
    frequencies, height = waves.real.shape
    columns = waves.columns.mT @ spectrum.view(frequencies, -1, a * b)
    width = columns.shape[1]
    both = waves.back @ columns.view(frequencies, -1)
    return both.real.reshape(height, width, a, b)


class _Waves(NamedTuple):
    """e^(+-ift) of some places t."""

    real: Tensor  # [frequencies of rows, h]
    imag: Tensor
    columns: Tensor  # [frequencies of columns, w], complex
    back: Tensor  # [h, frequencies of rows], complex: with 1/N of both sides, and twice where a conjugate is left out


class _Plan(NamedTuple):
    picture: _Waves
    kernel: _Waves
    output: _Waves


@functools.lru_cache(maxsize=256)
def _plan(sides: tuple[int, int], kernel: tuple[int, int], padding: tuple[int, int], dtype: torch.dtype) -> _Plan:
    rounds = (sides[0] + padding[0], sides[1] + padding[1])
    picture = (torch.arange(sides[0]), torch.arange(sides[1]))
    taps = (torch.arange(kernel[0]) - padding[0], torch.arange(kernel[1]) - padding[1])
    outputs = (
        torch.arange(sides[0] + 2 * padding[0] - kernel[0] + 1),
        torch.arange(sides[1] + 2 * padding[1] - kernel[1] + 1),
    )
    spectra = _SPECTRA[dtype]
    return _Plan(
        _waves(picture, rounds, -1, spectra), _waves(taps, rounds, 1, spectra), _waves(outputs, rounds, 1, spectra)
    )


def _waves(places: tuple[Tensor, Tensor], rounds: tuple[int, int], sign: int, dtype: torch.dtype) -> _Waves:
    rows = _wave(torch.arange(rounds[0] // 2 + 1), places[0], rounds[0], sign)
    columns = _wave(torch.arange(rounds[1]), places[1], rounds[1], sign)
    twice = torch.full((len(rows), 1), 2.0)
    twice[0] = 1  # 0 and, among an even number, N/2 are their own conjugates
    if rounds[0] % 2 == 0:
        twice[-1] = 1
    back = (rows * twice).mT / (rounds[0] * rounds[1])
    rows = rows.to(dtype)
    return _Waves(rows.real.contiguous(), rows.imag.contiguous(), columns.to(dtype), back.contiguous().to(dtype))


def _wave(frequencies: Tensor, places: Tensor, whole: int, sign: int) -> Tensor:
    turns = torch.outer(frequencies, places) % whole  # whole numbers: exact however far the angle
    return torch.polar(torch.ones(turns.shape, dtype=torch.float64), sign * 2 * math.pi / whole * turns.double())
