"""The files that predictions and models are written to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from amity.errors import InputError
from amity.record.files import not_written


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Turn a place that cannot be written to into one line."""
    if out.is_dir():
        raise InputError(f"--out must be a file, got the folder {out}: add a file's name")
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise not_written(error, f"cannot write {out} ({reason}): give another --out") from error
