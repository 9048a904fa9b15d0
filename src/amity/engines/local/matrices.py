"""Where matrices of models live, and how the server's is brought up to date without a third one.

A matrix W [m, d] can be gigabytes. In a round at most two are alive: the server's, and the one that the clients are
sent, whose rows their uploads take over and which then becomes the server's. A new matrix lies where the one that it
is made from lies: on the same device, or in a memory-mapped file of the same folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from amity.contract import InputError


def with_spare_rows(like: Tensor, count: int) -> Tensor:
    """So many empty rows like those of a matrix, with unused room for the rest of its rows behind them."""
    return empty(like, like.shape, folder_of(like))[:count]


def empty(like: Tensor, shape: Sequence[int], folder: Path | None) -> Tensor:
    """A new tensor of the same type, in memory or in a file of the folder. Its numbers are whatever lay there before:
    zeros would cost as much as the uploads that replace them."""
    return like.new_empty(*shape) if folder is None else _mapped(shape, like.dtype, folder)


def moved(matrix: Tensor, folder: Path) -> Tensor:
    """The same matrix in a file of the folder; one row shown many times stays one row."""
    row = matrix[:1] if matrix.stride(0) == 0 else matrix
    return empty(matrix, row.shape, folder).copy_(row).expand_as(matrix)


def folder_of(tensor: Tensor) -> Path | None:
    """The folder in which a memory-mapped tensor lies."""
    name = tensor.untyped_storage().filename if tensor.device.type == "cpu" else None
    return None if name is None else Path(name).parent


def check_folder(folder: Path, device: torch.device) -> None:
    """Refuse a folder in which no file can be made, and models that cannot lie in files."""
    if device.type != "cpu":
        raise InputError(f"matrix_dir needs models in main memory, got device {device}: use cpu or leave it out")
    if not folder.is_dir():
        raise InputError(f"matrix_dir needs a directory that exists, got {folder}: create it or give another")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(
            f"matrix_dir needs a directory to write in, {folder} cannot be written ({error.strerror}): give another"
        ) from None


def _mapped(shape: Sequence[int], dtype: torch.dtype, folder: Path) -> Tensor:
    """An empty tensor in a file that has no name any more: it goes with the tensor, however the process ends."""
    size = torch.Size(shape).numel()
    if size == 0:
        return torch.empty(*shape, dtype=dtype)
    bytes_ = size * dtype.itemsize
    try:
        handle, name = tempfile.mkstemp(prefix="amity-", suffix=".matrix", dir=folder)
    except OSError as error:
        raise InputError(f"matrix_dir {folder} cannot be written ({error.strerror}): give another directory") from None
    try:
        os.posix_fallocate(handle, 0, bytes_)  # a hole would be met later, as a crash
        return torch.from_file(name, shared=True, size=size, dtype=dtype).view(*shape)
    except OSError as error:
        raise InputError(
            f"matrix_dir needs {bytes_ / 2**30:.2f} GiB more for models, {folder} does not have it "
            f"({error.strerror}): free some space or give another directory"
        ) from None
    finally:
        os.close(handle)
        os.unlink(name)
