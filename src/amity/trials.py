"""Trials: settings are tried on validation data, the best is chosen, and what is seen of it later may undo the choice.

`amity reproduce`, which tries a few values as papers do, and `amity tune`, which searches, both choose here. What was
chosen is told as a command. Everything is imported where it is used: listing experiments must not wait for torch.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from amity.config.run import Run
from amity.metric import ACCURACY, Metric

if TYPE_CHECKING:
    from amity.data import Silos
    from amity.federation.events import Listener
    from amity.prepare import Prepared
    from amity.record import Record
    from amity.resolve import Builds

VALIDATION_SHARE = 0.15
"""The share of the training data on which values are chosen."""

DIVERGES = "diverges"
"""The word in a round's warnings by which it is known that a model is lost."""

V = TypeVar("V")

Watch = Callable[["Prepared"], AbstractContextManager["Listener"]]
"""Opens something that listens to the events of one run: the command line's shows its progress."""


class Tried(Protocol):
    """The part of a run's results that a choice may look at: nothing of its test data."""

    @property
    def validation(self) -> float:
        """The best mean score on validation data over rounds; NaN without such data."""

    @property
    def diverged(self) -> str:
        """The words "diverged in round 3"; empty if it did not diverge."""


class Chosen(NamedTuple, Generic[V]):
    """The value that was chosen on validation data."""

    value: V
    passed_over: tuple[tuple[V, str], ...] = ()  # better on validation data, but the run diverged: and in which round


def choose(
    trials: Sequence[tuple[V, Tried]], later: Callable[[V], Iterable[Tried]], metric: Metric = ACCURACY
) -> Chosen[V]:
    """Return the value with the best score on validation data, the first of equals. `metric`: which way is better.

    Trials may be shorter than the run that the value is for, and `later` knows the runs of full length so far. A value
    with which one of these has diverged gives way to the next best, unless all of them diverge.
    """
    passed_over: list[tuple[V, str]] = []
    for value, _ in sorted(trials, key=lambda pair: _rank(pair[1], metric), reverse=True):
        diverged = [run.diverged for run in later(value) if run.diverged]
        if not diverged:
            return Chosen(value, tuple(passed_over))
        passed_over.append((value, diverged[0]))
    return Chosen(passed_over[0][0], tuple(passed_over))


def _rank(trial: Tried, metric: Metric) -> tuple[bool, float]:
    """Return what trials are sorted by: one that diverges comes last, whatever it had reached before."""
    return not trial.diverged, -math.inf if math.isnan(trial.validation) else metric.rank(trial.validation)


def with_option(options: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return options with one of them set, or one of the method's own: "set.alpha"."""
    outer, dot, inner = key.partition(".")
    if not dot:
        return {**options, key: value}
    return {**options, outer: {**options.get(outer, {}), inner: value}}


def run_in(
    place: Path,
    run: Run,
    silos: Silos,
    watch: Watch | None,
    note: Callable[[str], None],
    model: Builds | None = None,
) -> Record:
    """Run `run` on these silos in a directory, or resume it there, and return its record."""
    from amity import record
    from amity.jobs import Job, Shows, run_each

    there = record.holds_run(place)
    (result,) = run_each([Job(run, place)], silos, model=model, resume=there, note=note, shows=Shows(watch=watch))
    return result.record


def command_of(run: Run, data_dir: str | None = None) -> str:
    """Return the command for a run: method, data, and every option in which it differs from a run without any."""
    from amity.papers.spec.keys import requested_options

    options = {"data": run.data, **requested_options(run)}
    method, own = options.pop("method"), options.pop("set", {})
    words = ["amity", "run", method]
    for key, value in options.items():
        words += ["--" + key.replace("_", "-"), _text(value)]
    for key, value in own.items():
        words += ["--set", f"{key}={_text(value)}"]
    if data_dir is not None:
        words += ["--data-dir", data_dir]
    return shlex.join(words)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)
