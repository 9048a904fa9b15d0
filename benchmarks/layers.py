"""Where the time of a training step goes: the McMahan CNN layer by layer, in several memory orders.

amity bench benchmarks/layers.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from amity.engines.local.allocator import keep_freed_memory
from amity.models.fourier import convolve_pool_relu
from benchmarks.local import GEMM, Size, gemm, network, share_of_gemm, threads, threads_used
from benchmarks.measure import Figures, Goal, Work, lazily

FIRST, POOL, SECOND, DENSE, ADAM = (
    "conv 1",
    "pool 1, ReLU",
    "conv 2, pool 2, ReLU",
    "dense layers",
    "Adam, proximal term",
)
DEFAULT, LAST, BLOCKS, SPECTRA = "default order", "channels-last", "blocks", "spectra"

LAYERS = {
    FIRST: (slice(0, 1), (1, 28, 28), (DEFAULT, LAST)),
    POOL: (slice(1, 3), (32, 28, 28), (DEFAULT, LAST)),
    SECOND: (slice(3, 6), (32, 14, 14), (DEFAULT, LAST, BLOCKS, SPECTRA)),
    DENSE: (slice(7, None), (3136,), ("",)),
}
"""Which of the network, the shape of an example, memory orders."""


def _name(layer: str, order: str) -> str:
    return f"{layer}: {order}" if order else layer


def cases(quick: bool = False) -> dict[str, Work]:
    """Steps of the McMahan CNN layer by layer, forward and backward, batch 100, one thread per core."""
    batch, count = (4, 1) if quick else (100, 20)
    found = {
        _name(layer, order): lazily(partial(steps, layer, order, batch, count))
        for layer, (_, _, orders) in LAYERS.items()
        for order in orders
    }
    found[ADAM] = lazily(partial(optimiser, count))
    found[GEMM] = lazily(lambda: gemm(Size(0, 0, 0, count)))
    return found


def baseline(case: str) -> None:
    return None


def steps(layer: str, order: str, batch: int, count: int) -> Work:
    """Forward and backward of some layers, every thread with its own."""
    where, shape, _ = LAYERS[layer]

    def make() -> tuple[nn.Sequential, Tensor]:
        module = network(pool_first=True)[where]
        assert isinstance(module, nn.Sequential)  # a slice of one is one
        x = torch.randn(batch, *shape)
        if order in (LAST, BLOCKS, SPECTRA):
            for p in module.parameters():
                p.data = _channels_last(p.data) if p.dim() == 4 else p.data
            x = _channels_last(x)
        return module, x.requires_grad_(layer != FIRST)  # pictures need no gradient

    def once(module: nn.Sequential, x: Tensor) -> None:
        if order == SPECTRA:
            first = module[0]
            assert isinstance(first, nn.Conv2d)
            out = convolve_pool_relu(first, x)
        else:
            out = module(x.to_mkldnn()).to_dense() if order == BLOCKS else module(x)
        torch.autograd.grad(out, [*module.parameters(), *([x] if x.requires_grad else [])], torch.ones_like(out))

    made = [make() for _ in range(threads_used())]
    with FlopCounterMode(display=False) as counter:
        module, x = made[0]
        module(x).sum().backward()
    return _everywhere([partial(once, *own) for own in made], count, float(counter.get_total_flops()))


def optimiser(count: int) -> Work:
    """What comes after the gradient."""

    def make() -> Callable[[], None]:
        size = sum(p.numel() for p in network(pool_first=True).parameters())
        params, centre, gradient = (torch.randn(size) for _ in range(3))
        adam = torch.optim.Adam([params], fused=True)

        def once() -> None:
            params.grad = gradient.add_((params - centre).mul_(1e-4))
            adam.step()

        return once

    return _everywhere([make() for _ in range(threads_used())], count, 0.0)


def _everywhere(works: list[Callable[[], None]], count: int, flops: float) -> Work:
    """As many passes on every thread, with memory kept as it is in a run."""
    keep_freed_memory()
    pool = threads()

    def several(once: Callable[[], None]) -> None:
        for _ in range(count):
            once()

    def work() -> Figures:
        list(pool.map(several, works))
        return {"flops": flops * count * len(works)}

    return work


def _channels_last(x: Tensor) -> Tensor:
    """Where there is one channel only, torch takes any order for channels-last unless the strides say it."""
    count, channels, height, width = x.shape
    return x.permute(0, 2, 3, 1).flatten().clone().view(count, height, width, channels).permute(0, 3, 1, 2)


GOALS = [
    Goal(f"useful FLOP/s of {case} against matrix products", share_of_gemm(case))
    for layer, (_, _, orders) in LAYERS.items()
    if layer != POOL
    for case in (_name(layer, order) for order in orders)
]
