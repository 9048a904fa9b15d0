"""The server's step: attention over all models."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from amity.bench.measure import Work, lazily
from amity.vectors import cosines, mix


def cases(quick: bool = False) -> dict[str, Work]:
    """Attention over 50 models of 431,080 parameters: cosines and mixing, all cores."""
    count, size = (4, 1000) if quick else (50, 431_080)

    def models() -> Tensor:
        return torch.randn(count, size, generator=torch.Generator().manual_seed(0))

    return {
        "pairwise loop": lazily(lambda: pairwise(models())),
        "bare float64 products": lazily(lambda: products(models())),
        "amity": lazily(lambda: amity(models())),
    }


def pairwise(models: Tensor) -> Work:
    def work() -> None:
        similar = torch.tensor([[F.cosine_similarity(a, b, dim=0).item() for b in models] for a in models])
        for row in torch.softmax(similar, 1):
            total = torch.zeros_like(models[0])
            for weight, model in zip(row, models, strict=True):
                total = total + weight * model

    return work


def products(models: Tensor) -> Work:
    def work() -> None:
        wide = models.double()
        weights = torch.softmax(wide @ wide.T, 1)
        (weights @ wide).float()

    return work


def amity(models: Tensor) -> Work:
    return lambda: mix(torch.softmax(cosines(models), 1), models)
