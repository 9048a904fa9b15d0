"""Random numbers from a key, that nobody without the key can predict.

torch's generators are made for speed and repeatability: from some of their numbers, all others follow. The noise of
differential privacy protects only as long as nobody can take it away again, so it comes from a cryptographic function:
SHAKE-256 of the key and a counter. No number is ever given twice.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class SecretNumbers:
    """A stream of random numbers that follows from a key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._drawn = 0  # how often numbers were asked for

    def uniform(self, count: int) -> Tensor:
        """Numbers between 0 and 1, both excluded.  # [count] float64"""
        return torch.from_numpy(self._uniform(count))

    def normal(self, count: int) -> Tensor:
        """Numbers of the standard normal distribution.  # [count] float64

        Box and Muller: with u, v uniform, sqrt(-2 log u) cos(2 pi v) and the same with sin are two of them.
        """
        half = -(-count // 2)
        u, v = self._uniform(2 * half).reshape(2, half)
        radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
        return torch.from_numpy(np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count])

    def _uniform(self, count: int) -> NDArray[np.float64]:
        self._drawn += 1
        stream = hashlib.shake_256(self._key + self._drawn.to_bytes(8, "big")).digest(8 * count)
        whole = np.frombuffer(stream, dtype=np.uint64) >> np.uint64(12)  # 52 bits: a half more is exact
        return (whole.astype(np.float64) + 0.5) * 2.0**-52

    def __repr__(self) -> str:
        return "SecretNumbers(...)"  # never in a log
