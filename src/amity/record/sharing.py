"""The modes of files: what is written is for its owner alone, or the owner's group if AMITY_SHARE=group says so.

Models and predictions tell about the data that they were made from, so the umask is not asked. What exists already
keeps its mode until it is replaced.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from amity.errors import InputError

VARIABLE = "AMITY_SHARE"


class Modes(NamedTuple):
    """The modes of new files and folders."""

    file: int
    folder: int


PRIVATE = Modes(0o600, 0o700)
MODES = {"private": PRIVATE, "group": Modes(0o660, 0o770)}  # a group continues each other's runs, too


def modes() -> Modes:
    """Return the modes that AMITY_SHARE asks for."""
    word = os.environ.get(VARIABLE) or "private"
    if word not in MODES:
        raise InputError(f"{VARIABLE} needs to be {' or '.join(MODES)}, got {word!r}: unset it for private")
    return MODES[word]


def begin_file(path: Path) -> None:
    """Make an empty file that only its owner can open, whatever is written to it next."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE.file))


def make_folder(path: Path) -> None:
    """Make a folder and those above it, as far as there are none."""
    if path.is_dir():
        return
    if not path.parent.is_dir():
        make_folder(path.parent)
    path.mkdir(PRIVATE.folder, exist_ok=True)
    allow(path)


def try_folder(path: Path) -> None:
    """Make a folder and write to it, then leave everything as it was; OSError where that cannot be done."""
    made = [each for each in (path, *path.parents) if not each.exists()]
    try:
        make_folder(path)
        with tempfile.TemporaryFile(dir=path):
            pass
    finally:
        for each in made:
            with suppress(OSError):
                each.rmdir()


def allow(path: Path) -> None:
    """Give a file or folder that was just made the mode that it is to have."""
    known = path.stat().st_mode
    wanted = modes().folder | (known & stat.S_ISGID) if stat.S_ISDIR(known) else modes().file
    if stat.S_IMODE(known) != wanted:
        with suppress(PermissionError):  # a file system that has its own idea of modes
            path.chmod(wanted)
