"""Runs what a command has planned, shows how it goes on, and reports."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from amity import logs
from amity.cli import report
from amity.cli.progress import err, note, shown, shown_fetching
from amity.cli.watch import served
from amity.config.run import Run
from amity.federation.events import Listener, Stream
from amity.tracking.registry import check_trackers

if TYPE_CHECKING:
    from amity.jobs import Job, Watch
    from amity.prepare import Prepared

Plan = Sequence[tuple[Run, Path]]
"""Runs, and the directory of each."""

_log = logging.getLogger("amity.cli")


def run_all(
    plan: Plan,
    target: Path,
    *,
    resume: bool,
    force: bool,
    data_dir: str | None,
    watch: bool,
    log: Sequence[str] = (),
) -> None:
    """Run all that was planned, showing how it goes on, with `watch` on a live page too; then report.

    `log`: trackers that hear of every round.
    """
    trackers = check_trackers(log)
    with served([place for _, place in plan], wanted=watch):
        _run_all(plan, target, resume=resume, force=force, data_dir=data_dir, trackers=trackers)


def _run_all(
    plan: Plan, target: Path, *, resume: bool, force: bool, data_dir: str | None, trackers: Sequence[str]
) -> None:
    from amity import jobs

    logs.log_torch()
    each = [jobs.Job(run, place) for run, place in plan]
    page = target / "report.html"
    with ExitStack() as until_reported:  # trackers take the report too
        watch = _tracked(plan, trackers, page, until_reported) if trackers else watched
        notes: dict[str, None] = {}  # each once
        shows = jobs.Shows(watch=watch, fetching=shown_fetching, prepared=partial(_told, notes), stopped=_stopped)
        results = jobs.run_each(each, resume=resume, force=force, data_dir=data_dir, note=note, shows=shows)
        records = [result.record for result in results]  # and not the models of all
        view = report.report(records, page, notes=list(notes))
    if len(records) > 1:
        report.write_results(records, target, view["worth"])


def _tracked(plan: Plan, trackers: Sequence[str], page: Path, until: ExitStack) -> Watch:
    """Return a watch that shows a run and logs it to trackers, which stay open until the stack is closed."""
    from amity.tracking.follow import track

    places = {(run.method, run.seed): place for run, place in plan}

    @contextmanager
    def watch(prepared: Prepared) -> Iterator[Listener]:
        place = places[prepared.run.method, prepared.run.seed]
        logged = until.enter_context(track(place, *trackers, report=page, note=note))
        with watched(prepared) as shown_too:
            yield Stream(shown_too, logged)

    return watch


def _told(notes: dict[str, None], prepared: Sequence[Prepared]) -> None:
    """Log what there is to know before the first of these begins, and keep it to be said after the results.

    A rate that cannot be meant is said at once.
    """
    silos = prepared[0].silos
    _log.info("data %s, %d silos, sha256 %s", silos.data, len(silos.silos), silos.sha256)
    for ready in prepared:
        _log.info("%s: resolved configuration %s", ready.run.method, json.dumps(ready.run.table(), default=str))
    columns = [silos.columns] if silos.columns else []
    found = dict.fromkeys([*columns, *(text for ready in prepared for text in ready.notes)])
    for text in found:
        _log.info("note: %s", text)
    alarms = dict.fromkeys(text for ready in prepared for text in ready.alarms)
    for text in alarms:  # these are worth stopping for
        note(text)
    later = {text: None for text in found if text not in alarms}
    new = len(later.keys() - notes.keys())
    notes.update(later)
    if new:
        told = "1 note on data and methods comes" if new == 1 else f"{new} notes on data and methods come"
        err.print(f"{told} after the results", style="dim", highlight=False, soft_wrap=True)


@contextmanager
def watched(prepared: Prepared) -> Iterator[Listener]:
    """Show and log the events of a run."""
    _log.info("%s: running", prepared.run.method)
    with shown(prepared.run) as listener:
        yield Stream(listener, logs.log_event)
    _log.info("%s: finished", prepared.run.method)


def _stopped(job: Job) -> None:
    """Say that a run was interrupted, and how to go on with it."""
    from amity import record

    there = job.out is not None and record.holds_run(job.out)
    what = f"{job.out} is readable" if there else "nothing was written yet"
    err.print(escape(f"interrupted: {what}, and this continues it: {_again()}"), highlight=False, soft_wrap=True)


def _again() -> str:
    """Return the command that was given, so that it goes on with what is there."""
    words = [word for word in sys.argv[1:] if word not in ("--force", "--resume")]
    return shlex.join(["amity", *words, "--resume"])
