"""Random streams keyed by what they are for, never by the order in which work happens to be scheduled.

Two methods that make the same local call in the same round see the same batches; the number of workers changes
nothing. Draws over clients are made in the order of the clients' keys, so that relabelling clients only permutes
the outcome.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor


def stream(seed: int, role: str, key: int = 0, round: int = 0, epoch: int = 0) -> Generator:
    """A generator that depends on these five values and on nothing else."""
    return Generator().manual_seed(seed_of(seed, role, key, round, epoch))


def seed_of(seed: int, role: str, key: int = 0, round: int = 0, epoch: int = 0) -> int:
    """The stream's own seed, for draws that need no generator."""
    return key_of(f"{seed}/{role}/{key}/{round}/{epoch}")


def key_of(name: str) -> int:
    """A client's stream key: its name's hash, so that a client keeps its streams wherever it stands in the list."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") >> 1


def order(seed: int, size: int) -> Tensor:
    """A random order of 0 .. size - 1 that depends on a stream's seed and on nothing else.  # [size]"""
    return torch.from_numpy(orders([seed], size)[0])


def orders(seeds: Sequence[int], size: int) -> NDArray[np.int64]:
    """The orders of many seeds at once.  # [k, size]

    Positions in the order of their random numbers, those of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): number p
    is mix(seed + p * step) in arithmetic modulo 2^64, so all numbers of all seeds are made at once. The step is odd
    and mix is one to one, so no two numbers of a seed are equal, and every sort gives the same order.
    """
    steps = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = np.array(seeds, dtype=np.uint64)[:, None] + steps
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(z ^ (z >> np.uint64(31)), axis=1)


def shuffled(keys: Tensor, rng: Generator) -> Tensor:
    """A random order of the positions of `keys` that depends on the keys, not on where they stand.  # [n]"""
    by_key = torch.argsort(keys, stable=True)
    return by_key[torch.randperm(len(keys), generator=rng)]


def uniforms(keys: Tensor, rng: Generator) -> Tensor:
    """One uniform number per position, drawn in the order of the keys.  # [n] float64"""
    out = torch.empty(len(keys), dtype=torch.float64)
    out[torch.argsort(keys, stable=True)] = torch.rand(len(keys), generator=rng, dtype=torch.float64)
    return out
