"""Matrices with a row for every silo: making some rows, and putting some in place of others.

Both are plain functions of their arguments. An engine may lend them storage (`Storage`), so that a federation of large
models needs no more matrices than it must; what they return has the same numbers either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from torch import Tensor


class Storage(Protocol):
    """Storage that an engine lends to what is computed inside `lent`."""

    def new_rows(self, like: Tensor, count: int) -> Tensor:
        """So many rows like those of a matrix, with any numbers in them."""

    def room_of(self, rows: Tensor) -> Tensor | None:
        """The matrix that begins with these rows and may be overwritten, if there is one; it is given once."""


_LENT: ContextVar[Storage | None] = ContextVar("_LENT", default=None)


@contextmanager
def lent(storage: Storage) -> Iterator[None]:
    """Let matrices that are made inside lie in this storage."""
    token = _LENT.set(storage)
    try:
        yield
    finally:
        _LENT.reset(token)


def new_rows(like: Tensor, count: int) -> Tensor:
    """So many rows like those of a matrix, to be filled.  # [count, d]"""
    storage = _LENT.get()
    return like.new_empty(count, *like.shape[1:]) if storage is None else storage.new_rows(like, count)


def replace_rows(matrix: Tensor, who: Tensor, rows: Tensor) -> Tensor:
    """The matrix with the rows `who`, which ascend, replaced by these.  # [m, d]"""
    if len(who) == len(matrix):
        return rows
    storage = _LENT.get()
    room = None if storage is None else storage.room_of(rows)
    if room is None or room.shape != matrix.shape:
        return matrix.index_copy(0, who.to(matrix.device), rows)
    places = who.tolist()
    # `who` ascends, so row j moves to places[j] >= j: begun at the last, none is overwritten before it has moved.
    for j in reversed(range(len(places))):
        room[places[j]] = rows[j]
    for i in set(range(len(matrix))).difference(places):
        room[i] = matrix[i]
    return room
