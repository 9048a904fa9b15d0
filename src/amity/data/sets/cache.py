"""A cache of decoded data sets in the user's cache directory: unpacking takes seconds, reading them back does not.

An entry belongs to the files it was made from, by their paths, sizes and times of change: changed files are decoded
again, and so are those of an entry whose checksum is wrong. A cache that cannot be written or read is no error, only
slower.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict, cast

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor

from amity.data.formats.content import Arrays
from amity.data.sets.files import user_cache

_VERSION = 2  # of the decoded form: raise it, and old entries are made anew


class EntryFacts(TypedDict):
    """The metadata in the file of a cache entry; safetensors keeps text only."""

    files: str  # JSON: the version, then size and time of change of each file that was decoded
    sums: str  # JSON: array -> its checksum


def decoded(name: str, paths: Sequence[Path], decode: Callable[[], Arrays]) -> dict[str, Tensor]:
    """Return what `decode` returns, or what it returned the last time for the same files."""
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
    """Return the cache file for these data files, whose place is part of its name."""
    where = hashlib.sha256("\n".join(str(path.resolve()) for path in paths).encode()).hexdigest()[:12]
    return user_cache() / "decoded" / f"{name}-{where}.safetensors"


def _stamp(paths: Sequence[Path]) -> str:
    """Return the version, and size and time of change of each file, as JSON."""
    facts = [(stat.st_size, stat.st_mtime_ns) for stat in map(os.stat, paths)]
    return json.dumps([_VERSION, *facts])


def _read(entry: Path, stamp: str) -> dict[str, Tensor] | None:
    """Return the arrays of an entry, or None if it is not there, not whole, or made from other files."""
    try:
        with safe_open(entry, framework="pt") as kept:
            facts = cast(EntryFacts, kept.metadata() or {})
            if facts.get("files") != stamp:
                return None
            arrays = {key: kept.get_tensor(key) for key in kept.keys()}  # noqa: SIM118
            return arrays if facts.get("sums") == _sums({key: array.numpy() for key, array in arrays.items()}) else None
    except (OSError, SafetensorError):
        return None


def _sums(arrays: Arrays) -> str:
    """Return a sum over each array's bytes as JSON: a checksum fast enough for hundreds of MB at every load."""
    sums = {}
    for key, array in sorted(arrays.items()):
        raw = array.reshape(-1).view(np.uint8)
        words = raw[: len(raw) // 8 * 8].view(np.uint64)
        sums[key] = [len(raw), int(words.sum(dtype=np.uint64)), int(raw[8 * len(words) :].sum(dtype=np.uint64))]
    return json.dumps(sums)


def _write(entry: Path, arrays: Arrays, stamp: str) -> None:
    """Write an entry atomically: a reader sees a whole one or none."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=entry.parent, prefix=f".{entry.stem}-", suffix=".part")
        os.close(handle)
        try:
            facts: EntryFacts = {"files": stamp, "sums": _sums(arrays)}
            save_file(dict(arrays), name, metadata=cast(dict[str, str], facts))
            os.chmod(name, 0o644)
            with open(name, "rb") as written:
                os.fsync(written.fileno())  # else a power cut may leave the name without the content
            os.replace(name, entry)
        except BaseException:
            os.unlink(name)
            raise
    except (OSError, SafetensorError):
        return  # read-only, full, or in the way of another program: the load itself went well
