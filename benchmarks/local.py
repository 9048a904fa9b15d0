"""Local training: how near it comes to what the machine can do, and how far ahead of a loop as libraries write it."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.bare_spectra import Convolution
from benchmarks.measure import Figures, Goal, Repeat, Work, lazily, speed

RATE, PULL = 1e-3, 1e-4  # of Adam, and of the proximal term PULL/2 |w - centre|^2
SIDE = 1024  # of the matrices

LIBRARY, AMITY, BARE, GEMM = "library-style loop", "amity", "bare loop, same tricks", "matrix products"


class Size(NamedTuple):
    clients: int
    images: int
    batch: int
    products: int  # of matrices, per thread


def cases(quick: bool = False) -> dict[str, Work]:
    """Local training of 8 clients, 500 images each, McMahan CNN, batch 100, one epoch of Adam with a proximal term."""
    size = Size(2, 40, 20, 1) if quick else Size(8, 500, 100, 40)
    return {
        LIBRARY: lazily(lambda: library(size)),
        AMITY: lazily(lambda: amity(size)),
        BARE: lazily(lambda: bare(size)),
        GEMM: lazily(lambda: gemm(size)),
    }


def baseline(case: str) -> str | None:
    return None if case == GEMM else LIBRARY  # products of matrices are a rate to compare with, not the same work


def library(size: Size) -> Work:
    """Clients one after the other, as libraries write it.

    DataLoader, default memory order, torch's default Adam on all parameters, the penalty in the loss, ReLU before the
    pool, and as many intra-op threads as torch chooses.
    """
    first = network(pool_first=False)
    centre = [p.detach().clone() for p in first.parameters()]
    data = [TensorDataset(*images(size, client)) for client in range(size.clients)]

    def work() -> None:
        for mine in data:
            module = copy.deepcopy(first)
            adam = torch.optim.Adam(module.parameters(), lr=RATE)
            for x, y in DataLoader(mine, batch_size=size.batch, shuffle=True):
                adam.zero_grad()
                loss = F.cross_entropy(module(x), y)
                for p, c in zip(module.parameters(), centre, strict=True):
                    loss = loss + PULL / 2 * (p - c).pow(2).sum()
                loss.backward()
                adam.step()

    return work


def amity(size: Size) -> Work:
    """The training phase of a simulated round: the same clients, as many threads as cores."""
    from amity.contract import Silo, Solver, Split
    from amity.methods.fedprox import FedProx
    from amity.models.cnn import CNN
    from benchmarks.rounds import rounds

    silos = []
    for client in range(size.clients):
        x, y = images(size, client)
        silos.append(Silo(f"silo-{client}", Split(x, y), Split(x[:1], y[:1])))
    solver = Solver("adam", RATE, batch=size.batch)
    method = FedProx(mu=PULL)
    next_round = rounds(method, lambda: CNN((1, 28, 28), 10), silos, solver=solver, timed="train")
    flops = useful_flops(size)
    return lambda: {"seconds": next_round()["seconds"], "flops": flops}


def bare(size: Size) -> Work:
    """The same tricks by hand, without Amity: flat vectors, channels-last, the second convolution by spectra, fused
    Adam, a thread per core."""
    pool = threads()
    first = flat(network(pool_first=True))[1].clone()
    data = [images(size, client) for client in range(size.clients)]
    data = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in data]
    flops = useful_flops(size)
    spaces = [flat(network(pool_first=True)) for _ in range(threads_used())]

    def train(client: int) -> Tensor:
        module, params, gradient = spaces.pop()
        x, y = data[client]
        params.copy_(first)
        adam = torch.optim.Adam([params], lr=RATE, fused=True)
        params.grad = gradient
        for chosen in torch.randperm(len(y)).split(size.batch):
            gradient.zero_()
            hidden = _second(module[3], module[:3](x[chosen]))
            F.cross_entropy(module[6:](hidden), y[chosen]).backward()
            gradient.add_((params - first).mul_(PULL))
            adam.step()
        trained = params.clone()
        spaces.append((module, params, gradient))
        return trained

    def work() -> Figures:
        list(pool.map(train, range(size.clients)))
        return {"flops": flops}

    return work


def _second(layer: nn.Module, x: Tensor) -> Tensor:
    """Convolution, pool and ReLU."""
    assert isinstance(layer, nn.Conv2d) and layer.bias is not None
    y = Convolution.apply(x.permute(2, 3, 0, 1), layer.weight)  # type: ignore[no-untyped-call]
    pooled = F.max_pool2d(y.view(1, 14, 14, -1).permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)
    return F.relu(pooled.reshape(7, 7, len(x), 64) + layer.bias).permute(2, 3, 0, 1)


def gemm(size: Size) -> Work:
    """Products of square float32 matrices on the same threads: the rate that the machine gives to dense algebra."""
    pool = threads()
    count = threads_used()
    pairs = [(torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE), torch.empty(SIDE, SIDE)) for _ in range(count)]

    def multiply(pair: tuple[Tensor, Tensor, Tensor]) -> None:
        a, b, out = pair
        for _ in range(size.products):
            torch.mm(a, b, out=out)

    def work() -> Figures:
        list(pool.map(multiply, pairs))
        return {"flops": float(count * size.products * 2 * SIDE**3)}

    return work


def network(pool_first: bool) -> nn.Sequential:
    """The McMahan CNN. Pool and ReLU may change places: values and gradients are the same."""

    def after() -> list[nn.Module]:
        pair: list[nn.Module] = [nn.ReLU(), nn.MaxPool2d(2)]
        return pair[::-1] if pool_first else pair

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        *after(),
        nn.Conv2d(32, 64, 5, padding=2),
        *after(),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )


def flat(module: nn.Sequential) -> tuple[nn.Sequential, Tensor, Tensor]:
    """The module, and the two vectors that its parameters and gradients are now views of."""
    count = sum(p.numel() for p in module.parameters())
    params, gradient = torch.zeros(count), torch.zeros(count)
    start = 0
    for p in module.parameters():
        here = slice(start, start + p.numel())
        start += p.numel()
        view = _channels_last if p.dim() == 4 else _plain
        value = p.detach().clone()
        p.data, p.grad = view(params[here], p.shape), view(gradient[here], p.shape)
        p.data.copy_(value)
    return module, params, gradient


def _plain(part: Tensor, shape: torch.Size) -> Tensor:
    return part.view(shape)


def _channels_last(part: Tensor, shape: torch.Size) -> Tensor:
    out, inner, height, width = shape
    return part.view(out, height, width, inner).permute(0, 3, 1, 2)


def images(size: Size, client: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(client)
    return torch.randn(size.images, 1, 28, 28, generator=rng), torch.randint(10, (size.images,), generator=rng)


def threads_used() -> int:
    return os.cpu_count() or 1


def threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads_used(), initializer=torch.set_num_threads, initargs=(1,))


def useful_flops(size: Size) -> float:
    """Multiplications and additions of the layers, forward and backward, over all clients' images."""
    x, y = images(size._replace(images=size.batch), 0)
    module = network(pool_first=True)
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(module(x), y).backward()
    return float(counter.get_total_flops()) / size.batch * size.images * size.clients


def share_of_gemm(case: str) -> Callable[[Repeat], float]:
    def rate(repeat: Repeat, name: str) -> float:
        return repeat[name].figures["flops"] / repeat[name].seconds

    return lambda repeat: rate(repeat, case) / rate(repeat, GEMM)


def only_products(repeat: Repeat) -> float:
    """How much faster than the library-style loop a step would be that is nothing but products of matrices."""
    return repeat[LIBRARY].seconds / (repeat[AMITY].seconds * share_of_gemm(AMITY)(repeat))


GOALS = [
    speed(LIBRARY, AMITY, at_least=1.8),
    Goal(f"a step of nothing but matrix products against {LIBRARY}", only_products),
    speed(BARE, AMITY, at_least=0.9),
    Goal("amity's useful FLOP/s against matrix products", share_of_gemm(AMITY), at_least=0.6),
    Goal("the bare loop's useful FLOP/s against matrix products", share_of_gemm(BARE)),
]
