"""Where the server's matrices and the uploads of a round lie.

The plain way is here: new matrices, side by side. An engine whose silos live in the same process can do with fewer
(`engines/local/storage.py`); the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from amity.contract import Download, State


class Shelf(Protocol):
    """Where the uploads of a round are gathered until the server makes its new state of them."""

    def put(self, places: Sequence[int], clients: Sequence[int], rows: State) -> None:
        """Take uploads that were admitted, as rows, for these places among the silos that were asked."""

    def rows(self, places: Sequence[int]) -> State:
        """The uploads at these places, which ascend, with a leading axis. They are taken from the shelf."""

    def look(self, places: Sequence[int]) -> State:
        """The uploads at these places, which stay on the shelf."""

    def aggregating(self) -> AbstractContextManager[None]:
        """What the server makes its new state in."""

    def settle(self, server: State, places: Sequence[int], clients: Sequence[int]) -> None:
        """Hear of the server's new state, when all silos know what became of their uploads."""


class Storage(Protocol):
    """Where matrices of models lie."""

    def house(self, server: State) -> State:
        """The server's state with its matrices where they are to lie."""

    def grow(self, clients: int) -> None:
        """Hear that there are more silos now."""

    def sending(self) -> AbstractContextManager[None]:
        """What the server makes its downloads in."""

    def shelf(self, down: Download, server: State, asked: Sequence[int]) -> Shelf:
        """A place for the uploads that answer this download."""


class PlainStorage:
    """New matrices for everything."""

    def house(self, server: State) -> State:
        return server

    def grow(self, clients: int) -> None:
        pass

    def sending(self) -> AbstractContextManager[None]:
        return nullcontext()

    def shelf(self, down: Download, server: State, asked: Sequence[int]) -> Shelf:
        return Rows(len(asked))


class Rows:
    """Uploads side by side in new matrices."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._rows: State = {}

    def put(self, places: Sequence[int], clients: Sequence[int], rows: State) -> None:
        for key, value in rows.items():
            if key not in self._rows:
                self._rows[key] = value.new_empty(self._count, *value.shape[1:])
            for place, row in zip(places, value, strict=True):
                self._rows[key][place] = row

    def look(self, places: Sequence[int]) -> State:
        return self.rows(places)

    def rows(self, places: Sequence[int]) -> State:
        if len(places) == self._count:
            return dict(self._rows)
        return {key: value[list(places)] for key, value in self._rows.items()}

    def aggregating(self) -> AbstractContextManager[None]:
        return nullcontext()

    def settle(self, server: State, places: Sequence[int], clients: Sequence[int]) -> None:
        pass
