"""Convolution by spectra is convolution, whatever the shapes."""

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from amity.models.fourier import convolve_pool_relu


@st.composite
def layers(draw: Any) -> Any:
    kernel = (draw(st.integers(1, 6)), draw(st.integers(1, 6)))
    padding = tuple(draw(st.integers(0, side - 1)) for side in kernel)
    sides = tuple(draw(st.integers(max(2, k + 1 - 2 * p), 12)) for k, p in zip(kernel, padding, strict=True))
    channels, outputs, pictures = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(16, 18))
    torch.manual_seed(draw(st.integers(0, 99)))
    layer = torch.nn.Conv2d(channels, outputs, kernel, padding=padding).double()
    return layer, torch.randn(pictures, channels, *sides, dtype=torch.float64)


@settings(deadline=None)
@given(layers())
def test_values_and_gradients_are_those_of_torchs_convolution(drawn: tuple[torch.nn.Conv2d, torch.Tensor]) -> None:
    layer, x = drawn
    x.requires_grad_()
    given = [x, *layer.parameters()]
    ours, theirs = convolve_pool_relu(layer, x), F.relu(F.max_pool2d(layer(x), 2))
    assert ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=0, atol=1e-12)
    outer = torch.randn_like(theirs)
    for a, b in zip(torch.autograd.grad(ours, given, outer), torch.autograd.grad(theirs, given, outer), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-11)


def test_only_what_is_asked_for_is_computed() -> None:
    """A frozen layer under a trained one, and a trained layer on pictures."""
    layer = torch.nn.Conv2d(2, 3, 5, padding=2)
    x = torch.randn(16, 2, 8, 8, requires_grad=True)
    convolve_pool_relu(layer.requires_grad_(False), x).sum().backward()
    assert x.grad is not None and layer.weight.grad is None
    convolve_pool_relu(layer.requires_grad_(True), x.detach()).sum().backward()
    assert layer.weight.grad is not None


def test_rounding_is_no_worse_than_that_of_the_layer() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(32, 64, 5, padding=2)
    x = torch.randn(32, 32, 14, 14)
    assert layer.bias is not None
    exact = F.relu(F.max_pool2d(F.conv2d(x.double(), layer.weight.double(), layer.bias.double(), padding=2), 2))
    direct = F.relu(F.max_pool2d(layer(x), 2))
    assert (convolve_pool_relu(layer, x) - exact).abs().max() <= 2 * (direct - exact).abs().max()
