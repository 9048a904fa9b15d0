"""States, downloads and silos as NumPy arrays, which travel between processes; and back.

An array from elsewhere may lie in memory that others read too: `viewed` looks at it there, `copied` copies it.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from amity.contract import Download, Pick, Silo, Split, State

Arrays = dict[str, npt.NDArray[Any]]


def packed(state: State) -> Arrays:
    return {key: array_of(value) for key, value in state.items()}


def array_of(value: Tensor) -> npt.NDArray[Any]:
    return np.ascontiguousarray(value.detach().numpy()).reshape(value.shape)  # which would make [1] of a scalar


def viewed(array: npt.NDArray[Any]) -> Tensor:
    """A view into memory that may be shared, to read from."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)


def copied(array: npt.NDArray[Any]) -> Tensor:
    return viewed(array).clone()


def size_of(value: Any) -> int:
    """Bytes of a message: its pickle, with arrays beside it."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(text) + sum(buffer.raw().nbytes for buffer in buffers)


def packed_silo(silo: Silo) -> tuple[Any, ...]:
    splits = [None if split is None else tuple(map(array_of, split)) for split in (silo.train, silo.test, silo.val)]
    return silo.name, *splits, silo.group, silo.scale


def unpacked_silo(parts: tuple[Any, ...]) -> Silo:
    name, *splits, group, scale = parts
    train, test, val = (None if split is None else Split(*map(copied, split)) for split in splits)
    assert train is not None and test is not None
    return Silo(name, train, test, val, group, scale)


def divided(down: Download) -> tuple[dict[str, Arrays], State]:
    """A download as what is sent once for all workers, and the rows that go to their receivers.

    Rows that are forwarded, and one row shown to all, count as shared: a machine needs them once.
    """
    forwarded = {key: value for key, value in down.each.items() if isinstance(value, Pick)}
    rows = {key: value for key, value in down.each.items() if isinstance(value, Tensor)}
    alike = {key: value[0] for key, value in rows.items() if value.stride(0) == 0 and len(value) > 1}
    shared = {
        "shared": packed(down.shared),
        "forwarded": {key: array_of(value.rows) for key, value in forwarded.items()},
        "alike": packed(alike),
    }
    others = {key: value for key, value in rows.items() if key not in alike}
    return shared, {**others, **{key: value.chosen for key, value in forwarded.items()}}


def joined(shared: Mapping[str, Arrays], each: Arrays, count: int) -> Download:
    """The download again, for this worker's clients. Only what is forwarded still lies in shared memory."""
    stores = shared["forwarded"]
    rows: dict[str, Tensor | Pick] = {
        key: Pick(viewed(stores[key]), copied(value)) if key in stores else copied(value) for key, value in each.items()
    }
    alike = {key: copied(value).expand(count, *value.shape) for key, value in shared["alike"].items()}
    return Download({key: copied(value) for key, value in shared["shared"].items()}, {**rows, **alike})
