"""What people, and the supervisor, ask of a run that is under way: files in its folder, seen between two rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Asked = Literal["stop", "regroup"]


class Stop(Exception):
    """The run is to stop after this round."""


class Regroup(Exception):
    """The run is to be handed to the network engine anew, with a silo that is back or new."""


def ask(folder: Path, what: Asked) -> None:
    """Ask for something."""
    (folder / f"{what}.asked").touch(mode=0o600)


def asked(folder: Path, what: Asked) -> bool:
    """Whether something is asked for."""
    return (folder / f"{what}.asked").exists()


def clear(folder: Path, what: Asked) -> None:
    """Take note that it was done."""
    (folder / f"{what}.asked").unlink(missing_ok=True)


def check(folder: Path) -> None:
    """Raise what was asked for."""
    if asked(folder, "stop"):
        raise Stop
    if asked(folder, "regroup"):
        clear(folder, "regroup")
        raise Regroup
