"""The server's step against the matrix products that it consists of, in one run.

    python benchmarks/server.py [--clients 100] [--size 1663370] [--repeats 3]

Models are float32; products of pairs are in float64, as methods ask, and bare mixing in float32, which is half the work
of the float64 sums that Amity makes. A pairwise loop is timed on a part of the pairs and scaled up.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from amity.attention import negexp, shares
from amity.vectors import cosines, mix, squared_distances

MCMAHAN = 1_663_370
"""Parameters of the McMahan CNN."""


def cases(clients: int = 100, size: int = MCMAHAN) -> dict[str, Callable[[], object]]:
    """Attention over 100 models of 1,663,370 parameters: pairs and mixing. First the two bare matrix products."""
    torch.set_num_threads(os.cpu_count() or 1)
    models = torch.randn(clients, size, generator=torch.Generator().manual_seed(0))
    out = torch.empty_like(models)
    step = max(1, (1 << 22) // clients)  # columns in float64 at a time, so that they fit into memory

    def bare() -> Tensor:
        products = torch.zeros(clients, clients, dtype=torch.float64)
        for part in models.split(step, dim=1):
            wide = part.double()
            products += wide @ wide.T
        return torch.mm(torch.softmax(products / size, 1).float(), models, out=out)

    def by_cosine() -> Tensor:
        return mix(shares(100 * cosines(models), None), models, out=out)

    def by_distance() -> Tensor:
        return mix(shares(negexp(size).log_slope(squared_distances(models)), None), models, out=out)

    return {"bare products": bare, "cosines and mix": by_cosine, "distances and mix": by_distance}


def pairwise(clients: int = 100, size: int = MCMAHAN, rows: int = 2) -> float:
    """Seconds that a loop over pairs would take for all rows, from the first few."""
    models = torch.randn(clients, size, generator=torch.Generator().manual_seed(0))
    began = time.perf_counter()
    for one in models[:rows]:
        weights = torch.softmax(torch.stack([F.cosine_similarity(one, other, dim=0) for other in models]), 0)
        total = torch.zeros_like(one)
        for weight, other in zip(weights, models, strict=True):
            total = total + weight * other
    return (time.perf_counter() - began) * clients / rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--size", type=int, default=MCMAHAN)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    print(f"{asked.clients} models of {asked.size:,} parameters, {os.cpu_count()} cores, torch {torch.__version__}")
    candidates = cases(asked.clients, asked.size)
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for repeat in range(asked.repeats + 1):
        for name, work in candidates.items():
            began = time.perf_counter()
            work()
            if repeat:  # the first pass is not measured
                seconds[name].append(time.perf_counter() - began)
    baseline = next(iter(seconds.values()))
    for name, times in seconds.items():
        ratio = statistics.median(mine / bare for mine, bare in zip(times, baseline, strict=True))
        print(f"  {name:<20} {statistics.median(times):8.3f} s   {ratio:6.2f} x the bare products")
    loop = pairwise(asked.clients, asked.size)
    print(f"  {'pairwise loop':<20} {loop:8.3f} s   {loop / statistics.median(baseline):6.2f} x (scaled up)")


if __name__ == "__main__":
    main()
