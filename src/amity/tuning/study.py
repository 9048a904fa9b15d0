"""The study: what was tried so far, in Optuna's storage, and what to try next.

Trials are proposed a few at a time, from those before that have ended, by a sampler with a seed of its own. So what is
tried follows from the seed alone: not from how many workers there are, how many trials were asked for, or whether the
search was interrupted. The storage holds trials that have ended; those under way are proposed again, equal.
"""

from __future__ import annotations

import itertools
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, cast

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from amity.errors import DamagedFile
from amity.metric import ACCURACY, Metric
from amity.tuning.pruning import direction_of
from amity.tuning.space import Choices, Range, Space
from amity.tuning.trial import State, Trial

TOGETHER = 4
"""Trials that are proposed at a time: no more than these can run side by side."""

DIGITS = 3
"""Significant digits of a number that is tried: a command should be readable."""

ENOUGH = 8
"""Trials that it takes to say which options matter."""

STATES: dict[State, TrialState] = {
    "done": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "diverged": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}

FEW = 64
"""Combinations of values that are tried one by one, in their order, rather than proposed."""

SEEDS = 2**32
"""Random generators of the sampler take seeds below this one."""

NAME = "amity"


class Told(TypedDict):
    """What is kept of a trial beside Optuna's own columns."""

    values: dict[str, Any]
    state: State
    validation: float | None  # None: there was none
    steps: dict[str, float]
    seconds: float
    words: str


@contextmanager
def stored_in(file: Path) -> Iterator[None]:
    """Turn a storage that is damaged, or has no room, into one line."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) else error
        reason = str(getattr(cause, "orig", None) or cause or error).partition("\n")[0]
        raise DamagedFile(
            f"the trials in {file} cannot be read or written ({reason}): bring back a copy, or give another --out"
        ) from error


class Study:
    """The trials of one search, on disk or in memory."""

    def __init__(
        self, file: Path | None, space: Space, seed: int, first: Sequence[Mapping[str, Any]], metric: Metric = ACCURACY
    ) -> None:
        """Open a study, or begin one. `first`: what is tried before anything is proposed."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space, self._seed, self._first = space, seed, first
        self._kinds = {name: _distribution(dimension) for name, dimension in space.items()}
        self._way = direction_of(metric)
        self._storage = None if file is None else _database(file)
        self._study = optuna.create_study(
            storage=self._storage, study_name=NAME, direction=self._way, load_if_exists=True
        )

    def close(self) -> None:
        """Close the storage."""
        if self._storage is not None:
            self._storage.remove_session()
            self._storage.engine.dispose()

    @property
    def trials(self) -> list[Trial]:
        """All trials that have ended, in whatever way, in their order."""
        return [_trial(frozen.number, frozen.user_attrs["told"]) for frozen in self._frozen()]

    def next(self) -> dict[int, dict[str, Any]]:
        """Return what to try next, by number."""
        ended = len(self._frozen())
        start = ended - ended % TOGETHER
        proposed = self._proposed(start)
        return {number: values for number, values in proposed.items() if number >= ended}

    def earlier(self) -> list[Mapping[int, float]]:
        """Return the steps of those trials that came to their end before the next ones are proposed."""
        trials = self.trials
        return [trial.steps for trial in trials[: len(trials) - len(trials) % TOGETHER] if trial.state == "done"]

    def _proposed(self, start: int) -> dict[int, dict[str, Any]]:
        """Return the trials from this number on that are proposed together."""
        sampler = optuna.samplers.TPESampler(seed=(self._seed * 1_000_003 + start) % SEEDS)
        study = optuna.create_study(direction=self._way, sampler=sampler)
        study.add_trials(self._frozen()[:start])
        proposed = {}
        for number in range(start, start + TOGETHER):
            if number < len(self._first):
                proposed[number] = dict(self._first[number])
            else:
                raw = study.ask(self._kinds).params
                proposed[number] = {name: _readable(self._space[name], value) for name, value in raw.items()}
        return proposed

    def tell(self, trial: Trial) -> None:
        """Keep what became of a trial."""
        inside = _has(self._space, trial.values)
        self._study.add_trial(
            optuna.trial.create_trial(
                state=STATES[trial.state],
                value=trial.validation if trial.state == "done" else None,
                params=_raw(self._space, trial.values) if inside else {},
                distributions=self._kinds if inside else {},
                intermediate_values=dict(trial.steps),
                user_attrs={"told": _told(trial)},
            )
        )

    def confirm(self, confirmed: Trial) -> None:
        """Keep what became of a trial's options in a run of full length."""
        self._study.set_user_attr(f"confirmed {confirmed.number}", _told(confirmed))

    def confirmed(self, number: int) -> list[Trial]:
        """Return what became of a trial's options in a run of full length; none where there was none."""
        told = self._study.user_attrs.get(f"confirmed {number}")
        return [] if told is None else [_trial(number, told)]

    def importance(self) -> dict[str, float]:
        """Return how much each option matters, from 0 to 1, most first; empty where that cannot be told."""
        done = [trial for trial in self.trials if trial.state == "done"]
        if len(done) < ENOUGH or len(self._space) < 2 or len({trial.validation for trial in done}) < 2:
            return {}
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=self._seed % SEEDS)
        return dict(optuna.importance.get_param_importances(self._study, evaluator=evaluator))

    def _frozen(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)


def _database(file: Path) -> optuna.storages.RDBStorage:
    """Return a storage in an SQLite file. It is opened by its path: not every path can be part of an address."""
    return optuna.storages.RDBStorage("sqlite://", engine_kwargs={"creator": lambda: sqlite3.connect(file)})


def first_trials(space: Space, defaults: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what is tried first: every combination where these are few, else the options' own defaults."""
    if all(isinstance(dimension, Choices) for dimension in space.values()):
        tables = [cast(Choices, dimension).values for dimension in space.values()]
        if math.prod(map(len, tables)) <= FEW:
            return [dict(zip(space, values, strict=True)) for values in itertools.product(*tables)]
    return [{name: defaults[name] for name in space}] if _has(space, defaults) else []


def _distribution(dimension: Range | Choices) -> BaseDistribution:
    if isinstance(dimension, Choices):
        return CategoricalDistribution([str(place) for place in range(len(dimension.values))])  # values may be anything
    if dimension.whole:
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _readable(dimension: Range | Choices, value: Any) -> Any:
    """Return what is tried for a value that Optuna proposes: a float with a few digits, inside its range."""
    if isinstance(dimension, Choices):
        return dimension.values[int(value)]
    if dimension.whole:
        return int(value)
    return min(max(float(f"{value:.{DIGITS}g}"), dimension.low), dimension.high)


def _raw(space: Space, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as Optuna keeps them."""
    return {
        name: str(dimension.values.index(values[name])) if isinstance(dimension, Choices) else values[name]
        for name, dimension in space.items()
    }


def _has(space: Space, values: Mapping[str, Any]) -> bool:
    """Return whether a space holds these values."""
    return all(name in values and _inside(dimension, values[name]) for name, dimension in space.items())


def _inside(dimension: Range | Choices, value: Any) -> bool:
    if isinstance(dimension, Choices):
        return value in dimension.values
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and dimension.low <= value <= dimension.high


def _told(trial: Trial) -> Told:
    return {
        "values": dict(trial.values),
        "state": trial.state,
        "validation": None if math.isnan(trial.validation) else trial.validation,
        "steps": {str(step): score for step, score in trial.steps.items()},
        "seconds": trial.seconds,
        "words": trial.words,
    }


def _trial(number: int, told: Told) -> Trial:
    score = math.nan if told["validation"] is None else told["validation"]
    steps = {int(step): score for step, score in told["steps"].items()}
    return Trial(number, told["values"], told["state"], score, steps, told["seconds"], told["words"])
