"""The server's step: attention over all models, against the matrix products that it consists of."""

from __future__ import annotations

import os
import time
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from amity.learn.vectors import cosines, mix, squared_distances
from amity.methods._attention import negexp, shares
from benchmarks.measure import Goal, Work, lazily, speed

MCMAHAN = 1_663_370
"""Parameters of the McMahan CNN."""
FEW, MANY = "100 models", "1000 models"
BARE, COSINE, DISTANCE, PAIRWISE = "bare products", "cosines and mix", "distances and mix", "pairwise loop"


def cases(quick: bool = False) -> dict[str, Work]:
    """Attention over 100 models of 1,663,370 parameters, and over 1000 of a tenth of that: similarities of pairs in
    float64, then mixing. The bare products mix in float32, half the work of the float64 sums that Amity makes; the
    pairwise loop is timed on two rows and scaled up."""
    sizes = {FEW: (4, 1000), MANY: (8, 1000)} if quick else {FEW: (100, MCMAHAN), MANY: (1000, MCMAHAN // 10)}
    kinds = {BARE: bare, COSINE: by_cosine, DISTANCE: by_distance}
    made = {
        _name(kind, size): lazily(partial(prepare, *sizes[size])) for size in sizes for kind, prepare in kinds.items()
    }
    return {**made, _name(PAIRWISE, FEW): lazily(partial(pairwise, *sizes[FEW]))}


def _name(kind: str, size: str) -> str:
    return f"{kind}, {size}"


def baseline(case: str) -> str:
    return _name(BARE, MANY if case.endswith(MANY) else FEW)


def models(count: int, size: int) -> Tensor:
    torch.set_num_threads(os.cpu_count() or 1)
    return torch.randn(count, size, generator=torch.Generator().manual_seed(0))


def bare(count: int, size: int) -> Work:
    matrix = models(count, size)
    out = torch.empty_like(matrix)
    step = max(1, (1 << 22) // count)  # columns in float64 at a time, so that they fit into memory

    def work() -> None:
        products = torch.zeros(count, count, dtype=torch.float64)
        for part in matrix.split(step, dim=1):
            wide = part.double()
            products += wide @ wide.T
        torch.mm(torch.softmax(products / size, 1).float(), matrix, out=out)

    return work


def by_cosine(count: int, size: int) -> Work:
    matrix = models(count, size)
    out = torch.empty_like(matrix)
    return lambda: mix(shares(100 * cosines(matrix), None), matrix, out=out)


def by_distance(count: int, size: int) -> Work:
    matrix = models(count, size)
    out = torch.empty_like(matrix)
    return lambda: mix(shares(negexp(size).log_slope(squared_distances(matrix)), None), matrix, out=out)


def pairwise(count: int, size: int, rows: int = 2) -> Work:
    matrix = models(count, size)

    def work() -> dict[str, float]:
        began = time.perf_counter()
        for one in matrix[:rows]:
            weights = torch.softmax(torch.stack([F.cosine_similarity(one, other, dim=0) for other in matrix]), 0)
            total = torch.zeros_like(one)
            for weight, other in zip(weights, matrix, strict=True):
                total = total + weight * other
        return {"seconds": (time.perf_counter() - began) * count / rows}

    return work


def _slower(kind: str, size: str, at_most: float) -> Goal:
    case, base = _name(kind, size), _name(BARE, size)
    return Goal(f"time of {case} over {base}", lambda r: r[case].seconds / r[base].seconds, at_most=at_most)


GOALS = [
    *(_slower(kind, FEW, 1.5) for kind in (COSINE, DISTANCE)),
    *(_slower(kind, MANY, 2.0) for kind in (COSINE, DISTANCE)),
    speed(_name(PAIRWISE, FEW), _name(COSINE, FEW), 50),
]
