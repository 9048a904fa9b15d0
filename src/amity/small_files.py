"""Small files that people write: read whole, and never more of them than a machine can bear."""

from __future__ import annotations

import errno
from pathlib import Path

MOST = 16 << 20
"""Bytes that options, schemas, kits and the like may have. A device or a pipe may have no end."""


def read_small(path: str | Path) -> bytes:
    """Return all that a small file holds; OSError for one that is no small file."""
    with Path(path).open("rb") as file:
        content = file.read(MOST + 1)
    if len(content) > MOST:
        raise OSError(errno.EFBIG, f"it has more than {MOST >> 20} MiB", str(path))
    return content
