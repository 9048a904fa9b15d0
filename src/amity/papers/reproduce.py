"""The recorded part of an experiment, and a runner that runs the rest.

A finished run is kept as a small file (`outcome/`); one under way has a run directory beside it, from whose checkpoint
it goes on after an interruption. Experiments that share runs share both.
"""

from __future__ import annotations

import math
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amity.config.run import Run
from amity.errors import InputError
from amity.papers import outcome, runs
from amity.papers.outcome import Outcome
from amity.papers.results import Results
from amity.papers.spec import Cell, Experiment, key_of
from amity.trials import Chosen, Tried, Watch, choose, run_in

if TYPE_CHECKING:
    from amity.data import Silos

UNDER_WAY = "under-way"

LEFT_OUT = "left-out"
"""The folder, below that of the runs, of trials that are judged by training examples left out of them."""


class Wanted(NamedTuple):
    """A run that an experiment asks for, or a trial that chooses a value."""

    run: Run
    left_out: bool = False  # a trial that is judged after its ending, by training examples in place of test data

    def folder(self, folder: Path) -> Path:
        """Return where its outcome lies: trials of this kind have a folder below that of the runs."""
        return folder / LEFT_OUT if self.left_out else folder

    def outcome(self, folder: Path) -> Outcome | None:
        """Return its outcome; None where it is not recorded."""
        return outcome.read(self.folder(folder), self.run)


class _AfterEnding(NamedTuple):
    """A trial as its delivered models make it: their score on examples that were left out stands for validation."""

    run: Outcome

    @property
    def validation(self) -> float:
        return self.run.last

    @property
    def diverged(self) -> str:
        return self.run.diverged


def recorded(experiment: Experiment, size: str, folder: Path) -> Results:
    """Return all outcomes of an experiment that are recorded in a folder."""
    outcomes: dict[tuple[str, str], list[Outcome]] = {}
    chosen: dict[tuple[str, str], Chosen[Any]] = {}
    for cell in experiment.cells(size):
        choice = _chosen(cell, folder)
        if choice is None:
            continue
        if found := _recorded_seeds(cell, choice.value, folder):
            outcomes[cell.row, cell.column] = found
        if cell.choice is not None:
            chosen[cell.row, cell.column] = choice
    for row in experiment.rows(size):
        for column in experiment.columns(size) if experiment.best_of(row) else ():
            cells = [experiment.cell(size, other, column) for other in experiment.best_of(row)]
            if (best := _best_of(cells, folder)) and (found := _recorded_seeds(*best, folder)):
                outcomes[row, column] = found
    return Results(experiment, size, outcomes, chosen)


def _recorded_seeds(cell: Cell, value: Any, folder: Path) -> list[Outcome]:
    """Return a cell's recorded outcomes with this value of the option that is chosen, one per seed."""
    found = [outcome.read(folder, cell.run(seed, value)) for seed in range(cell.seeds)]
    return [result for result in found if result is not None]


def missing(experiment: Experiment, size: str, folder: Path) -> int:
    """Return the number of runs that are still to do, with the trials that choose a value."""
    lacking = [wanted for cell in experiment.cells(size) for wanted in _missing_runs(cell, folder)]
    return len({(key_of(run), left_out) for run, left_out in lacking})


def total(experiment: Experiment, size: str) -> int:
    """Return the number of all runs, with the trials that choose a value."""
    cells = experiment.cells(size)
    keys = {(key_of(run), left_out) for cell in cells for _, (run, left_out) in _trials(cell)}
    open_choice = sum(cell.seeds for cell in cells if cell.choice is not None)
    keys |= {(key_of(cell.run(seed)), False) for cell in cells if cell.choice is None for seed in range(cell.seeds)}
    return len(keys) + open_choice


def _trials(cell: Cell) -> list[tuple[Any, Wanted]]:
    """Return the values that a cell chooses from, each with its trial."""
    return [(value, Wanted(run, cell.after_ending)) for value, run in cell.trials()]


def _missing_runs(cell: Cell, folder: Path) -> list[Wanted]:
    """Return a cell's runs that are not recorded, its trials first."""
    lacking = [wanted for _, wanted in _trials(cell) if wanted.outcome(folder) is None]
    choice = _chosen(cell, folder)
    if choice is None:  # which value it will be is not known, how many runs it takes is
        return lacking + [Wanted(cell.run(seed, cell.trials()[0][0])) for seed in range(cell.seeds)]
    of_seeds = [Wanted(cell.run(seed, choice.value)) for seed in range(cell.seeds)]
    return lacking + [wanted for wanted in of_seeds if wanted.outcome(folder) is None]


def _tried(cell: Cell, folder: Path) -> list[tuple[Any, Outcome]] | None:
    """Return the values that a cell chooses from, each with its trial's outcome; None while one is missing."""
    found = [(value, wanted.outcome(folder)) for value, wanted in _trials(cell)]
    there = [(value, trial) for value, trial in found if trial is not None]
    return there if len(there) == len(found) else None


def _chosen(cell: Cell, folder: Path) -> Chosen[Any] | None:
    """Return the value that held-out examples choose, as far as is recorded; None while a trial is missing."""
    if cell.choice is None:
        return Chosen(None)
    if (tried := _tried(cell, folder)) is None:
        return None
    trials = [(value, _judged(cell, trial)) for value, trial in tried]
    return choose(trials, lambda value: _recorded_seeds(cell, value, folder), tried[0][1].metric)


def _judged(cell: Cell, trial: Outcome) -> Tried:
    return _AfterEnding(trial) if cell.after_ending else trial


def _best_of(cells: Sequence[Cell], folder: Path) -> tuple[Cell, Any] | None:
    """Return which of these rows held-out examples choose, with its value; None while a trial of any is missing."""
    ranked: list[tuple[float, Cell, Any]] = []
    for cell in cells:
        tried, choice = _tried(cell, folder), _chosen(cell, folder)
        if tried is None or choice is None:
            return None
        trial = next(trial for value, trial in tried if value == choice.value)
        score = _judged(cell, trial).validation
        ranked.append((-math.inf if math.isnan(score) else trial.metric.rank(score), cell, choice.value))
    _, cell, value = max(ranked, key=lambda one: one[0])  # the first of equals
    return cell, value


class Runner:
    """Runs one run after the other in a folder; silos that consecutive runs share are dealt once."""

    def __init__(
        self,
        folder: Path,
        data_dir: str | None = None,
        keep_runs: bool = False,
        watch: Watch | None = None,
        note: Callable[[str], None] = warnings.warn,
    ) -> None:
        """`watch` listens to each run, `note` hears what there is to say about resuming one."""
        self.folder = folder
        self._watch = watch
        self._note = note
        self._data_dir = data_dir
        self._keep_runs = keep_runs
        self._dealt: tuple[object, Silos] | None = None  # what the last silos were dealt from, and they

    def run_missing(self, experiment: Experiment, size: str) -> None:
        """Run all that is missing. Anything that would stop the last run is found before the first."""
        cells = experiment.cells(size)
        self._check([wanted.run for cell in cells for wanted in _missing_runs(cell, self.folder)])
        for cell in cells:
            while left := _missing_runs(cell, self.folder):  # anew after every run: a chosen value may have diverged
                self.run(*left[0])

    def _check(self, planned: Sequence[Run]) -> None:
        """Refuse runs that could not be prepared, and fetch data that are not here."""
        from amity.data import SOURCES

        for run in planned:
            runs.check_run(run)
        for data, run in {run.data: run for run in reversed(planned)}.items():  # the first last: its silos are kept
            entry = SOURCES.get(data)
            if entry is None or (entry.official is not None and entry.find(self._data_dir) is None):
                self._silos(run)

    def run(self, run: Run, left_out: bool = False) -> Outcome:
        """Run one run unless it is recorded, and return its outcome.

        `left_out`: a part of each silo's training data is taken out and judges in place of test data.
        """
        wanted = Wanted(run, left_out)
        found = wanted.outcome(self.folder)
        if found is not None:
            return found
        folder = wanted.folder(self.folder)
        place = folder / UNDER_WAY / key_of(run)
        silos = self._silos(run)
        if left_out:
            from amity.left_out import check_sizes, without

            silos = silos.at_most(run.per_silo, run.seed)
            check_sizes(silos, "choose")
            silos = without(silos, 0, run.seed)
        record = run_in(place, run, silos, self._watch, self._note)
        written = outcome.write(folder, run, record, _peak_memory())
        if not self._keep_runs:
            shutil.rmtree(place)
            _remove_if_empty(place.parent)
        return written

    def _silos(self, run: Run) -> Silos:
        """Return the silos of a run: those of the run before, if it asked for the same."""
        asked = (run.data, run.setting, run.clients, run.seed, run.test_fraction, run.labels)
        if self._dealt is None or self._dealt[0] != asked:
            self._dealt = None  # free the old ones first
            self._dealt = asked, runs.deal_silos(run, self._data_dir)
        return self._dealt[1]


def _remove_if_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


def _peak_memory() -> float | None:
    """Return the most memory that this process has held so far, in GiB; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def pick(text: str, axis: str) -> Sequence[str]:
    """Return the names in a command line's value: one,two."""
    chosen = [word.strip() for word in text.split(",")]
    if not all(chosen):
        raise InputError(f"--{axis} needs names with commas between them, got {text!r}: try --{axis} one,two")
    return chosen
