"""The recorded part of an experiment, and a runner that runs the rest.

A finished run is kept as a small file (`outcome/`); one under way has a run directory beside it, from whose checkpoint
it goes on after an interruption. Experiments that share runs share both.
"""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amity.config.run import Run
from amity.errors import InputError
from amity.papers import outcome, runs
from amity.papers.outcome import Outcome
from amity.papers.results import Results
from amity.papers.spec import Cell, Experiment, key_of
from amity.trials import Chosen, Watch, choose, run_in

if TYPE_CHECKING:
    from amity.data import Silos

UNDER_WAY = "under-way"


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
    return Results(experiment, size, outcomes, chosen)


def _recorded_seeds(cell: Cell, value: Any, folder: Path) -> list[Outcome]:
    """Return a cell's recorded outcomes with this value of the option that is chosen, one per seed."""
    found = [outcome.read(folder, cell.run(seed, value)) for seed in range(cell.seeds)]
    return [result for result in found if result is not None]


def missing(experiment: Experiment, size: str, folder: Path) -> int:
    """Return the number of runs that are still to do, with the trials that choose a value."""
    return len({key_of(run) for cell in experiment.cells(size) for run in _missing_runs(cell, folder)})


def total(experiment: Experiment, size: str) -> int:
    """Return the number of all runs, with the trials that choose a value."""
    cells = experiment.cells(size)
    keys = {key_of(run) for cell in cells for _, run in cell.trials()}
    open_choice = sum(cell.seeds for cell in cells if cell.choice is not None)
    keys |= {key_of(cell.run(seed)) for cell in cells if cell.choice is None for seed in range(cell.seeds)}
    return len(keys) + open_choice


def _missing_runs(cell: Cell, folder: Path) -> list[Run]:
    """Return a cell's runs that are not recorded, its trials first."""
    lacking = [run for _, run in cell.trials() if outcome.read(folder, run) is None]
    choice = _chosen(cell, folder)
    if choice is None:  # which value it will be is not known, how many runs it takes is
        return lacking + [cell.run(seed, cell.trials()[0][0]) for seed in range(cell.seeds)]
    of_seeds = [cell.run(seed, choice.value) for seed in range(cell.seeds)]
    return lacking + [run for run in of_seeds if outcome.read(folder, run) is None]


def _chosen(cell: Cell, folder: Path) -> Chosen[Any] | None:
    """Return the value that validation data choose, as far as is recorded; None while a trial is missing."""
    if cell.choice is None:
        return Chosen(None)
    found = [(value, outcome.read(folder, run)) for value, run in cell.trials()]
    trials = [(value, trial) for value, trial in found if trial is not None]
    if len(trials) < len(found):
        return None
    return choose(trials, lambda value: _recorded_seeds(cell, value, folder), trials[0][1].metric)


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
        self._check([run for cell in cells for run in _missing_runs(cell, self.folder)])
        for cell in cells:
            while left := _missing_runs(cell, self.folder):  # anew after every run: a chosen value may have diverged
                self.run(left[0])

    def _check(self, planned: Sequence[Run]) -> None:
        """Refuse runs that could not be prepared, and fetch data that are not here."""
        from amity.data import SOURCES

        for run in planned:
            runs.check_run(run)
        for data, run in {run.data: run for run in reversed(planned)}.items():  # the first last: its silos are kept
            entry = SOURCES.get(data)
            if entry is None or (entry.official is not None and entry.find(self._data_dir) is None):
                self._silos(run)

    def run(self, run: Run) -> Outcome:
        """Run one run unless it is recorded, and return its outcome."""
        found = outcome.read(self.folder, run)
        if found is not None:
            return found
        place = self.folder / UNDER_WAY / key_of(run)
        record = run_in(place, run, self._silos(run), self._watch, self._note)
        written = outcome.write(self.folder, run, record, _peak_memory())
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
