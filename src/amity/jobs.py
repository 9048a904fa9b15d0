"""Runs, one after the other: from a list of jobs to their results.

The walk is straight. Every target directory is checked, then for each seed the data are read once, every run is
prepared, and what is wrong with any of them is said before the first begins. Then they run, and what each has recorded
is read once, for results and report alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

from amity import record
from amity.config.run import Run
from amity.contract import InputError, Method
from amity.data import Silos
from amity.data.sets.fetch import Notify as Fetching
from amity.federation.events import Listener, silent
from amity.prepare import Prepared, prepare, silos_of
from amity.resolve import Builds
from amity.result import Result
from amity.running import Note, check_target, run_prepared, shared_cluster

Watch = Callable[[Prepared], AbstractContextManager[Listener]]
"""Opens something that listens to the events of one run: a progress bar, say."""


class Job(NamedTuple):
    """A run, and the directory that it is written to; None keeps nothing on disk."""

    run: Run
    out: Path | None
    alone: bool = False  # whether it is the run in which every silo trains alone, beside that of a method


class Asked(TypedDict, total=False):
    """What `run`, `compare` and `run_all` take: see `run`."""

    model: Builds | None
    resume: bool
    force: bool
    data_dir: str | Path | None
    listen: Listener
    note: Note


def run_all(
    jobs: Sequence[Job], silos: Silos | None = None, *, method: Method | None = None, **how: Unpack[Asked]
) -> list[Result]:
    """Run these one after the other, and give back what came of them."""
    return list(run_each(jobs, silos, method=method, **how))


class Shows(NamedTuple):
    """For programs that show what they do: who hears what, while several runs go on."""

    watch: Watch | None = None  # listens to the events of one run
    fetching: Callable[[], AbstractContextManager[Fetching | None]] = nullcontext  # hears of data that are fetched
    prepared: Callable[[Sequence[Prepared]], None] = lambda runs: (
        None
    )  # gets the runs of a seed before the first begins
    stopped: Callable[[Job], None] = lambda job: None  # gets the run that was interrupted


def run_each(
    jobs: Sequence[Job],
    silos: Silos | None = None,
    *,
    model: Builds | None = None,
    method: Method | None = None,
    resume: bool = False,
    force: bool = False,
    data_dir: str | Path | None = None,
    listen: Listener = silent,
    note: Note = warnings.warn,
    shows: Shows | None = None,
) -> Iterator[Result]:
    """Run these one after the other, those of one seed after those of another; results come in the order of the jobs.

    Whatever is wrong with any run of a seed is said before its first one begins.
    """
    shows = shows or Shows()
    places = {job.out for job in jobs if job.out is not None}
    if resume and force:
        raise InputError("--resume continues a run, --force replaces it: give one of them")
    if not resume:
        for job in jobs:
            if job.out is not None:
                record.check_free(job.out, force=force)
    with shared_cluster(jobs[0].run):
        for _, same in groupby(jobs, lambda job: job.run.seed):
            of_seed = list(same)
            with shows.fetching() as notify:
                own = silos_of(of_seed[0].run, data_dir, notify) if silos is None else silos
            ready = [prepare(job.run, own, model=model, method=None if job.alone else method) for job in of_seed]
            for job, prepared in zip(of_seed, ready, strict=True):
                if resume and job.out is not None:
                    check_target(prepared, job.out)
            shows.prepared(ready)
            for job, prepared in zip(of_seed, ready, strict=True):
                if force and job.out is not None and (gone := record.remove_stale_alone(job.out, places)):
                    note(f"the older run in {gone} was removed: it does not belong to the run that replaces the other")
                try:
                    with nullcontext(listen) if shows.watch is None else shows.watch(prepared) as listener:
                        result = run_prepared(
                            prepared, out=job.out, resume=resume, force=force, listen=listener, note=note
                        )
                except KeyboardInterrupt:
                    shows.stopped(job)
                    raise
                yield result
