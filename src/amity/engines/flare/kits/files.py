"""Writing the files of a kit: for their owner alone, and so that a reader sees the old one or the new one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amity.errors import DamagedFile, InputError
from amity.federation.safe_files import replace
from amity.small_files import read_small


def write(path: Path, content: bytes | str) -> None:
    """Put a file that only its owner can open in the place of the one that may be there."""
    replace(path, content if isinstance(content, bytes) else content.encode())


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file."""
    write(path, json.dumps(value, indent=2) + "\n")


def read(path: Path) -> bytes:
    """Return all that a file holds."""
    try:
        return read_small(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}): check the path") from error


def read_json(path: Path) -> dict[str, Any]:
    """Return the table that a JSON file holds."""
    try:
        value = json.loads(read(path))
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} is not valid JSON ({error}): fetch it again") from error
    if not isinstance(value, dict):
        raise DamagedFile(f"{path} needs to hold a JSON object, got {type(value).__name__}: fetch it again")
    return value


def check_place(path: Path) -> Path:
    """Return the absolute path of a hub or site; refuse one that FLARE could not start its processes in.

    FLARE writes a job's command line as text and splits it at spaces.
    """
    path = path.expanduser().resolve()
    if shlex.quote(str(path)) != str(path):
        raise InputError(
            f"a hub or site needs a path of plain letters without spaces, got {path}: choose another folder"
        )
    return path
