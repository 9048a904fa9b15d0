"""Writes a run round by round; continues it after a stop."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import tomli_w
from safetensors.torch import save_file
from torch import Tensor

from amity import evaluate
from amity.config import Run
from amity.contract import InputError, Progress, Round, nbytes
from amity.options import fields_of
from amity.record.checkpoint import apart, load_checkpoint, save_checkpoint, settle
from amity.record.directory import (
    CHECKPOINT,
    CONFIG,
    FACTS,
    LINES,
    MANIFEST,
    MODELS,
    OLD,
    PART,
    PREDICTIONS,
    SUMMARY,
    WEIGHTS,
    check_free,
    file_names,
    holds_run,
    read_parts,
    remove_run,
    weights_part,
)
from amity.record.files import append, load_json, plain, replace, replacing, save_arrays, sync, to_json, written_to
from amity.record.lock import Lock
from amity.record.reader import Record, read
from amity.record.summary import TOLD, best_of, evaluated, latest, line_of, score_of, summarise, values_of

FREE = ("rounds", "evaluate_every", "checkpoint_every", "workers", "engine", "ray_address", "matrix_dir")
"""Top-level configuration keys that may change on resume; rounds may only grow."""

SMALL = 64_000_000  # bytes of state that take no noticeable time to write
SELDOM = 120.0  # seconds between checkpoints of a larger state


class Recorder:
    """Writes one run. Made by `create` or `resume`."""

    def __init__(self, path: Path, config: dict[str, Any], silos: Sequence[str], facts: dict[str, Any]) -> None:
        self.path = path
        self.config = config
        self.silos = list(silos)
        self.facts = facts
        self.lines: list[dict[str, Any]] = []
        self._files = file_names(silos)
        self._best: evaluate.Best | None = None
        self._right: dict[str, list[Tensor]] = {"best": [], "last": []}  # per silo: Score.each
        self._began = time.perf_counter()
        self._saved = self._began
        self._lock: Lock | None = None

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
        if missing := [key for key in TOLD if key not in facts]:
            raise ValueError(f"a run's facts need {', '.join(TOLD)}: {', '.join(missing)} not given")
        if twice := sorted({silo for silo in silos if list(silos).count(silo) > 1}):
            raise InputError(f"silos need different names, got {twice[0]!r} more than once: rename one")
        written = _written(config)
        known = {"silos": list(silos), **plain(facts)}
        config_text = tomli_w.dumps(written).encode()
        content = {FACTS: to_json(known, indent=1), LINES: b"", PART: b"", CONFIG: config_text}
        if manifest is not None:
            content = {MANIFEST: _manifest_text(manifest), **content}
        made: list[Path] = []
        check_free(path, force=force)
        try:
            made += [folder for folder in (path, *path.parents) if not folder.exists()]
            path.mkdir(parents=True, exist_ok=True)
            lock = Lock(path)
            check_free(path, force=force)  # somebody may have been faster
            if holds_run(path):
                remove_run(path)
            for name, text in content.items():
                made.insert(0, path / name)
                replace(path / name, text)
        except OSError as error:
            _undo(made)
            reason = error.strerror or error
            raise InputError(f"cannot write a run to {path} ({reason}): give another --out") from error
        recorder = cls(path, written, silos, {key: value for key, value in known.items() if key != "silos"})
        recorder._lock = lock
        return recorder

    @classmethod
    def resume(cls, path: str | Path, config: Mapping[str, Any]) -> tuple[Recorder, Progress | None]:
        """Continue a run from its checkpoint; without one, from the beginning. Needs the same configuration.

        Rounds after the checkpoint are forgotten: they will be run again. A finished run stays as it is, also if its
        checkpoint was removed.
        """
        lock = Lock(Path(path)) if Path(path).is_dir() else None
        record = read(path)
        written = _written(config)
        _need_same(record, written)
        settle(record.path)
        recorder = cls(record.path, written, record.silos, record.facts)
        recorder._lock = lock
        saved = load_checkpoint(record.path, len(record.silos))
        done = saved.progress.round if saved else _kept_without(record, written["rounds"])
        if done > len(record.lines):
            raise InputError(
                f"{record.path / LINES} ends at round {len(record.lines)}, its checkpoint at {done}: "
                "rounds were lost, start again with --force"
            )
        recorder._forget_after(done, record)
        if saved:
            recorder._right = saved.right
            recorder._began -= saved.seconds
        return recorder, saved.progress if saved else None

    def _forget_after(self, done: int, record: Record) -> None:
        self.lines = record.lines[:done]
        self._best = best_of(self.lines)
        if self.finished:
            return
        if done < self.config["rounds"]:
            (self.path / SUMMARY).unlink(missing_ok=True)
        weights = {round: matrix for round, matrix in record.weights.items() if round <= done}
        replace(self.path / PART, b"".join(weights_part(round, matrix) for round, matrix in weights.items()))
        replace(self.path / LINES, b"".join(to_json(line) for line in self.lines))
        replace(self.path / CONFIG, tomli_w.dumps(self.config).encode())

    @property
    def finished(self) -> bool:
        """Whether every round is done and `finish` has run, which ends by removing `weights.part`."""
        done = len(self.lines) >= self.config["rounds"]
        return done and (self.path / SUMMARY).exists() and not (self.path / PART).exists()

    def add(self, round: Round) -> dict[str, Any]:
        """Record one round; gives back its line of `rounds.jsonl`."""
        if round.round != len(self.lines) + 1:
            raise ValueError(f"rounds come in order: expected {len(self.lines) + 1}, got {round.round}")
        line = line_of(round, self.silos, score_of(self.facts))
        recent = [*self.lines[1 - evaluate.SEVERAL :], line]
        trouble = evaluate.attention_trouble([r["collaborators"] for r in recent], [len(r["epochs"]) for r in recent])
        if trouble is not None:
            line["warnings"].append(trouble)
        with written_to(self.path):
            if round.weights is not None:
                append(self.path / PART, weights_part(round.round, round.weights.detach().cpu().numpy()))
            append(self.path / LINES, to_json(line))
        self.lines.append(line)
        if round.scores is None:
            return line
        self._right["last"] = [score.each.detach().cpu() for score in round.scores]
        self._best = evaluate.better(self._best, round.round, values_of(line))
        if self._best.round == round.round:
            self._right["best"] = self._right["last"]
        return line

    def checkpoint_due(self, progress: Progress, every: int | Literal["auto"]) -> bool:
        """Whether to write a checkpoint after this round. Always after the last; 0 means only then.

        "auto": every round while the state is small and at hand, else when two minutes have passed.
        """
        if progress.round >= self.config["rounds"]:
            return True
        if every != "auto":
            return every > 0 and progress.round % every == 0
        here = isinstance(progress.clients, list)
        small = here and nbytes(progress.server) + sum(nbytes(client) for client in progress.clients) < SMALL
        return small or time.perf_counter() - self._saved >= SELDOM

    def checkpoint(self, progress: Progress) -> None:
        """Make this round the one to continue from. A crash leaves the old checkpoint or the new one."""
        if progress.round != len(self.lines):
            raise ValueError(f"a checkpoint of round {progress.round} needs that round recorded last")
        with written_to(self.path):
            for name in (LINES, PART):  # a checkpoint must not be ahead of what it refers to
                if (self.path / name).exists():
                    sync(self.path / name)
            save_checkpoint(self.path, progress, self._right, self.seconds)
        self._saved = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time of the run so far, with what a resumed run took before."""
        return time.perf_counter() - self._began

    def finish(self, models: Iterable[tuple[str, Mapping[str, Tensor]]]) -> dict[str, Any]:
        """Write the personal models (silo and state dict), the predictions, the weights and the summary.

        A run that is finished already stays as it is.
        """
        if self.finished:
            self.close()
            return dict(load_json(self.path / SUMMARY))
        folder = self.path / MODELS
        with written_to(self.path):
            folder.mkdir(exist_ok=True)
            for silo, state in models:
                with replacing(folder / f"{self._files[silo]}.safetensors") as temporary:
                    save_file(apart(state), temporary)
            summary = self._results()
            (self.path / PART).unlink(missing_ok=True)
        self.close()
        return summary

    def close(self) -> None:
        """Let others write to the directory: nothing more will come from here."""
        if self._lock is not None:
            self._lock.release()

    def interrupted(self) -> dict[str, Any] | None:
        """Leave a readable directory, with a summary of the rounds done if there are any."""
        with written_to(self.path):
            summary = self._results() if self.lines and not self.finished else None
        self.close()
        return summary

    def _results(self) -> dict[str, Any]:
        parts = read_parts(self.path / PART, len(self.silos))
        weights = {round: matrix for round, matrix in parts.items() if round <= len(self.lines)}
        if weights:
            save_arrays(self.path / WEIGHTS, {f"round_{r:04d}": matrix for r, matrix in weights.items()})
        folder = self.path / PREDICTIONS
        folder.mkdir(exist_ok=True)
        for silo, best, last in zip(self.silos, *self._right.values(), strict=bool(evaluated(self.lines))):
            save_arrays(folder / f"{self._files[silo]}.npz", {"best": best.numpy(), "last": last.numpy()})
        summary = summarise(self.facts, self.lines, latest(weights), self.seconds)
        replace(self.path / SUMMARY, to_json(summary, indent=1))
        sync(self.path)
        return summary


def begun(path: Path) -> bool:
    """Whether there is a run to continue. What a crash has left of one that was being created is none."""
    if not holds_run(path):
        return False
    written = path / LINES
    if any((path / mark).exists() for mark in (SUMMARY, CHECKPOINT, OLD)) or (
        written.exists() and written.stat().st_size > 0
    ):
        return True
    try:
        read(path)
    except InputError:
        return False
    return True


def check_resumable(path: Path, config: Mapping[str, Any], silos: Sequence[str], facts: Mapping[str, Any]) -> None:
    """Refuse to resume under another configuration or with other data, which would be neither run."""
    record, written = read(path), _written(config)
    _need_same(record, written)
    if not any((path / folder).exists() for folder in (CHECKPOINT, OLD)):
        _kept_without(record, written["rounds"])
    if record.silos != list(silos):
        raise InputError(
            f"{path} has the silos {', '.join(record.silos)}, got {', '.join(silos)}: resume with the same silos"
        )
    if record.facts.get("sha256") != facts.get("sha256"):
        raise InputError(f"{path} was run on other data than these silos hold: resume with the same data")


def _kept_without(record: Record, rounds: int) -> int:
    """The rounds that stay where there is no checkpoint: all of a finished run, else none, unless results were lost."""
    if record.summary is None:
        return 0
    if len(record.lines) >= rounds and not (record.path / PART).exists() and record.has_models:
        return len(record.lines)
    raise InputError(f"{record.path} has results, but no checkpoint to continue from: --force runs it anew")


def _need_same(record: Record, config: Mapping[str, Any]) -> None:
    """Refuse to resume under another configuration, which would be neither run.

    The first key that differs is told, in the order of a run's options: what others follow from comes first.
    """
    old, new = _flat(record.config), _flat(config)
    old = {**_later(new.keys() - old.keys(), new), **old}
    for key in dict.fromkeys([*new, *old]):
        if key not in FREE and old.get(key) != new.get(key):
            before, now = (repr(known[key]) if key in known else "not set" for known in (old, new))
            raise InputError(f"{record.path} has {key} = {before}, got {now}: resume with the same value")
    if new["rounds"] < old["rounds"]:
        raise InputError(
            f"{record.path} was started for {old['rounds']} rounds, got {new['rounds']}: rounds may only grow"
        )


def _later(keys: Iterable[str], new: Mapping[str, Any]) -> dict[str, Any]:
    """Options that an older version did not know: their defaults, or what these resolve to."""
    fields = fields_of(Run)
    known = {key: fields[key].default for key in keys if key in fields}
    return {key: new[key] if default == "auto" else default for key, default in known.items()}


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys with dots between them."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _written(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as TOML gives it back: without None, with lists for tuples and text for paths."""

    def clean(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): clean(item) for key, item in value.items() if item is not None}
        if isinstance(value, (list, tuple)):
            return [clean(item) for item in value]
        return str(value) if isinstance(value, Path) else value

    return tomllib.loads(tomli_w.dumps(clean(config)))


def _manifest_text(manifest: Mapping[str, Any]) -> bytes:
    """As JSON with a line for each silo: hundreds of silos with a hundred classes stay readable."""
    content = plain(manifest)
    lines = ",\n".join("  " + json.dumps(silo) for silo in content["silos"])
    others = json.dumps({key: value for key, value in content.items() if key != "silos"}, indent=1)
    return f'{others[:-2]},\n "silos": [\n{lines}\n ]\n}}\n'.encode()


def _undo(made: Iterable[Path]) -> None:
    """Remove what a refused `create` has made, as far as that is possible."""
    for path in made:
        try:
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        except OSError:
            return
