"""Bytes as tensors of one size."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from amity.learn.padding import HEAD, bytes_of, padded, tensor_of, unpadded


@given(st.binary(min_size=1, max_size=40), st.integers(0, 9))
def test_what_is_padded_comes_back(content: bytes, more: int) -> None:
    room = len(content) + HEAD + more
    assert padded(content, room).shape == (room,) and unpadded(padded(content, room)) == content
    assert bytes_of(tensor_of(content)) == content


def test_what_does_not_fit_or_is_cut_short_is_refused() -> None:
    with pytest.raises(ValueError, match="5 bytes do not go into 4"):
        padded(b"12345", 4 + HEAD)
    with pytest.raises(ValueError, match="cut short"):
        unpadded(padded(b"12345", 20)[:8])
    with pytest.raises(ValueError, match="cut short"):
        unpadded(torch.zeros(9, dtype=torch.uint8))
    assert tensor_of(b"").shape == (0,)
