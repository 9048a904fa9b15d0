"""Running a simulation that was prepared: its course, and the record of it."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from amity import record
from amity.config.run import Run
from amity.contract import Model, Score
from amity.engines.local.stacked import carrier_of
from amity.engines.memory import Memory
from amity.engines.ray import engine as ray
from amity.errors import LostWorker, OutOfMemory
from amity.federation.carrier import Carrier
from amity.federation.course import Course
from amity.federation.events import Event, Listener, Stream
from amity.federation.reports import Progress, Round
from amity.federation.resume import Saved
from amity.free_memory import in_one_line
from amity.learn.task import Task
from amity.predicting.card import write_cards
from amity.predicting.facts import facts_of
from amity.predicting.outcomes import outcomes
from amity.prepare import Prepared, number
from amity.result import InMemory, Result

Note = Callable[[str], None]
"""Hears what there is to say about a run that is resumed."""


def shared_cluster(run: Run) -> AbstractContextManager[None]:
    """Start one Ray cluster for several runs, where they use one: each would otherwise start its own."""
    if run.engine != "ray":
        return nullcontext()
    return ray.cluster(run.ray_address, number(run.workers) or os.cpu_count() or 1)


def check_target(prepared: Prepared, path: Path) -> None:
    """Refuse to resume what this directory holds, if it is another run, before anything is computed or written."""
    if record.begun(path):
        record.check_resumable(path, prepared.run.table(), prepared.names, prepared.facts)
    else:  # what a crash has left before there was anything to continue may be replaced
        record.check_free(path, force=True)


def run_prepared(
    prepared: Prepared, *, out: Path | None, resume: bool, force: bool, listen: Listener, note: Note
) -> Result:
    """Run what was prepared and was seen to have a directory to go to, recording every round."""
    run, plan, silos = prepared
    with in_one_line(), _directory(out) as path:
        with closing(_Log(prepared, path, keep=out is not None, resume=resume, force=force)) as log:
            for text in log.notes:
                note(text)
            task, sent = plan.task, dict[int, Model]()
            if log.done:  # without a checkpoint, from which models could be made again
                before = record.read(path)
                named = {name: task.import_state(state) for name, state in before.models.items()}
                clouds = {name: task.import_state(state) for name, state in before.clouds.items()}
            else:
                named = dict(zip(prepared.names, _course(prepared, log, listen), strict=True))
                sent = log.recorder.clouds or {}
                clouds = {prepared.names[client]: model for client, model in sent.items()}
            scores = {prepared.names[client]: score for client, score in _cloud_scores(prepared, sent).items()}
            kept, mixed = (named, clouds) if log.keep else ({}, {})
            facts = _model_facts(prepared, log.recorder.lines)
            if not log.recorder.finished:
                ended = Event("ended", len(log.recorder.lines), time=time.time())
                log.listen(ended)  # now: nothing is added to a record that is finished
                listen(ended)
            log.recorder.finish(
                _exported(task, kept),
                _exported(task, mixed),
                scores,
                model_facts=facts if log.keep else None,
                outcomes=outcomes(task, silos.silos, named) if log.keep or not task.metric.usual else None,
            )
        there = record.read(path)
        if not log.keep:
            _ = there.weights, there.predictions  # read while they are there
        elif there.has_model_facts:
            write_cards(there)
        return Result(there, path if log.keep else None, InMemory(task, named, clouds, facts))


def _course(prepared: Prepared, log: _Log, listen: Listener) -> list[Model]:
    """Run and record the rounds that are left; what comes back are the models that are delivered.

    An interrupted run stays readable and can be resumed.
    """
    run, plan, silos = prepared
    events = Stream(log.listen, listen)
    course = Course(
        plan,
        _carrier(prepared, events),
        saved=log.begun,
        names=prepared.names,
        events=events,
        evaluate_every=run.evaluate_every,
        clouds="last" if all(silo.val is None for silo in silos.silos) else "evaluated",
    )

    def each(report: Round) -> None:
        if report.round > len(log.recorder.lines):  # else a worker was lost when it had just been recorded
            log.recorder.add(report, None if report.scores is None else course.door.predictions())
        log.stands_at(report.progress, course)  # now: whatever comes next may be interrupted
        if log.recorder.chosen_now:
            course.keep()
        due = log.due(report.progress, course)
        said = [event._replace(time=time.time()) for event in _said(log.recorder.lines[-1], saved=due)]
        for event in said:  # so that the checkpoint knows them: a run that is resumed from it has them all
            log.listen(event)
        if due:
            log.save(course)
        for event in said:  # who hears of a round can rely on it
            listen(event)

    with shared_cluster(run), course:
        try:
            course.run(each)
        except (KeyboardInterrupt, OutOfMemory, LostWorker):
            stopped = Event("stopped", time=time.time())
            log.interrupted(course, stopped)
            listen(stopped)
            raise
        return course.delivered(last=log.recorder.chosen is None)


def _carrier(prepared: Prepared, events: Listener) -> Callable[[], AbstractContextManager[Carrier]]:
    """How the carrier of a run is started."""
    run, plan, silos = prepared
    folder = None if run.matrix_dir == "none" else Path(run.matrix_dir)
    hosted = dict(enumerate(silos.silos))
    if run.engine == "ray":
        return ray.on_ray(plan, silos.silos, workers=number(run.workers), events=events, matrix_dir=folder)
    if run.engine == "memory":
        return lambda: Memory(plan, hosted)
    return functools.partial(carrier_of, run.engine, plan, hosted, number(run.workers), folder)


def _said(line: record.Line, *, saved: bool) -> list[Event]:
    """The events of a round that is over: its warnings, that it is on record, with its mean and worst score where it
    was evaluated, and that it is saved."""
    number = line["round"]
    notes = [Event("note", number, words=warning) for warning in line["warnings"]]
    recorded = Event("recorded", number, words=record.in_words(line))
    return [*notes, recorded, *([Event("saved", number)] if saved else [])]


def _cloud_scores(prepared: Prepared, sent: Mapping[int, Model]) -> dict[int, Score]:
    """Cloud models on the test data of their own silos."""
    task, silos = prepared.plan.task, prepared.silos.silos
    return {
        client: task.evaluate(model, task.prepare(silos[client].test), silos[client].scale.unit)
        for client, model in sent.items()
    }


def _model_facts(prepared: Prepared, lines: Sequence[record.Line]) -> dict[str, record.ModelFacts]:
    """What is kept with each personal model."""
    run, plan, silos = prepared
    chosen = record.delivered(lines)
    round = len(lines) if chosen is None else chosen["round"]
    return {
        silo.name: facts_of(silos, silo, plan.task, method=run.method, model=run.model, round=round)
        for silo in silos.silos
    }


def _exported(task: Task, models: Mapping[str, Model]) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Models as files have them, one at a time."""
    return ((name, task.export_state(model)) for name, model in models.items())


class _Log:
    """The record of a run. Its directory is made when the first silo begins to train: what is refused before leaves
    nothing behind."""

    def __init__(self, prepared: Prepared, path: Path, *, keep: bool, resume: bool, force: bool) -> None:
        self.keep = keep
        self.begun: Saved | None = None
        self.notes: list[str] = []
        self._every = prepared.run.checkpoint_every
        self._opened: record.Recorder | None = None
        self._create = functools.partial(
            record.Recorder.create,
            path,
            prepared.run.table(),
            prepared.names,
            prepared.facts,
            manifest=prepared.silos.manifest() if keep else None,
            force=force or resume,  # resumed: what is left of a run that never began
        )
        if resume and record.begun(path):
            self._opened, self.begun = record.Recorder.resume(path, prepared.run.table())
            self.notes = [*_other_version(path, self._opened.facts, prepared.facts), *self._opened.notes]
        elif resume:
            self.notes = [f"{path} holds no run yet: this one begins at round 1"]
        self._last: Progress | None = None  # of the last recorded round
        self._stands: Saved | None = None  # as the last recorded round has left it, where that costs nothing to know
        self._saved = self.begun.progress.round if self.begun else 0

    @property
    def recorder(self) -> record.Recorder:
        """The recorder, made when it is first needed."""
        if self._opened is None:
            self._opened = self._create()
        return self._opened

    @property
    def done(self) -> bool:
        """Whether the run was finished before and has no state to go on from."""
        return self.begun is None and self._opened is not None and self._opened.finished

    def listen(self, event: Event) -> None:
        """Record an event; the first round makes the directory."""
        if event.what == "round" or self._opened is not None:
            self.recorder.listen(event)

    def stands_at(self, progress: Progress, course: Course) -> None:
        """Remember where the federation stands, so that an interruption of the next round can save it."""
        self._last = progress
        self._stands = course.snapshot(progress, self.recorder.chosen) if course.door.at_hand else None

    def due(self, progress: Progress, course: Course) -> bool:
        """Whether a checkpoint is to be written now."""
        states = course.door.states() if course.door.at_hand else None
        return self.keep and self.recorder.checkpoint_due(progress, states, self._every)

    def save(self, course: Course) -> None:
        """Write a checkpoint of the last recorded round; a run whose workers can be lost goes back to it."""
        if self._last is None or not self._saved < self._last.round == len(self.recorder.lines):
            return
        saved = self._stands or course.snapshot(self._last, self.recorder.chosen)
        self.recorder.checkpoint(saved)
        self._saved = saved.progress.round
        if not course.door.at_hand:
            course.saved = saved

    def interrupted(self, course: Course, event: Event) -> None:
        """Leave a readable directory, with a checkpoint of the last round where that can still be had."""
        if self._opened is None:  # nothing has begun, and what --force was to replace stays
            return
        if self.keep and (self._stands is not None or course.consistent):
            with suppress(LostWorker):
                self.save(course)
        self.listen(event)  # now: a run that goes on from the checkpoint was not stopped
        self._opened.interrupted()

    def close(self) -> None:
        """Let others write to the directory."""
        if self._opened is not None:
            self._opened.close()


def _other_version(path: Path, began: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A note where the first two numbers of the version differ: the same method may then have other equations."""
    first, this = (str(facts["version"]) for facts in (began, now))
    if first.split(".")[:2] == this.split(".")[:2]:
        return []
    return [f"{path} was begun by Amity {first}, this is {this}: its rounds may be of two kinds"]


@contextmanager
def _directory(out: Path | None) -> Iterator[Path]:
    """The run directory, or a passing one where nothing is to be kept."""
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="amity-") as folder:
        yield Path(folder)
