"""Personalised federated learning between silos: one personal model per silo."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

# Intel's MKL, which multiplies torch's matrices, otherwise rounds by the address at which the numbers lie: one model in
# a row of a matrix and in a message of its own would be trained to other last bits. MKL reads this at its first
# product; whoever has set it, or has multiplied before, keeps what they have. Products were as fast with it as without.
os.environ.setdefault("MKL_CBWR", "AUTO")

if TYPE_CHECKING:
    from amity.advising import advise
    from amity.api import compare, run
    from amity.comparison import Comparison
    from amity.config.participation import Participation
    from amity.config.run import Run
    from amity.contract import Download, Federation, Method, Model, Pick, Silo, Solver, Split, State, Turn
    from amity.data import Silos, deal, load, own_silos
    from amity.errors import AmityError, InputError
    from amity.federation.reports import Round
    from amity.learn.task import Task
    from amity.repeats import Repeats
    from amity.result import Result, read_run

__all__ = [
    "AmityError",
    "Comparison",
    "Download",
    "Federation",
    "InputError",
    "Method",
    "Model",
    "Participation",
    "Pick",
    "Repeats",
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
    "advise",
    "compare",
    "deal",
    "load",
    "own_silos",
    "read_run",
    "run",
]

# Names are imported when they are first asked for: torch takes seconds to load, and `amity --help` does not need it.
_HOMES = {
    "amity.advising": ("advise",),
    "amity.config.participation": ("Participation",),
    "amity.config.run": ("Run",),
    "amity.contract": (
        *("Download", "Federation", "Method", "Model", "Pick"),
        *("Silo", "Solver", "Split", "State", "Turn"),
    ),
    "amity.data": ("Silos", "deal", "load", "own_silos"),
    "amity.errors": ("AmityError", "InputError"),
    "amity.federation.reports": ("Round",),
    "amity.repeats": ("Repeats",),
    "amity.api": ("compare", "run"),
    "amity.comparison": ("Comparison",),
    "amity.result": ("Result", "read_run"),
    "amity.learn.task": ("Task",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'amity' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
