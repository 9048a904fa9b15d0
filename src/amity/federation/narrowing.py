"""Numbers on the wire: as they are computed with (float32), or half as wide where the run contract says so.

Only what is sent is narrower. Either side computes with float32, and makes the same numbers of what has come.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import torch

from amity.contract import State
from amity.federation.messages import Answer, Message

Wire = Literal["float32", "float16", "bfloat16"]

_TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_FIELDS = ("down", "values")  # that hold tensors

M = TypeVar("M", bound=Message | Answer)


def narrowed(message: M, wire: Wire) -> M:
    """The message as it is sent. A number too large for float16 becomes infinite, and the upload is refused."""
    return _cast(message, torch.float32, _TYPES[wire]) if wire in _TYPES else message


def widened(message: M, wire: Wire) -> M:
    """The message as it is computed with."""
    return _cast(message, _TYPES[wire], torch.float32) if wire in _TYPES else message


def _cast(message: M, old: torch.dtype, new: torch.dtype) -> M:
    """The same message with tensors of another type."""
    found = {name: getattr(message, name) for name in _FIELDS if name in message._fields}
    changed = {name: _all(state, old, new) for name, state in found.items() if state}
    return message._replace(**changed)  # type: ignore[return-value, arg-type]


def _all(state: State, old: torch.dtype, new: torch.dtype) -> State:
    return {key: value.to(new) if value.dtype == old else value for key, value in state.items()}
