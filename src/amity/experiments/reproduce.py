"""Runs what an experiment lacks, and gives back all of its outcomes.

A finished run is kept as a small file (`outcome.py`); one under way has a run directory beside it, from whose
checkpoint it goes on after an interruption. Experiments that share runs share both.
"""

from __future__ import annotations

import math
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amity import evaluate
from amity.config import Run
from amity.errors import InputError
from amity.evaluate import Wilcoxon
from amity.experiments import outcome
from amity.experiments.outcome import Outcome
from amity.experiments.spec import Cell, Experiment, Output, key_of
from amity.metrics import TITLES

if TYPE_CHECKING:
    from amity.data import Silos
    from amity.run import Prepared

Carry = Callable[["Prepared", Path], None]
"""Carries out a prepared run in a directory: the command line shows its progress."""

UNDER_WAY = "under-way"


class Comparison(NamedTuple):
    """Accuracies of silos under two rows, one for one where they are `paired`."""

    one: list[float]
    other: list[float]
    paired: bool

    @property
    def difference(self) -> float:
        return statistics.fmean(self.one) - statistics.fmean(self.other)

    def test(self, within: float = 0.0) -> Wilcoxon:
        """Whether one is better than the other, or worse by less than `within`."""
        shifted = [value + within for value in self.one]
        if self.paired:
            return evaluate.wilcoxon(shifted, self.other, outcome.EXACT)
        return Wilcoxon(evaluate.rank_sum(shifted, self.other), 0)


def _dealt(outcome: Outcome) -> tuple[Any, ...]:
    """What decides which data silos of a name hold."""
    options = outcome.content["resolved"]
    return tuple(options.get(key) for key in ("data", "setting", "clients", "per_silo"))


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values)  # NaN where one is


@dataclass(frozen=True, eq=False)
class Results:
    """An experiment's outcomes, by row and column, then by seed."""

    experiment: Experiment
    size: str
    outcomes: Mapping[tuple[str, str], list[Outcome]]
    chosen: Mapping[tuple[str, str], Any]  # values that validation data chose

    def seeds(self, row: str, column: str) -> list[Outcome]:
        return self.outcomes.get((row, column), [])

    def first(self, row: str, column: str) -> Outcome | None:
        """The outcome of the first seed; figures of single runs show it."""
        return next(iter(self.seeds(row, column)), None)

    @property
    def score(self) -> str:
        """What tables and figures call the main score."""
        found = {outcome.score for outcomes in self.outcomes.values() for outcome in outcomes}
        return TITLES[found.pop()] if len(found) == 1 else "score"

    @property
    def rows(self) -> list[str]:
        return [row for row in self.experiment.rows(self.size) if any(key[0] == row for key in self.outcomes)]

    @property
    def columns(self) -> list[str]:
        columns = self.experiment.columns(self.size)
        return [column for column in columns if any(key[1] == column for key in self.outcomes)]

    def axes(self, output: Output) -> tuple[list[str], list[str]]:
        """The recorded rows and columns that an output shows."""
        rows = [row for row in self.rows if not output.rows or row in output.rows]
        columns = [column for column in self.columns if not output.columns or column in output.columns]
        return rows, columns

    def pairs(self, one: str, other: str, column: str, than: str = "") -> list[tuple[Outcome, Outcome]]:
        """Two rows' outcomes of the same seed, for every seed that both have; the other's in column `than` if given."""
        of_seed = {outcome.seed: outcome for outcome in self.seeds(other, than or column)}
        return [(outcome, of_seed[outcome.seed]) for outcome in self.seeds(one, column) if outcome.seed in of_seed]

    def compared(self, one: str, other: str, column: str, than: str = "") -> Comparison:
        """Two rows in a column, silo by silo where their silos hold the same data; the other in column `than` if given.

        A silo of one seed is another one in the next seed, dealt anew. Natural silos are the same in all seeds: each
        counts once, with its mean, or a test would take four hospitals for twenty.
        """
        ours, theirs = self.seeds(one, column), self.seeds(other, than or column)
        if ours and theirs and _dealt(ours[0]) != _dealt(theirs[0]):
            a, b = ([value for one in rows for value in one.accuracies if value == value] for rows in (ours, theirs))
            return Comparison(a, b, paired=False)
        pairs = self.pairs(one, other, column, than)
        silos = [list(zip(a.accuracies, b.accuracies, strict=True)) for a, b in pairs]  # [seed][silo]
        if pairs and str(pairs[0][0].content["resolved"].get("setting")) == "natural":
            silos = [
                [(_mean(a), _mean(b)) for a, b in (zip(*seeds, strict=True) for seeds in zip(*silos, strict=True))]
            ]
        both = [pair for seed in silos for pair in seed if not any(map(math.isnan, pair))]
        return Comparison([a for a, _ in both], [b for _, b in both], paired=True)


def recorded(experiment: Experiment, size: str, folder: Path) -> Results:
    """What is there already."""
    outcomes: dict[tuple[str, str], list[Outcome]] = {}
    chosen: dict[tuple[str, str], Any] = {}
    for cell in experiment.cells(size):
        value = _chosen(cell, folder)
        if cell.choice is not None and value is None:
            continue
        found = [outcome.read(folder, cell.run(seed, value)) for seed in range(cell.seeds)]
        if there := [result for result in found if result is not None]:
            outcomes[cell.row, cell.column] = there
        if cell.choice is not None:
            chosen[cell.row, cell.column] = value
    return Results(experiment, size, outcomes, chosen)


def missing(experiment: Experiment, size: str, folder: Path) -> int:
    """How many runs are still to do; choosing a value counts its trials."""
    return len({key_of(run) for cell in experiment.cells(size) for run in _missing(cell, folder)})


def total(experiment: Experiment, size: str) -> int:
    """How many runs there are, trials and all."""
    cells = experiment.cells(size)
    runs = {key_of(run) for cell in cells for _, run in cell.trials()}
    open_choice = sum(cell.seeds for cell in cells if cell.choice is not None)
    runs |= {key_of(cell.run(seed)) for cell in cells if cell.choice is None for seed in range(cell.seeds)}
    return len(runs) + open_choice


def _missing(cell: Cell, folder: Path) -> list[Run]:
    lacking = [run for _, run in cell.trials() if outcome.read(folder, run) is None]
    value = _chosen(cell, folder)
    guess = value if cell.choice is None or value is not None else cell.choice.values[0]
    runs = [cell.run(seed, guess) for seed in range(cell.seeds)]
    if cell.choice is not None and value is None:
        return lacking + runs
    return lacking + [run for run in runs if outcome.read(folder, run) is None]


def _chosen(cell: Cell, folder: Path) -> Any:
    """The value with the best score on validation data; None while a trial is missing. The first of equals wins."""
    if cell.choice is None:
        return None
    found = [(value, outcome.read(folder, run)) for value, run in cell.trials()]
    scores = [(value, result.validation) for value, result in found if result is not None]
    if len(scores) < len(found):
        return None
    return max(scores, key=lambda pair: -math.inf if math.isnan(pair[1]) else pair[1])[0]


class Runner:
    """Carries out runs one after the other; silos that consecutive runs share are dealt once."""

    def __init__(self, folder: Path, carry: Carry, data_dir: str | None = None, keep_runs: bool = False) -> None:
        self.folder = folder
        self._carry = carry
        self._data_dir = data_dir
        self._keep_runs = keep_runs
        self._dealt: tuple[object, Silos] | None = None

    def complete(self, experiment: Experiment, size: str) -> None:
        """Run all that is missing. What would end the last run is found before the first."""
        cells = experiment.cells(size)
        self._check([run for cell in cells for run in _missing(cell, self.folder)])
        for cell in cells:
            for run in self._left(cell):
                self.once(run)

    def _check(self, runs: Sequence[Run]) -> None:
        """Refuse what `prepare` would refuse, as far as it can be known without data; fetch data that are not here."""
        from amity.contract import Particular
        from amity.data import SOURCES
        from amity.data.settings import resolve
        from amity.methods import build
        from amity.models import make
        from amity.run import solver_of

        for run in runs:
            method = build(run.method, run.settings)
            solver = solver_of(run, run.method, method, sizes=[1])  # they decide the batch only
            if isinstance(method, Particular):
                method.accept(solver)
            resolve(run.setting, run.data)
            if run.data in SOURCES:
                make(run.model, SOURCES[run.data].shape, SOURCES[run.data].classes)
        for data, run in {run.data: run for run in reversed(runs)}.items():  # the first last: its silos are kept
            entry = SOURCES.get(data)
            if entry is None or (entry.official is not None and entry.find(self._data_dir) is None):
                self._silos(run)

    def _left(self, cell: Cell) -> Iterator[Run]:
        yield from (run for _, run in cell.trials())
        value = _chosen(cell, self.folder)
        yield from (cell.run(seed, value) for seed in range(cell.seeds))

    def once(self, run: Run) -> Outcome:
        """One run, unless it is recorded."""
        from amity import record
        from amity.run import prepare

        key = key_of(run)
        there = outcome.read(self.folder, run)
        if there is not None:
            return there
        place = self.folder / UNDER_WAY / key
        prepared = prepare(run, self._silos(run))
        self._carry(prepared, place)
        kept = outcome.keep(self.folder, run, record.read(place), _peak())
        if not self._keep_runs:
            shutil.rmtree(place)
            _remove_empty(place.parent)
        return kept

    def _silos(self, run: Run) -> Silos:
        from amity.run import silos_of

        which = (run.data, run.setting, run.clients, run.seed, run.test_fraction, run.labels)
        if self._dealt is None or self._dealt[0] != which:
            self._dealt = None  # free the old ones first
            self._dealt = which, silos_of(run, self._data_dir)
        return self._dealt[1]


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


def _peak() -> float | None:
    """The most memory that this process has held so far, in GiB; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def pick(text: str, axis: str) -> Sequence[str]:
    """Names from the command line: one,two."""
    chosen = [word.strip() for word in text.split(",")]
    if not all(chosen):
        raise InputError(f"--{axis} needs names with commas between them, got {text!r}: try --{axis} one,two")
    return chosen
