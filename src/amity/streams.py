"""Random streams keyed by what they are for, never by the order in which work happens to be scheduled.

Two methods that make the same local call in the same round see the same batches; the number of workers changes
nothing. Draws over clients are made in the order of the clients' keys, so that relabelling clients only permutes
the outcome.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Generator, Tensor


def stream(seed: int, role: str, key: int = 0, round: int = 0, epoch: int = 0) -> Generator:
    """A generator that depends on these five values and on nothing else."""
    text = f"{seed}/{role}/{key}/{round}/{epoch}".encode()
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return Generator().manual_seed(int.from_bytes(digest, "little") >> 1)


def key_of(name: str) -> int:
    """A client's stream key: its name's hash, so that a client keeps its streams wherever it stands in the list."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") >> 1


def shuffled(keys: Tensor, rng: Generator) -> Tensor:
    """A random order of the positions of `keys` that depends on the keys, not on where they stand.  # [n]"""
    by_key = torch.argsort(keys, stable=True)
    return by_key[torch.randperm(len(keys), generator=rng)]


def uniforms(keys: Tensor, rng: Generator) -> Tensor:
    """One uniform number per position, drawn in the order of the keys.  # [n] float64"""
    out = torch.empty(len(keys), dtype=torch.float64)
    out[torch.argsort(keys, stable=True)] = torch.rand(len(keys), generator=rng, dtype=torch.float64)
    return out
