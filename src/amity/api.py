"""Running and comparing, as Python users and the command line do it: `amity.run` and `amity.compare`.

Both say which runs there are and what becomes of their results; `amity.jobs` runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack, overload

from amity import record
from amity.comparison import Comparison
from amity.config.references import ALONE, ALONE_FOLDER, REFERENCES
from amity.config.run import Run
from amity.config.seeds import checked_seeds, seed_directory
from amity.contract import InputError, Method
from amity.data import Silos
from amity.jobs import Asked, Job, run_all
from amity.repeats import Repeats
from amity.resolve import alone_of, fair_references
from amity.result import Result


@overload
def run(
    run: Run,
    silos: Silos | None = None,
    *,
    out: str | Path | None = None,
    method: Method | None = None,
    seeds: None = None,
    alone: bool = False,
    **how: Unpack[Asked],
) -> Result: ...
@overload
def run(
    run: Run,
    silos: Silos | None = None,
    *,
    out: str | Path | None = None,
    method: Method | None = None,
    seeds: Iterable[int],
    alone: bool = False,
    **how: Unpack[Asked],
) -> Repeats: ...
def run(
    run: Run,
    silos: Silos | None = None,
    *,
    out: str | Path | None = None,
    method: Method | None = None,
    seeds: Iterable[int] | None = None,
    alone: bool = False,
    **how: Unpack[Asked],
) -> Result | Repeats:
    """Run a method on a federation; every silo's personal model comes back.

    `silos`: your own federation, else the one that `run.data` and `run.setting` name. `method`: your own. `seeds`: run
    it once with each of these in place of the run's own seed, in `seed-0`, `seed-1`, ... of `out`; what comes back has
    the mean and deviation over them, and each result. `alone`: let every silo train alone as well, with the same
    options (in `alone` of `out`), so that `worth` of the result says for whom joining was worth it. The command line
    does so by itself; a program that calls `run` a hundred times would pay for what it may have already. Both `run` and
    `compare` also take

        model      a function that builds your nn.Module, or a module whose weights everybody starts from
        out        a directory for the record, the models and the report; without one nothing is kept on disk
        resume     continue what is in `out` from its checkpoint
        force      replace the run that `out` holds
        data_dir   where data sets lie
        listen     hears every event while it goes on (amity.federation.events.Event)
        note       hears what there is to say about resuming: that a checkpoint was damaged, that there was no run yet

    >>> result = amity.run(amity.Run("fedavg", data="digits", clients=4, rounds=1, epochs=1))
    >>> list(result.scores)
    ['silo-00', 'silo-01', 'silo-02', 'silo-03']
    """
    _check(run)
    target = _path(out)
    alone = alone and run.method not in REFERENCES
    each: list[int | None] = [None] if seeds is None else list(checked_seeds(seeds))
    jobs = []
    for seed in each:
        one = run if seed is None else replace(run, seed=seed)
        jobs.append(Job(one, _place(target, seed)))
        if alone:
            folder = None if target is None else target / ALONE_FOLDER
            jobs.append(Job(alone_of(one, method), _place(folder, seed), alone=True))
    found = run_all(jobs, silos, method=method, **how)
    results = [replace(a, alone=b) for a, b in zip(found[::2], found[1::2], strict=True)] if alone else found
    if seeds is None:
        return results[0]
    repeats = Repeats({result.summary["seed"]: result for result in results})
    if target is not None:
        summaries = {repeats.summary["method"]: [result.summary for result in results]}
        record.write_results(target, summaries, worth=[repeats.worth] if alone else [])
    return repeats


def _place(folder: Path | None, seed: int | None) -> Path | None:
    """Return the directory of a run in a folder: that folder, or the one of its seed."""
    return folder if folder is None or seed is None else seed_directory(folder, seed)


def compare(
    runs: Sequence[Run],
    silos: Silos | None = None,
    *,
    seeds: Iterable[int] | None = None,
    out: str | Path | None = None,
    report: bool = True,
    alone: bool = False,
    **how: Unpack[Asked],
) -> Comparison:
    """Run several methods on the same federation, with one seed or several; what comes back tells them apart.

    It prints as the table that `amity compare` shows, with means, deviations and paired tests. With `out`, each run has
    a directory there, and `results.json` and (unless `report` is false) `report.html` lie beside them. `alone`: add
    `separate` with the options of the first run, where it is not among the methods. All else is as in `run`.

    >>> base = {"data": "digits", "clients": 4, "rounds": 1, "epochs": 1}
    >>> both = amity.compare([amity.Run("separate", **base), amity.Run("fedavg", **base)])
    >>> list(both.results)
    ['separate', 'fedavg']
    """
    if not runs:
        raise InputError("compare needs at least one run, got none: try [amity.Run('separate'), amity.Run('fedamp')]")
    for one in runs:
        _check(one)
    names = [one.method for one in runs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"compare needs different methods, got {twice} more than once: leave one out")
    runs = fair_references(runs)
    if alone and ALONE not in names and not set(names) <= set(REFERENCES):
        runs = [*runs, alone_of(runs[0])]
    target = _path(out)
    if target is not None and how.get("force"):
        record.refuse_stale_alone(target, [one.method for one in runs])
    each: list[int | None] = [None] if seeds is None else list(checked_seeds(seeds))
    jobs = []
    for seed in each:
        for one in runs:
            place = None if target is None else target / one.method
            jobs.append(Job(one if seed is None else replace(one, seed=seed), _place(place, seed)))
    comparison = Comparison(run_all(jobs, silos, **how))
    if target is not None:
        comparison.write(target, report=report)
    return comparison


def _path(out: str | Path | None) -> Path | None:
    return None if out is None else Path(out)


def _check(run: object) -> None:
    if not isinstance(run, Run):
        raise InputError(f"a run is described by amity.Run, got {run!r}: try amity.Run('fedavg', rounds=20)")
