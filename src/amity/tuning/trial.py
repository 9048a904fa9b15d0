"""One trial: options that are tried in a run, or in one run per seed, on silos that have no test data."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from amity.config.run import Run
from amity.data import Silos
from amity.errors import AmityError
from amity.federation.events import Event, Listener
from amity.metric import ACCURACY, Metric
from amity.prepare import Prepared
from amity.record import Line
from amity.record.directory import LINES
from amity.record.lines import NewLines
from amity.resolve import Builds
from amity.trials import DIVERGES, run_in
from amity.tuning.pruning import Pruner

State = Literal["done", "pruned", "diverged", "failed"]


class Trial(NamedTuple):
    """Options that were tried, and what came of them."""

    number: int
    values: Mapping[str, Any]  # by option: "lr", "set.sigma"
    state: State
    validation: float  # the best mean score on validation data, in the mean over seeds; NaN where there is none
    steps: Mapping[int, float]  # the score after each evaluated round, those of a second seed behind the first one's
    seconds: float
    words: str = ""  # "diverged in round 3", or why it failed

    @property
    def diverged(self) -> str:
        """The words "diverged in round 3"; empty if it did not diverge."""
        return self.words if self.state == "diverged" else ""


class Task(NamedTuple):
    """A trial that is to be run."""

    number: int
    values: Mapping[str, Any]
    runs: Sequence[Run]  # one per seed
    place: Path  # for their directories
    earlier: Sequence[Mapping[int, float]]  # the steps of trials that came to their end; empty: nothing is pruned
    metric: Metric = ACCURACY  # that scores are of
    after_ending: bool = False  # whether the model that is delivered after an ending is judged, and no other


class _Over(Exception):
    """A trial need not go on."""

    def __init__(self, state: State, words: str = "") -> None:
        super().__init__(state)
        self.state, self.words = state, words


def run_trial(
    task: Task, silos: Mapping[int, Silos], model: Builds | None, heard: Callable[[int, float], None]
) -> Trial:
    """Run a trial, or what is left of it, and return what came of it. `heard` gets each step and its score."""
    began = time.perf_counter()
    scores = _Scores(task, heard)
    state: State = "done"
    words = ""
    try:
        for run in task.runs:
            seen = _Seen(task.place / f"seed-{run.seed}", scores.see)
            record = run_in(seen.place, run, silos[run.seed], seen.watch, lambda text: None, model)
            seen.rest(record.lines)
            scores.next_seed(run, record.results["delivered"])
    except _Over as over:
        state, words = over.state, over.words
    except AmityError as error:
        state, words = "failed", str(error)
    found = scores.mean if state == "done" else task.metric.best(scores.steps.values())
    if state == "done" and math.isnan(found):
        state, words = (
            "failed",
            f"its {task.metric.title} on validation data is undefined, these may hold one class only",
        )
    return Trial(task.number, task.values, state, found, scores.steps, time.perf_counter() - began, words)


class _Scores:
    """The scores of a trial on validation data, round by round and seed by seed; ends a trial that need not go on."""

    def __init__(self, task: Task, heard: Callable[[int, float], None]) -> None:
        self.steps: dict[int, float] = {}
        self._heard = heard
        self._metric = task.metric
        self._after_ending = task.after_ending
        self._pruner = Pruner(task.earlier, task.metric)
        self._bests: list[float] = []  # of the seeds that are done
        self._best = math.nan  # of this seed so far
        self._before = 0  # rounds of earlier seeds

    def see(self, line: Line) -> None:
        """Take one round."""
        if any(DIVERGES in warning for warning in line["warnings"]):
            raise _Over("diverged", f"diverged in round {line['round']}")
        score = line["mean"] if self._after_ending else line.get("val")
        if score is None:
            return
        self._best = score if math.isnan(self._best) else self._metric.best([self._best, score])
        step = self._before + line["round"]
        self.steps[step] = math.fsum([*self._bests, score]) / (len(self._bests) + 1)
        self._heard(step, self.steps[step])
        if self._pruner.ends(step, self.steps[step]):
            raise _Over("pruned")

    def next_seed(self, run: Run, delivered: float | None) -> None:
        """Close a seed: what it delivers counts, which is its best round on validation data where nothing comes after.

        `delivered`: its score on the examples in place of test data.
        """
        after = math.nan if delivered is None else delivered
        self._bests.append(after if self._after_ending else self._best)
        self._best = math.nan
        self._before += run.rounds + self._after_ending

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return math.fsum(self._bests) / len(self._bests)


class _Seen:
    """Hands each round of a run to a function once, as soon as it is recorded."""

    def __init__(self, place: Path, see: Callable[[Line], None]) -> None:
        self.place = place
        self._see = see
        self._lines = NewLines(place / LINES)
        self._last = 0

    @contextmanager
    def watch(self, prepared: Prepared) -> Iterator[Listener]:
        yield self._listen

    def _listen(self, event: Event) -> None:
        if event.what == "recorded":
            self.rest(self._lines.until(event.round))

    def rest(self, lines: Sequence[Line]) -> None:
        """Hand over those of these rounds that have not been: a run that had ended before has no events any more."""
        for line in lines:
            if line["round"] > self._last:
                self._last = line["round"]
                self._see(line)
