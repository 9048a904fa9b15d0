"""The writer of a run: records it round by round, saves what is needed to continue, and writes the results."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, cast

from torch import Tensor

from amity import statistics
from amity.config.ending import all_rounds
from amity.contract import Model, Score, State, nbytes
from amity.federation.events import Event
from amity.federation.reports import Progress, Round
from amity.federation.resume import Saved
from amity.record.checkpoint import save_checkpoint, settle
from amity.record.checksums import FIRST, Check, checked_line
from amity.record.configuration import as_written
from amity.record.contents import Config, Facts, Line, ModelFacts, Summary
from amity.record.creating import create_directory
from amity.record.directory import (
    CLOUDS,
    EVENTS,
    LINES,
    MODELS,
    OLD,
    PART,
    SUMMARY,
    WEIGHTS,
    cloud_files,
    file_names,
    has_ended,
    model_facts_files,
    model_files,
    prediction_files,
    read_parts,
    sweep,
    weights_part,
)
from amity.record.events import EventLog
from amity.record.files import Array, append, load_json, replace, sync, to_json, written_to
from amity.record.lock import Lock, locked
from amity.record.outputs import save_model_facts, save_models, save_predictions, save_weights
from amity.record.privacy import epsilons, privacy_facts
from amity.record.reader import read
from amity.record.resuming import resumption, rewind
from amity.record.round_line import about_scores, line_of
from amity.record.seal import Seal
from amity.record.summary import delivered, latest, score_of, summarise

SMALL = 64_000_000  # bytes of state that take no noticeable time to write
SELDOM = 120.0  # seconds between checkpoints of a larger state


class Recorder:
    """Writes one run. Made by `create` or `resume`."""

    def __init__(self, path: Path, config: Config, silos: Sequence[str], facts: Facts) -> None:
        self.path = path
        self.config = config
        self.silos = list(silos)
        self.facts = facts
        self.lines: list[Line] = []
        self._files = file_names(silos)
        self.chosen: Progress | None = None
        """The round whose models are to be delivered so far, where validation data choose it; else it is the last."""
        self.clouds: dict[int, Model] | None = None
        """The cloud models that clients were sent in the round to be delivered, where these are kept."""
        self._right: dict[str, list[Tensor]] = {"delivered": [], "last": []}  # per silo: Score.each
        self._began = time.perf_counter()
        self._saved = self._began
        self._lock: Lock | None = None
        self._checks: list[Check] = []  # of the lines
        self._seal = Seal.begin(path, {}, config)
        self._events: EventLog | None = None  # None: the run is finished or closed, nothing is added to it
        self.notes: list[str] = []  # for whoever resumes the run

    @classmethod
    def create(
        cls,
        path: str | Path,
        config: Mapping[str, Any],
        silos: Sequence[str],
        facts: Mapping[str, Any],
        *,
        manifest: Mapping[str, Any] | None = None,
        force: bool = False,
    ) -> Recorder:
        """Begin a run in a directory that holds none; with `force`, in place of the run that is there."""
        path = Path(path)
        created = create_directory(path, config, silos, facts, manifest, force=force)
        recorder = cls(path, created.config, silos, created.facts)
        recorder._lock, recorder._seal = created.lock, created.seal
        recorder._events = EventLog(path / EVENTS)
        return recorder

    @classmethod
    def resume(cls, path: str | Path, config: Mapping[str, Any]) -> tuple[Recorder, Saved | None]:
        """Continue a run from its checkpoint; without one, from the beginning. Needs the same configuration.

        Rounds and events after the checkpoint are forgotten: they will come again. A finished run stays as it is, also
        if its checkpoint was removed.
        """
        with locked(Path(path)) as lock:
            record, written = read(path), as_written(config)
            start = resumption(record, written)
            recorder = cls(record.path, written, record.silos, record.facts)
            recorder._lock, recorder.notes = lock, start.notes
            with written_to(record.path):
                settle(record.path, drop_newest=start.drop_newest)
                sweep(record.path, recorder._files.values())
                recorder.lines = record.lines[: start.done]
                if record.sums is not None and (start.anew or not recorder.finished):
                    recorder._seal, recorder._checks = rewind(record, record.sums, written, start.done)
                    prefix = start.saved.events if start.saved else None
                    recorder._events, lost = EventLog.resume(record.path / EVENTS, prefix)
                    recorder.notes += [lost] if lost else []
            if start.saved is None:
                return recorder, None
            saved = start.saved.saved
            recorder._right, recorder.chosen, recorder.clouds = start.saved.right, saved.kept, start.saved.clouds
            recorder._began -= start.saved.seconds
            return recorder, saved

    @property
    def finished(self) -> bool:
        """Whether every round is done and `finish` has run, which ends by removing `weights.part`."""
        return has_ended(self.path) and len(self.lines) >= all_rounds(self.config)

    def listen(self, event: Event) -> None:
        """Record one event. Those that come after `finish`, `interrupted` or `close` are ignored."""
        if self._events is not None:
            self._events.listen(event)

    def add(self, round: Round, each: Sequence[Tensor] | None = None) -> Line:
        """Record one round; gives back its line of `rounds.jsonl`.

        `each`: of a round with evaluation, each silo's `Score.each`, which the silos that are hosted here show.
        """
        if round.round != len(self.lines) + 1:
            raise ValueError(f"rounds come in order: expected {len(self.lines) + 1}, got {round.round}")
        line = line_of(round, self.silos, score_of(self.facts))
        line["warnings"] += about_scores(round, self.silos, score_of(self.facts), self.lines)
        if "spent" in line:
            line["epsilon"] = epsilons([*self.lines, line])
        recent = [*self.lines[1 - statistics.SEVERAL :], line]
        trouble = statistics.attention_trouble([r["collaborators"] for r in recent], [len(r["epochs"]) for r in recent])
        if trouble is not None:
            line["warnings"].append(trouble)
        with written_to(self.path):
            self._flush_events()
            part = b""
            if round.weights is not None:
                part = weights_part(round.round, round.weights.detach().cpu().numpy())
                append(self.path / PART, part)
            text, check = checked_line(line, self._check, part)
            append(self.path / LINES, text)
        self._checks[len(self.lines) :] = [check]  # before the line, which a signal may keep from being added
        self.lines.append(line)
        if round.scores is None:
            return line
        self._right["last"] = list(each or ())
        if delivered(self.lines) is line:
            self._right["delivered"] = self._right["last"]
            self.clouds = None if round.clouds is None else dict(round.clouds)
            # A later round may be worse: what validation data choose is kept, with all that its models need.
            self.chosen = None if line["val"] is None else round.progress
        return line

    @property
    def chosen_now(self) -> bool:
        """Whether validation data have chosen the round that was recorded last: its models are to be kept."""
        return self.chosen is not None and self.chosen.round == len(self.lines)

    @property
    def _check(self) -> Check:
        """The check of the last line."""
        return self._checks[len(self.lines) - 1] if self.lines else FIRST

    def checkpoint_due(self, progress: Progress, states: Sequence[State] | None, every: int | Literal["auto"]) -> bool:
        """Return whether to write a checkpoint after this round. Always after the last; 0 means only then.

        "auto": every round while the states are small and at hand, else when two minutes have passed. `states`: those
        of the silos; None where they lie elsewhere.
        """
        if progress.round >= all_rounds(self.config):
            return True
        if every != "auto":
            return every > 0 and progress.round % every == 0
        small = states is not None and nbytes(progress.server) + sum(map(nbytes, states)) < SMALL
        return small or time.perf_counter() - self._saved >= SELDOM

    def checkpoint(self, saved: Saved) -> None:
        """Make this round the one to continue from. A crash leaves the old checkpoint or the new one."""
        progress = saved.progress
        if progress.round != len(self.lines):
            raise ValueError(f"a checkpoint of round {progress.round} needs that round recorded last")
        events = self._events.until(progress.round) if self._events else None
        with written_to(self.path):
            self._flush_events()
            for name in (LINES, PART, EVENTS):  # a checkpoint must not be ahead of what it refers to
                if (self.path / name).exists():
                    sync(self.path / name)
            save_checkpoint(self.path, saved, self._right, self.seconds, self._check, self.clouds, events)
        self._saved = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time of the run so far, with what a resumed run took before."""
        return time.perf_counter() - self._began

    def finish(
        self,
        models: Iterable[tuple[str, Mapping[str, Tensor]]],
        clouds: Iterable[tuple[str, Mapping[str, Tensor]]] = (),
        cloud_scores: Mapping[str, Score] | None = None,
        *,
        model_facts: Mapping[str, ModelFacts] | None = None,
        outcomes: Mapping[str, Mapping[str, Array]] | None = None,
    ) -> Summary:
        """Write the personal models (silo and state dict), the predictions, the weights and the summary.

        `clouds`: the cloud models of the silos that were sent one, and their scores. `model_facts`: what each personal
        model takes and gives. `outcomes`: what each says about its silo's test examples. A run that is finished already
        stays as it is.
        """
        if self.finished:
            self.close()
            return cast(Summary, load_json(self.path / SUMMARY))
        with written_to(self.path):
            self._seal.open()
            save_models(self.path / MODELS, models, self._files)
            save_model_facts(self.path / MODELS, model_facts or {}, self._files)
            for name in cloud_files(self._files.values()):  # of an earlier end, after which rounds were added
                (self.path / name).unlink(missing_ok=True)
            if cloud_scores:
                save_models(self.path / CLOUDS, clouds, self._files)
            summary = self._write_results(cloud_scores, outcomes)
            stems = self._files.values()
            self._close_seal([*model_files(stems), *model_facts_files(stems), *cloud_files(stems)])
            (self.path / PART).unlink(missing_ok=True)
            shutil.rmtree(self.path / OLD, ignore_errors=True)  # the run is done: one checkpoint will do
        self.close()
        return summary

    def interrupted(self) -> Summary | None:
        """Leave a readable directory, with a summary of the rounds done if there are any."""
        with written_to(self.path):
            summary = self._write_results() if self.lines and not self.finished else None
            if summary is not None:
                self._close_seal([])
        self.close()
        return summary

    def close(self) -> None:
        """Let others write to the directory: nothing more will come from here."""
        with suppress(OSError):  # the events of a round that came to no end are not worth an error
            self._flush_events()
        self._events = None
        if self._lock is not None:
            self._lock.release()

    def _flush_events(self) -> None:
        if self._events is not None:
            self._events.flush()

    def _close_seal(self, models: Iterable[str]) -> None:
        self._flush_events()
        self._events = None  # the seal is on the file: nothing may be added to it
        names = [*models, *prediction_files(self._files.values()), WEIGHTS, EVENTS, SUMMARY]
        self._seal.close(names, len(self.lines), self._check)

    def _write_results(
        self,
        cloud_scores: Mapping[str, Score] | None = None,
        outcomes: Mapping[str, Mapping[str, Array]] | None = None,
    ) -> Summary:
        """Write weights, predictions and the summary of the rounds so far."""
        parts = read_parts(self.path / PART, len(self.silos))
        weights = {round: matrix for round, matrix in parts.items() if round <= len(self.lines)}
        save_weights(self.path, weights)
        save_predictions(self.path, self._files, self._right["delivered"], self._right["last"], outcomes or {})
        clouds = None if not cloud_scores else [cloud_scores.get(silo) for silo in self.silos]
        summary = summarise(self.facts, self.lines, latest(weights), self.seconds, clouds)
        if "spent" in self.lines[-1]:
            summary["privacy"] = privacy_facts(self.lines, self.silos)
        replace(self.path / SUMMARY, to_json(summary, indent=1))
        sync(self.path)
        return summary
