"""Personalised federated learning between silos: one personal model per silo."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amity.config import Participation, Run
    from amity.contract import Download, Federation, Method, Model, Pick, Round, Silo, Solver, Split, State, Turn
    from amity.data import Silos, deal, federation, load
    from amity.errors import InputError
    from amity.run import Result, execute
    from amity.task import Task

__all__ = [
    "Download",
    "Federation",
    "InputError",
    "Method",
    "Model",
    "Participation",
    "Pick",
    "Result",
    "Round",
    "Run",
    "Silo",
    "Silos",
    "Solver",
    "Split",
    "State",
    "Task",
    "Turn",
    "deal",
    "execute",
    "federation",
    "load",
]

# Names are imported when they are first asked for: torch takes seconds to load, and `amity --help` does not need it.
_HOMES = {
    "amity.config": ("Participation", "Run"),
    "amity.contract": (
        *("Download", "Federation", "Method", "Model", "Pick", "Round"),
        *("Silo", "Solver", "Split", "State", "Turn"),
    ),
    "amity.data": ("Silos", "deal", "federation", "load"),
    "amity.errors": ("InputError",),
    "amity.run": ("Result", "execute"),
    "amity.task": ("Task",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'amity' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
