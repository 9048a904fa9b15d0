"""Bytes as tensors: messages carry tensors, and those of one kind have one size."""

from __future__ import annotations

import torch
from torch import Tensor

HEAD = 4
"""Bytes before padded content, which say how long it is."""


def tensor_of(content: bytes) -> Tensor:
    """Bytes as a tensor of their length.  # [n] uint8

    >>> tensor_of(b"ab").tolist()
    [97, 98]
    """
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.zeros(0, dtype=torch.uint8)


def bytes_of(tensor: Tensor) -> bytes:
    """The bytes in a tensor."""
    return tensor.contiguous().numpy().tobytes()


def padded(content: bytes, room: int) -> Tensor:
    """Bytes with their length before them and zeros behind.  # [room] uint8"""
    if len(content) + HEAD > room:
        raise ValueError(f"{len(content)} bytes do not go into {room - HEAD}")
    return tensor_of(len(content).to_bytes(HEAD, "big") + content + bytes(room - HEAD - len(content)))


def unpadded(tensor: Tensor) -> bytes:
    """The bytes that were padded; ValueError where the length that they say cannot be true."""
    content = bytes_of(tensor)
    length = int.from_bytes(content[:HEAD], "big")
    if not 0 < length <= len(content) - HEAD:
        raise ValueError("it is cut short")
    return content[HEAD : HEAD + length]
