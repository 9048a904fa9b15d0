"""Leaving a run, and its end: two marks in the run's folder.

leave         somebody here has asked to leave: made by `amity federation leave`
ended.json    the run is over for this silo, at its end or because it has left
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypedDict

from amity.errors import InputError
from amity.record.files import load_json, to_json
from amity.record.files import replace as put
from amity.site.config import Site

ASKED, ENDED = "leave", "ended.json"
MODEL, VERDICT = "model.safetensors", "verdict.json"  # what a run has brought, and what the silo makes of it


class Ended(TypedDict):
    """What `ended.json` holds."""

    round: int  # the last one that counts for the silo
    left: bool  # before the end
    time: float


def ask_to_leave(site: Site, run: str) -> None:
    """Ask the worker to leave a run: it does so when what it has trained is settled, and keeps its personal model."""
    folder = site.run(run)
    if not folder.is_dir():
        raise InputError(f"silo {site.name} takes part in no run {run!r}: see the folders in {folder.parent}")
    if ended(folder) is not None:
        raise InputError(f"run {run!r} is over for silo {site.name}: nothing is left to leave")
    put(folder / ASKED, b"")


def asked(folder: Path) -> bool:
    """Whether somebody has asked to leave the run of this folder."""
    return (folder / ASKED).exists()


def end(folder: Path, round: int, *, left: bool) -> None:
    """Mark the run as over."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    put(folder / ENDED, to_json(Ended(round=round, left=left, time=time.time())))


def ended(folder: Path) -> Ended | None:
    """How the run of this folder has ended; None while it goes on."""
    file = folder / ENDED
    return load_json(file) if file.exists() else None


def waiting(site: Site) -> list[str]:
    """The runs that are over, have brought a model, and have no verdict yet."""
    folders = sorted(file.parent for file in (site.state / "runs").glob(f"*/{ENDED}"))
    return [one.name for one in folders if (one / MODEL).exists() and not (one / VERDICT).exists()]
