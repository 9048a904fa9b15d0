"""Runs to compare a method with: of the same silos, test examples and model, as alike as there are."""

from __future__ import annotations

from collections.abc import Sequence

from amity.record import Record
from amity.report.series import Series, same_tests

LIKE = ("rounds", "epochs", "per_silo", "val_fraction", "lr", "optimizer", "batch", "ending")
"""Options in which the run to compare with should agree, where there are several to choose from."""


def partner(one: Series, others: Sequence[Series]) -> Series | None:
    """Return the runs to compare a method with: of the same silos, tests and model, and as alike as there are."""
    found = [other for other in others if other.first.results["model"] == one.first.results["model"]]
    found = [other for other in found if common(one, other)]
    ours = one.first.config
    return min(found, key=lambda it: sum(it.first.config.get(key) != ours.get(key) for key in LIKE), default=None)


def common(one: Series, other: Series) -> list[tuple[Record, Record]]:
    """Return the runs of both series that can be compared, seed by seed."""
    theirs = {run.results["seed"]: run for run in other.runs}
    pairs = [(run, theirs[seed]) for run in one.runs if (seed := run.results["seed"]) in theirs]
    return [(run, against) for run, against in pairs if same_tests([run, against])]
