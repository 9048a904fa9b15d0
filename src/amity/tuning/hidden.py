"""Silos as trials see them: without their test data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from amity import methods
from amity.config.run import Run
from amity.data import Silos
from amity.errors import InputError
from amity.left_out import check_sizes, without
from amity.prepare import roster_of
from amity.resolve import length_of, validation_of
from amity.trials import VALIDATION_SHARE


def judged_after_ending(run: Run, searched: Iterable[str] = ()) -> bool:
    """Return whether trials are compared by what silos deliver after their ending: where any of them may have one."""
    if {"ending", "safe"} & set(searched):
        return True
    return run.safe or length_of(run, methods.build(run.method, run.settings)) != "none"


def for_trials(run: Run, silos: Silos, after_ending: bool) -> tuple[Run, Silos]:
    """Return a run and its silos as trials see them: with examples to be judged by in place of test data.

    Nothing in a trial can depend on test data, because they are not there. These examples are the validation data that
    the run itself has with the same share of them. An ending learns from validation data too: where there is one, a
    part of the training data is taken out instead, which neither the rounds nor the ending see.
    """
    if after_ending:
        own = silos.at_most(run.per_silo, run.seed)
        check_sizes(own, "tune")
        return replace(run, min_count=1), without(own, 0, run.seed)  # nobody else is told of a trial
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
    return replace(run, val_fraction=share, min_count=1), replace(own, silos=hidden)
