"""Pruning: a trial that is behind half of those before it, at the same round, need not go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import optuna

from amity.metric import Metric

STARTUP = 4
"""Trials that come to their end before any is pruned."""

WARMUP = 2
"""The first rounds, in which nothing is pruned."""


class Pruner:
    """Asks Optuna's median pruner about one trial, by the steps of trials that have come to their end.

    It has a study of its own in memory. So a trial's end depends on what it was given, and not on what other processes
    have written in the meantime.
    """

    def __init__(self, earlier: Sequence[Mapping[int, float]], metric: Metric) -> None:
        self._trial: optuna.Trial | None = None
        if len(earlier) < STARTUP:
            return
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # it tells of every study
        rule = optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=WARMUP + 1)
        study = optuna.create_study(direction=direction_of(metric), pruner=rule)
        for steps in earlier:
            study.add_trial(
                optuna.trial.create_trial(value=metric.best(steps.values()), intermediate_values=dict(steps))
            )
        self._trial = study.ask()

    def ends(self, step: int, score: float) -> bool:
        """Take the score after a step, and return whether the trial should end here."""
        if self._trial is None:
            return False
        self._trial.report(score, step)
        return bool(self._trial.should_prune())


def direction_of(metric: Metric) -> Literal["maximize", "minimize"]:
    """Return which way is better, in Optuna's words."""
    return "maximize" if metric.better == "higher" else "minimize"
