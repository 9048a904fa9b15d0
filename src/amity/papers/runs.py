"""The runs of experiments before they start: checked, and their silos dealt.

They are run by `amity.trials.run_in`. Everything is imported where it is used: listing experiments must not wait for
torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amity.config.run import Run

if TYPE_CHECKING:
    from amity.data import Silos


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
        make(run.model, SOURCES[run.data].shape, SOURCES[run.data].classes or 1)
