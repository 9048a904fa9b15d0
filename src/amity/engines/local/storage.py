"""A round's uploads, written straight into the rows of a matrix that the server can keep.

At most two matrices of models are alive: the server's before the round, and one that begins as the downloads, takes
each client's upload in the row of the download that it has used, and ends as the server's new matrix. What a client
holds is a view of its row there wherever it is what it has uploaded.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from torch import Tensor

from amity.contract import Download, InputError, Pick, State, nbytes
from amity.engines.local.matrices import empty, moved, with_spare_rows
from amity.federation.silo import SiloSide
from amity.learn.rows import lent


class LocalStorage:
    """Matrices in memory or in files of a folder, shared with the silos that are hosted in this process."""

    def __init__(self, silos: Mapping[int, SiloSide], clients: int, folder: Path | None = None) -> None:
        self._silos = silos
        self._clients = clients
        self._folder = folder
        self._written: set[int] = set()  # where uploads of this round go: storages

    def house(self, server: State) -> State:
        server = server if self._folder is None else housed(server, self._clients, self._folder)
        share(server, self._clients, self._silos.values())
        return server

    def grow(self, clients: int) -> None:
        self._clients = clients

    def sending(self) -> AbstractContextManager[None]:
        return lent(_Sending())

    def shelf(self, down: Download, server: State, asked: Sequence[int]) -> LocalShelf:
        shelf = LocalShelf(self._silos, down, server, len(asked), self._clients, self._folder)
        self._written = shelf.written
        return shelf

    def apart(self, state: State) -> State:
        """A silo's state without views into downloads that the uploads of this round will overwrite."""
        if not self._written:
            return state
        return {k: v.clone() if v.untyped_storage().data_ptr() in self._written else v for k, v in state.items()}


class _Sending:
    """While downloads are made: their matrices get room for a row of every silo, where uploads will go."""

    def new_rows(self, like: Tensor, count: int) -> Tensor:
        return with_spare_rows(like, count) if 1 < count <= len(like) else like.new_empty(count, *like.shape[1:])

    def room_of(self, rows: Tensor) -> Tensor | None:
        return None


class _Taking:
    """While uploads are taken: those that lie at the beginning of a large enough matrix may be put in place there."""

    def __init__(self, rooms: Mapping[int, tuple[str, Tensor]]) -> None:
        self._rooms = dict(rooms)
        self.used: set[str] = set()

    def new_rows(self, like: Tensor, count: int) -> Tensor:
        return like.new_empty(count, *like.shape[1:])

    def room_of(self, rows: Tensor) -> Tensor | None:
        key, room = self._rooms.pop(id(rows), ("", None))
        if room is not None:
            self.used.add(key)
        return room


class LocalShelf:
    """Uploads of a round as rows of matrices that the server can keep."""

    def __init__(
        self,
        silos: Mapping[int, SiloSide],
        down: Download,
        server: State,
        count: int,
        clients: int,
        folder: Path | None = None,
    ) -> None:
        self._silos = silos
        self._server = server
        self._count = count
        self._clients = clients
        self._folder = folder
        self._free = _free(down, server)
        self.written = {value.untyped_storage().data_ptr() for value in self._free.values()}
        self._rows: State = {}
        self._put: dict[int, set[str]] = {}  # place -> the keys that were put there
        self._room: State = {}  # the matrices whose first rows they are, with a row for every silo
        self._same: dict[int, dict[str, str]] = {}  # place -> key of the silo's state -> of its upload
        self._taken: State = {}
        self._taking = _Taking({})

    def put(self, places: Sequence[int], clients: Sequence[int], rows: State) -> None:
        """Write uploads that were admitted: all of a round have the same keys, shapes and types.

        What a silo holds is then seen in its row, where it is what it has uploaded; that is valid until `rows`, and
        `settle` makes it last.
        """
        for key, value in rows.items():
            matrix = self._matrix(key, value)
            for place, row in zip(places, value, strict=True):
                matrix[place] = row
        for place in places:
            self._put[place] = set(rows)
        if len(clients) == 1 and clients[0] in self._silos:
            self._see(places[0], self._silos[clients[0]], rows)

    def _see(self, place: int, silo: SiloSide, rows: State) -> None:
        pending = silo.pending
        if pending is None:
            return
        keys = {_where(value[0]): key for key, value in rows.items() if value.numel()}
        same = {key: keys[_where(value)] for key, value in pending.after.items() if _where(value) in keys}
        self._same[place] = same
        seen = {key: self._rows[up][place] for key, up in same.items()}
        silo.pending = pending._replace(after={**pending.after, **seen})

    def look(self, places: Sequence[int]) -> State:
        whole = len(places) == self._count
        return {key: value if whole else value[list(places)] for key, value in self._rows.items()}

    def rows(self, places: Sequence[int]) -> State:
        """The uploads at these ascending places, moved to the front of their matrices."""
        # Matrices begin with whatever lay in their memory: each row that is read must have been written.
        assert all(self._put[place] == self._rows.keys() for place in places), "uploads differ in their keys"
        if len(places) < self._count:
            for value in self._rows.values():
                for to, place in enumerate(places):  # to <= place: none is overwritten before it has moved
                    value[to] = value[place]
        self._taken = {key: value[: len(places)] for key, value in self._rows.items()}
        self._taking = _Taking({id(self._taken[key]): (key, room) for key, room in self._room.items()})
        return dict(self._taken)

    def aggregating(self) -> AbstractContextManager[None]:
        return lent(self._taking)

    def settle(self, server: State, places: Sequence[int], clients: Sequence[int]) -> None:
        """Let the silos' states see the server's new rows, where these are what they hold.

        Every value stays what it was; only where it lies changes, so that the old matrices can go.
        """
        kept = {value.data_ptr() for value in server.values() if value.dim() and len(value) == self._clients}
        for row, (place, client) in enumerate(zip(places, clients, strict=True)):
            for key, up in self._same.get(place, {}).items():
                value = self._room[up][client] if up in self._taking.used else self._rows[up][row]
                state = self._silos[client].state
                state[key] = value if self._rows[up].data_ptr() in kept else value.clone()
        others = set(self._silos).difference(clients)
        share(server, self._clients, [self._silos[client] for client in sorted(others)])

    def _matrix(self, key: str, value: Tensor) -> Tensor:
        """The matrix for uploads under this key, of which these are some rows."""
        if key not in self._rows:
            shape = value.shape[1:]
            rows = self._free.get(key)
            if rows is None or rows.shape[1:] != shape or rows.dtype != value.dtype:
                kept = any(old.shape == (self._clients, *shape) for old in self._server.values())
                rows = empty(value, (self._clients if kept else self._count, *shape), self._folder)
            room = _whole(rows, self._clients)
            if room is not None:
                self._room[key] = room
            self._rows[key] = rows[: self._count]
        return self._rows[key]


def _where(value: Tensor) -> tuple[int, torch.Size, torch.dtype, tuple[int, ...]]:
    """Where a tensor lies, and how: two that agree in it are one."""
    return value.data_ptr(), value.shape, value.dtype, value.stride()


def housed(server: State, clients: int, folder: Path) -> State:
    """The server's state with its matrices in files of a folder, which must have room for two of each."""
    large = {k: v for k, v in server.items() if v.dim() == 2 and len(v) == clients and v.is_floating_point()}
    need = 2 * nbytes(large)
    free = shutil.disk_usage(folder).free
    if need > free:
        raise InputError(
            f"matrix_dir needs {need / 2**30:.2f} GiB for two matrices of models, {folder} has {free / 2**30:.2f} GiB: "
            "free some space or give another directory"
        )
    return {**server, **{key: moved(value, folder) for key, value in large.items()}}


def share(server: State, clients: int, silos: Iterable[SiloSide]) -> None:
    """Let these silos' states see rows of the server's matrices instead of equal copies of their own."""
    matrices = [m for m in server.values() if m.dim() == 2 and len(m) == clients and m.stride(0) and m.numel()]
    for silo in silos:
        for key, held in list(silo.state.items()):
            for row in (matrix[silo.client] for matrix in matrices):
                if _same_bits(held, row):
                    silo.state[key] = row


def _free(down: Download, server: State) -> State:
    """Downloads whose storage is nobody else's, so that it is free once they are used; not one row shown to all."""
    tensors = [value.rows if isinstance(value, Pick) else value for value in down.each.values()]
    users = Counter(t.untyped_storage().data_ptr() for t in (*tensors, *down.shared.values(), *server.values()))
    return {
        key: value
        for key, value in down.each.items()
        if not isinstance(value, Pick) and value.is_contiguous() and users[value.untyped_storage().data_ptr()] == 1
    }


def _whole(rows: Tensor, clients: int) -> Tensor | None:
    """The matrix [clients, ...] whose first rows these are, where their storage is that large."""
    storage, shape = rows.untyped_storage(), (clients, *rows.shape[1:])
    if rows.storage_offset() or storage.nbytes() < torch.Size(shape).numel() * rows.element_size():
        return None
    return rows.as_strided(shape, rows.stride())


def _same_bits(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype or one.device != other.device:
        return False
    if one.data_ptr() == other.data_ptr():
        return True
    bits = {torch.float32: torch.int32, torch.float64: torch.int64}.get(one.dtype)  # -0.0 is not 0.0
    return torch.equal(one, other) if bits is None else torch.equal(one.view(bits), other.view(bits))
