"""The one place where experiments are run.

A run is checked before it starts, its silos are dealt, and it is run in a directory. Everything is imported where it is
used: listing experiments must not wait for torch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from amity.config.run import Run

if TYPE_CHECKING:
    from amity.data import Silos
    from amity.federation.events import Listener
    from amity.prepare import Prepared
    from amity.record import Record

Watch = Callable[["Prepared"], AbstractContextManager["Listener"]]
"""Opens something that listens to the events of one run: the command line's shows its progress."""


def run_in(place: Path, run: Run, silos: Silos, watch: Watch | None, note: Callable[[str], None]) -> Record:
    """Run `run` on these silos in a directory, or resume it there, and return its record."""
    from amity import record
    from amity.api import Job, Shows, run_each

    there = record.holds_run(place)
    (result,) = run_each([Job(run, place)], silos, resume=there, note=note, shows=Shows(watch=watch))
    return result.record


def deal_silos(run: Run, data_dir: str | None = None) -> Silos:
    """Return the silos that a run asks for; data that are not here are fetched."""
    from amity.prepare import silos_of

    return silos_of(run, data_dir)


def check_run(run: Run) -> None:
    """Refuse a run that could not be prepared, as far as that can be known without its data."""
    from amity.contract import Particular
    from amity.data import SOURCES
    from amity.data.settings.registry import resolve
    from amity.methods import build
    from amity.models import make
    from amity.resolve import solver_of

    method = build(run.method, run.settings)
    solver = solver_of(run, run.method, method, sizes=[1])  # sizes decide the batch only
    if isinstance(method, Particular):
        method.accept(solver)
    resolve(run.setting, run.data)
    if run.data in SOURCES:
        make(run.model, SOURCES[run.data].shape, SOURCES[run.data].classes)
