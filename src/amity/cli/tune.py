"""`amity tune`: a search for good options of a method, on validation data alone."""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from amity import logs
from amity.cli import plan
from amity.cli.flags import Config, DataDir, Out, Seeds, Settings, with_log_options, with_run_options
from amity.cli.progress import begin, err, shown_fetching
from amity.config.run import Run
from amity.config.seeds import seeds_of
from amity.errors import InputError
from amity.metric import METRICS

if TYPE_CHECKING:
    from amity.tuning.search import Tuned
    from amity.tuning.space import Space
    from amity.tuning.trial import Trial

SHOWN = 5
"""Trials in the table at the end."""

_log = logging.getLogger("amity.cli")


@with_log_options
@with_run_options
def tune_command(
    *,
    method: Annotated[
        str | None, typer.Argument(metavar="METHOD", help="see `amity methods`", show_default=False)
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            metavar="KEY=LOW:HIGH[:log]|KEY=a,b,c",
            help="where to search an option; may be repeated [default: the rate, epochs and the method's own options]",
        ),
    ] = None,
    trials: Annotated[int, typer.Option("--trials", metavar="N", help="how many to try, in all")] = 20,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="begin no trial after this [default: none]")
    ] = None,
    trial_rounds: Annotated[
        int | None,
        typer.Option(
            "--trial-rounds",
            metavar="N",
            help="rounds of a trial; the best is then run with --rounds, too [default: --rounds]",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", help="trials at a time, in processes; results do not depend on it")
    ] = 1,
    config: Config = None,
    settings: Settings = None,
    directory: Out = None,
    data_dir: DataDir = None,
    seeds: Seeds = None,
    given: dict[str, str],
) -> None:
    """Search for the best options of a method on validation data; ends with the command to run them.

    Test data are not looked at, and options that are given stay as they are. The same command goes on where it was
    interrupted.
    """
    file = plan.config_of(config)
    name = method or file.get("method")
    if name is None:
        raise InputError("tune needs a METHOD, got none: see `amity methods`")
    if importlib.util.find_spec("optuna") is None:
        raise InputError("amity tune needs optuna, it is not installed: pip install 'amity[tune]'")
    begin(f"tuning {name}")
    (run,) = plan.runs_of([name], given, file, settings or [])
    target = plan.target_of(directory, lambda: run, f"tune-{name}", [(None, given)])
    from amity.tuning.space import default_space, parse_space

    logs.log_torch()
    search_and_show(
        run,
        space=parse_space(search, run) if search else default_space(run, {*given, *file}),
        trials=trials,
        timeout=math.inf if timeout is None else timeout,
        trial_rounds=trial_rounds,
        seeds=None if seeds is None else seeds_of(seeds),
        out=target,
        workers=workers,
        data_dir=data_dir,
    )


def search_and_show(
    run: Run,
    *,
    space: Space,
    trials: int,
    timeout: float,
    trial_rounds: int | None,
    seeds: Sequence[int] | None,
    out: Path,
    workers: int,
    data_dir: str | None,
) -> None:
    """Search, showing how it goes on; then print what was found, and the command that runs it."""
    from amity.tuning.search import tune

    _fetch(run, data_dir)
    with _shown(run, trials) as show:
        try:
            tuned = tune(
                run,
                space=space,
                trials=trials,
                timeout=timeout,
                trial_rounds=trial_rounds,
                seeds=seeds,
                out=out,
                workers=workers,
                data_dir=data_dir,
                heard=show.heard,
                ended=show.ended,
            )
        except KeyboardInterrupt:
            err.print(escape(f"interrupted: the same command goes on from here ({out})"), highlight=False)
            raise
    _print(tuned, Console())
    print(f"all trials: {out / 'trials.csv'}\n\nrun the best, and see it on test data:\n\n    {tuned.command}")


def _fetch(run: Run, data_dir: str | None) -> None:
    """Fetch data that are not here, and show it: the search has a bar of its own."""
    from amity.data import SOURCES
    from amity.prepare import silos_of

    entry = SOURCES.get(run.data)
    if entry is not None and entry.official is not None and entry.find(data_dir) is None:
        with shown_fetching() as notify:
            silos_of(run, data_dir, notify)


@contextmanager
def _shown(run: Run, trials: int) -> Iterator[_Lines]:
    """Give what shows a search: a bar on a terminal, one line per trial everywhere."""
    if not err.is_terminal:
        yield _Lines(run, trials)
        return
    columns = (
        TextColumn("{task.description:<13}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total} trials  {task.fields[now]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err) as bar:
        yield _Bar(run, trials, bar)


class _Lines:
    """Prints a line for each trial that has ended."""

    def __init__(self, run: Run, trials: int) -> None:
        self._run, self._trials = run, trials
        self._best: float | None = None

    def heard(self, number: int, step: int, score: float) -> None:
        """Take the score of a trial after a round."""

    def ended(self, trial: Trial) -> None:
        """Show a trial that has ended."""
        if trial.state == "done":
            known = [] if self._best is None else [self._best]
            self._best = (min if _lower(self._run) else max)([*known, trial.validation])
        best = "" if self._best is None else f", best {self._best:.4g}"
        words = f"{self._run.method} trial {trial.number + 1}/{self._trials} {_told(trial)}{best}: {_values(trial)}"
        _log.info("%s", words)
        err.print(escape(words), highlight=False, soft_wrap=True)


class _Bar(_Lines):
    """Moves a bar on with every trial, and shows the round that one is at."""

    def __init__(self, run: Run, trials: int, bar: Progress) -> None:
        super().__init__(run, trials)
        self._bar = bar
        self._task = bar.add_task(run.method, total=trials, now="")

    def heard(self, number: int, step: int, score: float) -> None:
        """Show the score of a trial after a round."""
        self._bar.update(self._task, now=f"trial {number + 1}, round {step}: {score:.4g}")

    def ended(self, trial: Trial) -> None:
        """Show a trial that has ended."""
        super().ended(trial)
        self._bar.update(self._task, completed=trial.number + 1, now="")


def _lower(run: Run) -> bool:
    """Return whether lower scores are better."""
    metric = METRICS.get(run.metric)
    return metric is not None and metric.better == "lower"


def _told(trial: Trial) -> str:
    if trial.state == "done":
        return f"{trial.validation:.4g} in {trial.seconds:.1f}s"
    if trial.state == "pruned":
        return f"pruned after {len(trial.steps)} rounds"
    return trial.words if trial.state == "diverged" else f"failed ({trial.words})"


def _values(trial: Trial) -> str:
    return " ".join(f"{name.removeprefix('set.')}={_text(value)}" for name, value in trial.values.items())


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _print(tuned: Tuned, console: Console) -> None:
    """Print the best trials, what they left behind, and which options matter."""
    names = list(tuned.best.values)
    table = Table(box=None, pad_edge=False)
    for head in (
        "Trial",
        f"{tuned.metric.heading} on validation",
        "Seconds",
        *(name.removeprefix("set.") for name in names),
    ):
        table.add_column(head, justify="right", no_wrap=True)
    for trial in tuned.ranked[:SHOWN]:
        mark = " *" if trial.number == tuned.best.number else ""
        cells = [f"{trial.number + 1}", f"{tuned.metric.digits(trial.validation)}{mark}", f"{trial.seconds:.1f}"]
        table.add_row(*cells, *(escape(_text(trial.values[name])) for name in names))
    console.print(table)
    counts = {state: sum(trial.state == state for trial in tuned.trials) for state in ("pruned", "diverged", "failed")}
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    print(f"\n{len(tuned.trials)} trials{': ' + told if told else ''}")
    for trial, words in tuned.passed_over:
        print(f"trial {trial.number + 1} was better, but {words} in a run of full length")
    if tuned.importance:
        shares = ", ".join(f"{name.removeprefix('set.')} {share:.0%}" for name, share in tuned.importance.items())
        print(f"what mattered: {shares}")
