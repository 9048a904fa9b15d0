"""Decoded data sets, kept in the user cache: unpacking takes seconds, reading them back does not.

An entry belongs to the files it was made from, by their paths, sizes and times of change: changed files are
decoded again, and so is an entry whose content does not add up to what was written. A cache that cannot be written or
read is no error, only slower.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor

from amity.data.files import Arrays, user_cache

_VERSION = 2  # of what decoding means: raise it and old entries are made anew


def decoded(name: str, paths: Sequence[Path], decode: Callable[[], Arrays]) -> dict[str, Tensor]:
    """What `decode` returns, or what it returned the last time for the same files."""
    stamp = _stamp(paths)
    entry = _entry(name, paths)
    kept = _read(entry, stamp)
    if kept is None:
        arrays = {key: np.ascontiguousarray(array) for key, array in decode().items()}
        _write(entry, arrays, stamp)
        kept = _read(entry, stamp)
        if kept is None:
            import torch

            return {key: torch.tensor(array) for key, array in arrays.items()}
    return kept


def _entry(name: str, paths: Sequence[Path]) -> Path:
    where = hashlib.sha256("\n".join(str(path.resolve()) for path in paths).encode()).hexdigest()[:12]
    return user_cache() / "decoded" / f"{name}-{where}.safetensors"


def _stamp(paths: Sequence[Path]) -> str:
    facts = [(stat.st_size, stat.st_mtime_ns) for stat in map(os.stat, paths)]
    return json.dumps([_VERSION, *facts])


def _read(entry: Path, stamp: str) -> dict[str, Tensor] | None:
    try:
        with safe_open(entry, framework="pt") as kept:
            about = kept.metadata() or {}
            if about.get("files") != stamp:
                return None
            arrays = {key: kept.get_tensor(key) for key in kept.keys()}  # noqa: SIM118
            return arrays if about.get("sums") == _sums({key: array.numpy() for key, array in arrays.items()}) else None
    except (OSError, SafetensorError):
        return None


def _sums(arrays: Arrays) -> str:
    """A sum over each array's bytes: a checksum at the speed of memory, for hundreds of MB have to load in no time."""
    sums = {}
    for key, array in sorted(arrays.items()):
        raw = array.reshape(-1).view(np.uint8)
        words = raw[: len(raw) // 8 * 8].view(np.uint64)
        sums[key] = [len(raw), int(words.sum(dtype=np.uint64)), int(raw[8 * len(words) :].sum(dtype=np.uint64))]
    return json.dumps(sums)


def _write(entry: Path, arrays: Arrays, stamp: str) -> None:
    """Atomic: a reader sees a whole entry or none."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=entry.parent, prefix=f".{entry.stem}-", suffix=".part")
        os.close(handle)
        try:
            save_file(dict(arrays), name, metadata={"files": stamp, "sums": _sums(arrays)})
            os.chmod(name, 0o644)
            with open(name, "rb") as written:
                os.fsync(written.fileno())  # else a power cut may leave the name without the content
            os.replace(name, entry)
        except BaseException:
            os.unlink(name)
            raise
    except (OSError, SafetensorError):
        return  # read-only, full, or in the way of another program: the load itself went well
