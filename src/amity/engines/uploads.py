"""A round's uploads, written straight into the rows of a matrix that the server can keep.

At most two matrices of models are alive: the server's before the round, and one that begins as the downloads, takes
each client's upload in the row of the download that it has used, and ends as the server's new matrix. What a client
holds is a view of its row there wherever it is what it has uploaded.
"""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from amity.contract import Download, InputError, Pick, State, nbytes
from amity.matrices import Given, empty, moved


class Uploads:
    """Uploads of a round as rows of matrices, in memory or in files of a folder."""

    def __init__(self, down: Download, server: State, count: int, clients: int, folder: Path | None = None) -> None:
        self._server = server
        self._count = count
        self._clients = clients
        self._folder = folder
        self._free = _free(down, server)
        self._rows: State = {}
        self._room: State = {}  # the matrices whose first rows they are, with a row for every client
        self._same: dict[int, dict[str, str]] = {}  # position -> key of the client's state -> of its upload
        self._given = Given({}, {})
        self._lock = threading.Lock()

    def put(self, position: int, upload: State) -> None:
        for key, value in upload.items():
            self._matrix(key, value)[position] = value

    def apart(self, state: State) -> State:
        """The client's state without views into downloads that an upload will overwrite."""
        written = {value.untyped_storage().data_ptr() for value in self._free.values()}
        return {k: v.clone() if v.untyped_storage().data_ptr() in written else v for k, v in state.items()}

    def shared(self, position: int, state: State, upload: State) -> State:
        """The state of a client whose upload was put and will be accepted, what is the same seen in its row.

        Valid until `rows`; `settle` makes it last.
        """
        keys = {id(value): key for key, value in upload.items() if value.numel()}
        same = {key: keys[id(value)] for key, value in state.items() if id(value) in keys}
        self._same[position] = same
        return {**state, **{key: self._rows[up][position] for key, up in same.items()}}

    def rows(self, positions: Sequence[int]) -> Given:
        """The uploads at these ascending positions, to be given away: they are moved to the front in place."""
        if len(positions) < self._count:
            for value in self._rows.values():
                for to, position in enumerate(positions):  # to <= position: none is overwritten before it has moved
                    value[to] = value[position]
        self._given = Given({key: value[: len(positions)] for key, value in self._rows.items()}, dict(self._room))
        return self._given

    def settle(self, server: State, positions: Sequence[int], who: Sequence[int], states: Sequence[State]) -> None:
        """Let the clients' states see the server's new rows, where these are what they hold.

        Every value stays what it was; only where it lies changes, so that the old matrices can go.
        """
        kept = {value.data_ptr() for value in server.values() if value.dim() and len(value) == len(states)}
        for row, (position, client) in enumerate(zip(positions, who, strict=True)):
            for key, up in self._same.get(position, {}).items():
                used = up in self._room and up not in self._given.room
                value = self._room[up][client] if used else self._rows[up][row]
                states[client][key] = value if self._rows[up].data_ptr() in kept else value.clone()
        share(server, states, set(range(len(states))).difference(who))

    def bytes_of(self, positions: Sequence[int]) -> int:
        return nbytes({key: value[:1] for key, value in self._rows.items()}) * len(positions)

    def _matrix(self, key: str, value: Tensor) -> Tensor:
        with self._lock:
            if key not in self._rows:
                rows = self._free.get(key)
                if rows is None or rows.shape[1:] != value.shape or rows.dtype != value.dtype:
                    kept = any(old.shape == (self._clients, *value.shape) for old in self._server.values())
                    rows = empty(value, (self._clients if kept else self._count, *value.shape), self._folder)
                room = _whole(rows, self._clients)
                if room is not None:
                    self._room[key] = room
                self._rows[key] = rows[: self._count]
            return self._rows[key]


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


def share(server: State, states: Sequence[State], clients: Iterable[int]) -> None:
    """Let these clients' states see rows of the server's matrices instead of equal copies of their own."""
    matrices = [m for m in server.values() if m.dim() == 2 and len(m) == len(states) and m.stride(0) and m.numel()]
    for client in clients:
        for key, held in list(states[client].items()):
            for row in (matrix[client] for matrix in matrices):
                if _same_bits(held, row):
                    states[client][key] = row


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
