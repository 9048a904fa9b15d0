"""Silos as trials see them: without their test data."""

from __future__ import annotations

from dataclasses import replace

from amity import methods
from amity.config.run import Run
from amity.data import Silos
from amity.errors import InputError
from amity.prepare import roster_of
from amity.resolve import validation_of
from amity.trials import VALIDATION_SHARE


def for_trials(run: Run, silos: Silos) -> tuple[Run, Silos]:
    """Return a run and its silos as trials see them: with validation data, and these in place of test data.

    Nothing in a trial can depend on test data, because they are not there. Training and validation data are those that
    the run itself has with the same share of validation data.
    """
    method = methods.build(run.method, run.settings)
    needed = validation_of(run, run.method, method, roster_of(silos))
    share = max(needed, VALIDATION_SHARE) if run.val_fraction == "auto" else needed
    own = silos.at_most(run.per_silo, run.seed).with_validation(share, run.seed)
    if lacking := [silo.name for silo in own.silos if silo.val is None or not len(silo.val.y)]:
        some = ", ".join(map(repr, lacking[:3])) + (", ..." if len(lacking) > 3 else "")
        raise InputError(
            f"tune chooses by validation data, {some} of {run.data} would have none: "
            f"leave val_fraction at auto ({VALIDATION_SHARE:g}), or give a share above 0"
        )
    hidden = tuple(silo._replace(test=silo.val) for silo in own.silos if silo.val is not None)
    return replace(run, val_fraction=share, min_count=1), replace(own, silos=hidden)  # nobody else is told of a trial
