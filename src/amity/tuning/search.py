"""The search, from its beginning to the choice of the best."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from amity import methods
from amity.config.run import Run
from amity.config.seeds import checked_seeds
from amity.data import Silos
from amity.errors import InputError
from amity.metric import Metric, main_metric
from amity.prepare import prepare, roster_of, silos_of
from amity.private_runs import refuse_trials
from amity.resolve import Builds, resolve
from amity.trials import choose, command_of
from amity.tuning.asked import asked_of, check_asked, search_directory, write_found
from amity.tuning.hidden import for_trials, judged_after_ending
from amity.tuning.space import Choices, Space, check_dimension, default_space, with_values
from amity.tuning.study import TOGETHER, Study, first_trials, stored_in
from amity.tuning.trial import Task, Trial
from amity.tuning.workers import Heard, Workers, workers_of

TRIALS = 20
STUDY = "study.db"
UNDER_WAY = "under-way"

Ended = Callable[[Trial], None]
"""Hears of each trial when it has ended."""


@dataclass(frozen=True)
class Tuned:
    """What a search has found."""

    run: Run  # with the best options
    best: Trial
    trials: Sequence[Trial]  # all, in their order
    passed_over: Sequence[tuple[Trial, str]]  # better in their trials, but diverged in a run of full length
    importance: Mapping[str, float]  # of options, from 0 to 1; empty where that cannot be told
    command: str  # that runs the best
    metric: Metric  # that they were compared by

    @property
    def ranked(self) -> list[Trial]:
        """The trials that came to their end, the best first; those of equal score in their order."""
        done = [trial for trial in self.trials if trial.state == "done"]
        return sorted(done, key=lambda trial: -self.metric.rank(trial.validation))


def tune(
    run: Run,
    silos: Silos | None = None,
    *,
    space: Space | None = None,
    trials: int = TRIALS,
    timeout: float = math.inf,
    trial_rounds: int | None = None,
    seeds: Iterable[int] | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    model: Builds | None = None,
    data_dir: str | None = None,
    heard: Heard = lambda number, step, score: None,
    ended: Ended = lambda trial: None,
) -> Tuned:
    """Search for the options with which a method does best on validation data; what was found comes back.

    `space`: where to search, else what the method's options declare. `trials`: how many to try, in all. `timeout`: no
    trial begins after so many seconds. `trial_rounds`: rounds of a trial, where they are to be fewer than the run's;
    the best is then run at full length, and gives way to the next if it diverges. `seeds`: try everything with each of
    these. `out`: where the search is kept, and goes on if it is called again. `workers`: trials at a time, each in a
    process of its own. `heard` gets a trial's number, its step and its score; `ended` each trial.
    """
    refuse_trials(run, "tune")
    short = _checked_rounds(run, trials, timeout, trial_rounds, workers)
    wanted = default_space(run) if space is None else dict(space)
    if not wanted:
        raise InputError(
            f"tune needs something to search, {run.method} has nothing left: give --search lr=0.001:0.1:log"
        )
    for name, dimension in wanted.items():
        check_dimension(run, name, dimension)
    after_ending = judged_after_ending(run, wanted)
    bases, hidden = _made_ready(run, silos, seeds, after_ending, model, data_dir)
    metric = main_metric(run.metric, hidden[bases[0].seed].classes)
    defaults = _defaults(bases[0], hidden[bases[0].seed], model)
    with search_directory(out) as place, stored_in(place / STUDY):
        check_asked(place, asked_of(run, wanted, bases, short, hidden, after_ending))
        study = Study(place / STUDY, wanted, run.seed, first_trials(wanted, defaults), metric)
        most = trials if (combinations := _combinations(wanted)) is None else min(trials, combinations)
        with closing(study), workers_of(min(workers, TOGETHER), hidden, model) as hands:
            search = _Search(study, hands, bases, short, place, metric, after_ending, heard, ended)
            search.run(most, time.monotonic() + timeout)
            best, passed_over = search.choose()
            found = with_values(replace(run, val_fraction=bases[0].val_fraction), best.values)
            write_found(place, found, study.trials)
            command = command_of(found, data_dir)
            return Tuned(found, best, study.trials, passed_over, study.importance(), command, metric)


def _checked_rounds(run: Run, trials: int, timeout: float, trial_rounds: int | None, workers: int) -> int:
    """Return the rounds of a trial; refuse numbers that make no search."""
    if trials < 1 or workers < 1 or not timeout > 0:
        got = f"trials={trials}, workers={workers}, timeout={timeout:g}"
        raise InputError(
            f"tune needs trials and workers of at least 1 and a timeout above 0, got {got}: try 20, 1, 600"
        )
    short = run.rounds if trial_rounds is None else trial_rounds
    if not 1 <= short <= run.rounds:
        raise InputError(
            f"trial_rounds needs to be from 1 to {run.rounds}, the run's rounds, got {short}: leave it out"
        )
    return short


class _Search:
    """Runs the trials of a study, and chooses."""

    def __init__(
        self,
        study: Study,
        workers: Workers,
        bases: Sequence[Run],
        rounds: int,
        place: Path,
        metric: Metric,
        after_ending: bool,
        heard: Heard,
        ended: Ended,
    ) -> None:
        self._study, self._workers, self._bases, self._rounds = study, workers, bases, rounds
        self._place, self._metric, self._heard, self._ended = place, metric, heard, ended
        self._after_ending = after_ending

    def run(self, most: int, until: float) -> None:
        """Run trials until there are so many, or the time is over."""
        while len(self._study.trials) < most and time.monotonic() < until:
            proposed = {number: values for number, values in self._study.next().items() if number < most}
            tasks = [self._task(number, values, self._rounds) for number, values in proposed.items()]
            known = {_key(trial.values): trial for trial in self._study.trials}
            again = [
                known[_key(task.values)]._replace(number=task.number) for task in tasks if _key(task.values) in known
            ]
            new = [task for task in tasks if _key(task.values) not in known]
            if not self._run(new, again, until):
                return

    def _run(self, tasks: Sequence[Task], again: Sequence[Trial], until: float) -> bool:
        """Run some trials, and keep what became of them in their order; return whether all came to an end."""
        found = {trial.number: trial for trial in again}
        expected = sorted([*found, *(task.number for task in tasks)])
        for trial in self._workers.run(tasks, self._heard, until):
            found[trial.number] = trial
            self._ended(trial)
        for number in expected:
            if number not in found:
                return False
            self._study.tell(found[number])
            shutil.rmtree(self._under_way(number), ignore_errors=True)
        return True

    def choose(self) -> tuple[Trial, list[tuple[Trial, str]]]:
        """Return the best trial, and those that were better and diverged at full length."""
        done = [(trial.number, trial) for trial in self._study.trials if trial.state == "done"]
        if not done:
            raise InputError(_nothing(self._study.trials))
        by_number = dict(done)
        while True:
            chosen = choose(done, self._study.confirmed, self._metric)
            number = chosen.value
            if self._rounds == self._bases[0].rounds or self._study.confirmed(number):
                return by_number[number], [(by_number[other], words) for other, words in chosen.passed_over]
            task = self._task(number, by_number[number].values, self._bases[0].rounds)._replace(earlier=())
            (confirmed,) = self._workers.run([task], self._heard, math.inf)
            self._study.confirm(confirmed)
            shutil.rmtree(self._under_way(number), ignore_errors=True)

    def _task(self, number: int, values: Mapping[str, Any], rounds: int) -> Task:
        runs = [replace(with_values(base, values), rounds=rounds) for base in self._bases]
        # What is behind before an ending may be ahead after it: nothing is given up on the way to one.
        earlier = [] if self._after_ending else self._study.earlier()
        return Task(number, values, runs, self._under_way(number), earlier, self._metric, self._after_ending)

    def _under_way(self, number: int) -> Path:
        return self._place / UNDER_WAY / f"{number:04d}"


def _key(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def _nothing(trials: Sequence[Trial]) -> str:
    """Return why there is nothing to choose from."""
    told = next((trial.words for trial in trials if trial.words), "")
    if not trials:
        return "no trial came to its end in time: give a longer --timeout, the same command goes on"
    return f"none of {len(trials)} trials came to its end ({told}): search smaller rates, or look at the first reason"


def _made_ready(
    run: Run,
    silos: Silos | None,
    seeds: Iterable[int] | None,
    after_ending: bool,
    model: Builds | None,
    data_dir: str | None,
) -> tuple[list[Run], dict[int, Silos]]:
    """Return the run of each seed, and the silos that its trials see."""
    bases, hidden = [], {}
    for seed in [run.seed] if seeds is None else checked_seeds(seeds):
        one = replace(run, seed=seed)
        own = silos_of(one, data_dir) if silos is None else silos
        base, hidden[seed] = for_trials(one, own, after_ending)
        prepare(base, hidden[seed], model=model)  # what is wrong with all trials is said before the first
        bases.append(base)
    return bases, hidden


def _defaults(base: Run, silos: Silos, model: Builds | None) -> dict[str, Any]:
    """Return every option as it is without a search."""
    resolved = resolve(base, roster_of(silos), model=model).run.table()
    own = methods.settings_of(methods.build(base.method, base.settings))
    return {**resolved, **{f"set.{key}": value for key, value in own.items()}}


def _combinations(space: Space) -> int | None:
    """Return how many different trials a space has; None where it has a range."""
    counts = [len(one.values) for one in space.values() if isinstance(one, Choices)]
    return math.prod(counts) if len(counts) == len(space) else None
