"""What a server can say of models when it knows their Gram matrix alone, and which numbers of it are asked of whom."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def points(gram: Tensor) -> Tensor:
    """Points whose inner products are these: the models, up to a rotation.  # [n, n] -> [n, n]

    The noise on inner products may leave a matrix that no points have: the nearest one that some have counts.

    >>> found = points(torch.tensor([[4.0, 2.0], [2.0, 2.0]], dtype=torch.float64))
    >>> (found @ found.T).round().tolist()
    [[4.0, 2.0], [2.0, 2.0]]
    """
    values, vectors = torch.linalg.eigh(gram)
    found: Tensor = vectors * values.clamp(min=0).sqrt()
    return found


def others(who: Sequence[int], heard: Tensor) -> list[int]:
    """Silos that are not among these, and of whom the server has a model."""
    here = set(who)
    return [client for client in heard.nonzero()[:, 0].tolist() if client not in here]


def pairs_of(who: Sequence[int], heard: Tensor) -> dict[int, list[int]]:
    """Whose inner products each of these silos decrypts: all pairs in which something has changed, each once.

    >>> pairs_of([0, 1, 2], torch.tensor([True, False, False, True]))
    {0: [1, 3], 1: [2, 3], 2: [0, 3]}
    """
    earlier = others(who, heard)
    return {i: [*(j for j in who if _asked(i, j)), *earlier] for i in who}


def _asked(one: int, other: int) -> bool:
    """Whether the first of two silos is asked about both: about half of the others by each."""
    return one != other and (one < other) == bool((one + other) % 2)
