"""What lies in a folder that somebody wants to watch, looked up again at each look: it may not be there yet."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal, NamedTuple

from amity.config.references import ALONE_FOLDER
from amity.record.directory import holds_run

Kind = Literal["run", "hub", "silo"]

HUB, SITE = "consortium.toml", "silo.toml"
STATE_MARKS = ("approvals", "pending", "worker.log", "audit.jsonl")


class Place(NamedTuple):
    """A folder to follow."""

    kind: Kind
    path: Path
    name: str  # for people


def places_in(path: Path) -> list[Place]:
    """Return what is to be followed in a folder: a hub, a silo, a run with the one alone inside it, or several runs."""
    if (path / HUB).is_file():
        return [Place("hub", path, path.name)]
    if (path / SITE).is_file():
        return [_silo_of(path)]
    if holds_run(path):
        alone = path / ALONE_FOLDER
        return [Place("run", path, _name(path)), *([Place("run", alone, ALONE_FOLDER)] if holds_run(alone) else [])]
    if any((path / mark).exists() for mark in STATE_MARKS):
        return [Place("silo", path, _name(path))]
    return _runs_in(path) or [Place("run", path, _name(path))]


def _runs_in(path: Path) -> list[Place]:
    """Return the runs of a comparison, and of the seeds of each."""
    try:
        children = sorted(child for child in path.iterdir() if child.is_dir()) if path.is_dir() else []
    except OSError:
        return []
    inside = [run for child in children for run in (child, *sorted(child.glob("seed-*"))) if holds_run(run)]
    return [Place("run", run, str(run.relative_to(path))) for run in inside]


def _silo_of(site: Path) -> Place:
    """Return the state folder of a silo, which its silo.toml names."""
    try:
        table = tomllib.loads((site / SITE).read_text(encoding="utf-8"))
        state, name = table["state"], table["name"]
        return Place("silo", (site / Path(state).expanduser()).resolve(), str(name))
    except (OSError, ValueError, LookupError, TypeError, RuntimeError):
        return Place("silo", site, _name(site))  # `amity federation check` says what is wrong with the file


def _name(path: Path) -> str:
    return path.name or str(path.resolve())
