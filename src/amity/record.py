"""A run on disk: written round by round, continued after a stop, read by reports.

    config.toml                  what the run was asked to do
    facts.json                   silo names, their groups, the method and model that were resolved
    manifest.json                who holds how much of what, and a hash of the data
    rounds.jsonl                 one line per round
    weights.npz                  collaboration weights, "round_0001" ... [m, m], where the method has them
    models/<silo>.safetensors    personal models
    predictions/<silo>.npz       right or wrong per test example, or a quantity's error, at the best and the last round
    checkpoint/                  all that is needed to continue
    summary.json                 the results; written last

Files are replaced, never rewritten in place: a reader sees the old one or the new one. While a run is under
way its weights are appended to `weights.part`, because an archive cannot be appended to safely.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import time
import tomllib
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import tomli_w
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from amity import evaluate
from amity.contract import InputError, Progress, Round, Score, State, nbytes

Array = npt.NDArray[Any]

CONFIG, FACTS, LINES, SUMMARY = "config.toml", "facts.json", "rounds.jsonl", "summary.json"
MANIFEST = "manifest.json"
WEIGHTS, PART = "weights.npz", "weights.part"
MODELS, PREDICTIONS = "models", "predictions"
REPORT = "report.html"  # made from the record; a new run must not show the old one's
CHECKPOINT, NEW, OLD = "checkpoint", "checkpoint.new", "checkpoint.old"
SERVER, CLIENTS, SCORES, PROGRESS = PARTS = (
    "server.safetensors",
    "clients.safetensors",
    "scores.safetensors",
    "progress.json",
)

TOLD = ("method", "data", "setting", "model", "clients", "seed", "engine", "version")
"""Facts that the summary repeats; `create` needs them all. "groups" is used where it is given."""

FREE = ("rounds", "evaluate_every", "workers", "engine", "ray_address", "matrix_dir")
"""Top-level configuration keys that may change on resume; rounds may only grow."""

SMALL = 64_000_000  # bytes of state that take no noticeable time to write
SELDOM = 120.0  # seconds between checkpoints of a larger state


def _plain(value: Any) -> Any:
    """The same value in JSON's types. JSON has no NaN: what is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _json(value: Any, indent: int | None = None) -> bytes:
    return (json.dumps(_plain(value), allow_nan=False, indent=indent) + "\n").encode()


def _written(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as TOML gives it back: without None, with lists for tuples and text for paths."""

    def clean(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): clean(item) for key, item in value.items() if item is not None}
        if isinstance(value, (list, tuple)):
            return [clean(item) for item in value]
        return str(value) if isinstance(value, Path) else value

    return tomllib.loads(tomli_w.dumps(clean(config)))


def _sync(path: Path) -> None:
    """Wait until a file or directory has reached the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a directory
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary sibling to write to; it takes the place of `path` if all goes well."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _replace(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def _save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type, unused-ignore]


def _load_arrays(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _load_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}


def _escaped(name: str) -> str:
    """A silo's name as a file name: letters and digits of any script stay, the rest becomes %XX."""

    def byte(character: str) -> str:
        return "".join(f"%{value:02X}" for value in character.encode("utf-8", "surrogatepass"))

    stem = "".join(c if c.isalnum() or c in "-_. " else byte(c) for c in name)
    if stem[:1] in (".", " ") or stem.split(".")[0].casefold() in _DEVICES:  # hidden, or a device on Windows
        stem = byte(stem[0]) + stem[1:]
    if stem[-1:] in (".", " "):  # Windows drops them
        stem = stem[:-1] + byte(stem[-1])
    if len(stem.encode()) > 200:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        stem = stem.encode()[:150].decode(errors="ignore") + "~" + digest
    return stem or "%"


def file_names(silos: Sequence[str]) -> dict[str, str]:
    """Every silo's file name without its ending: safe as a path, unique also where case does not count."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for silo in silos:
        stem = unique = _escaped(silo)
        number = 1
        while (key := unicodedata.normalize("NFKC", unique).casefold()) in taken:
            number += 1
            unique = f"{stem}~{number}"
        taken.add(key)
        names[silo] = unique
    return names


def holds_run(path: Path) -> bool:
    """Whether a directory holds a run, or what is left of one."""
    marks = (CONFIG, FACTS, MANIFEST, LINES, SUMMARY, WEIGHTS, PART, CHECKPOINT, OLD)
    return any((path / mark).exists() for mark in marks)


def check_free(path: Path, *, force: bool) -> None:
    """Refuse a directory that a new run must not be written to."""
    if path.exists() and not path.is_dir():
        raise InputError(f"a run needs a directory, got the file {path}: give another --out")
    if holds_run(path) and not force:
        raise InputError(f"{path} already holds a run: --resume continues it, --force replaces it")
    if stray := _strays(path):
        raise InputError(f"{stray} is not part of a run: move it, or give another --out")


def check_resumable(path: Path, config: Mapping[str, Any], silos: Sequence[str], facts: Mapping[str, Any]) -> None:
    """Refuse to resume under another configuration or with other data, which would be neither run."""
    record = read(path)
    _need_same(record, _written(config))
    if record.silos != list(silos):
        raise InputError(
            f"{path} has the silos {', '.join(record.silos)}, got {', '.join(silos)}: resume with the same silos"
        )
    if record.facts.get("sha256") != facts.get("sha256"):
        raise InputError(f"{path} was run on other data than these silos hold: resume with the same data")


def _strays(path: Path) -> Path | None:
    """A file of somebody else's in a checkpoint directory, where it would be lost."""
    folders = [path / name for name in (CHECKPOINT, NEW, OLD) if (path / name).is_dir()]
    return next((file for folder in folders for file in folder.iterdir() if file.name not in PARTS), None)


def _remove_run(path: Path) -> None:
    """Remove a run's own files and nothing else; `config.toml` last, so that what is left counts as a run."""
    try:
        silos = file_names(_load_json(path / FACTS)["silos"]).values()
    except (InputError, KeyError, TypeError):
        silos = {}.values()  # whose models and predictions these are is not known: they stay
    doomed = [path / SUMMARY, path / MANIFEST, path / WEIGHTS, path / PART, path / LINES, path / REPORT]
    doomed += [path / MODELS / f"{silo}.safetensors" for silo in silos]
    doomed += [path / PREDICTIONS / f"{silo}.npz" for silo in silos]
    doomed += [path / folder / part for folder in (CHECKPOINT, NEW, OLD) for part in PARTS]
    for file in (*doomed, path / FACTS, path / CONFIG):
        file.unlink(missing_ok=True)
        file.with_name(f".{file.name}.tmp").unlink(missing_ok=True)
    for folder in (MODELS, PREDICTIONS, CHECKPOINT, NEW, OLD):
        if (path / folder).is_dir() and not any((path / folder).iterdir()):
            (path / folder).rmdir()


def _apart(tensors: Mapping[str, Tensor]) -> State:
    """The tensors as a safetensors file wants them: on the CPU, contiguous, none overlapping another.

    Only those that overlap are copied: rows of one large matrix are written from where they lie.
    """
    packed = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    end = 0
    for key in sorted(packed, key=lambda key: packed[key].data_ptr()):
        value = packed[key]
        if value.data_ptr() < end:
            packed[key] = value.clone()
        else:
            end = value.data_ptr() + value.numel() * value.element_size()
    return packed


def _save_checkpoint(path: Path, files: Mapping[str, Mapping[str, Tensor]], progress: Mapping[str, Any]) -> None:
    """Write beside the old checkpoint, then swap. `_settle` undoes a swap that was cut short."""
    _settle(path)
    new = path / NEW
    new.mkdir()
    for name, tensors in files.items():
        save_file(_apart(tensors), new / name)
    (new / PROGRESS).write_bytes(_json(progress))
    for file in (*new.iterdir(), new):
        _sync(file)
    if (path / CHECKPOINT).exists():
        (path / CHECKPOINT).rename(path / OLD)
    new.rename(path / CHECKPOINT)
    _sync(path)
    shutil.rmtree(path / OLD, ignore_errors=True)


def _settle(path: Path) -> None:
    """After a crash: the checkpoint in place counts, else the one that was about to be replaced."""
    if not (path / CHECKPOINT).exists() and (path / OLD).exists():
        (path / OLD).rename(path / CHECKPOINT)
    for leftover in (path / OLD, path / NEW):
        if leftover.exists():
            shutil.rmtree(leftover)


def _numbered(tensors: Sequence[Mapping[str, Tensor]]) -> State:
    return {f"{index}/{key}": value for index, state in enumerate(tensors) for key, value in state.items()}


def _unnumbered(tensors: Mapping[str, Tensor], count: int) -> list[State]:
    states: list[State] = [{} for _ in range(count)]
    for key, value in tensors.items():
        index, name = key.split("/", 1)
        states[int(index)][name] = value
    return states


def _load_tensors(path: Path) -> State:
    # Clones: a memory-mapped tensor may be aligned otherwise, and sums of it then differ in the last bit.
    return {key: value.clone() for key, value in load_file(path).items()}


class _Saved(NamedTuple):
    """A checkpoint, read back."""

    progress: Progress
    right: dict[str, list[Tensor]]
    seconds: float


def _load_checkpoint(path: Path, clients: int) -> _Saved | None:
    folder = path / CHECKPOINT
    if not folder.exists():
        return None
    try:
        facts = _load_json(folder / PROGRESS)
        states = _unnumbered(_load_tensors(folder / CLIENTS), clients)
        progress = Progress(facts["round"], _load_tensors(folder / SERVER), states)
        scores = _unnumbered(_load_tensors(folder / SCORES), clients)
        right = {which: [score[which] for score in scores if score] for which in ("best", "last")}
        return _Saved(progress, right, facts["seconds"])
    except (OSError, SafetensorError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{folder} cannot be read ({error}): delete it to start from round 1") from error


def _line(round: Round, silos: Sequence[str], main: str) -> dict[str, Any]:
    number = math.nan
    if round.weights is not None:
        numbers = evaluate.collaborators(round.weights.detach().cpu().numpy())
        number = evaluate.mean(numbers.tolist())
    line = {
        "round": round.round,
        **_scored(round.scores, main),
        "bytes_up": round.bytes_up,
        "bytes_down": round.bytes_down,
        "bytes_eval": round.bytes_eval,
        "seconds": round.seconds,
        "executed": round.executed,
        "took_part": [silos[client] for client in round.took_part],
        "dropped": {silos[client]: why for client, why in round.dropped.items()},
        "epochs": {silos[client]: epochs for client, epochs in round.epochs.items()},
        "collaborators": number,
        "warnings": round.warnings,
    }
    if round.holds is not None:
        line["holds"] = dict(zip(silos, round.holds, strict=True))
    return {key: _plain(value) for key, value in line.items()}


def _scored(scores: Sequence[Score] | None, main: str) -> dict[str, Any]:
    """What a line says about the silos' models; null all over in a round without evaluation."""
    if scores is None:
        return dict.fromkeys(("mean", "worst", "val", "metrics", main, "loss", "train_loss", "per_silo"))
    counts = [len(score.each) for score in scores]
    values = [score.main for score in scores]
    per_silo = {name: [score.metrics[name] for score in scores] for name in scores[0].metrics if name != main}
    return {
        "mean": evaluate.mean(values),
        "worst": evaluate.worst(values),
        "val": evaluate.mean([math.nan if score.val is None else score.val for score in scores]),
        "metrics": {name: evaluate.mean(values) for name, values in per_silo.items()},
        main: values,
        "loss": [s.loss / n if n else math.nan for s, n in zip(scores, counts, strict=True)],
        "train_loss": None if scores[0].train_loss is None else [score.train_loss for score in scores],
        "per_silo": {name: [float(f"{value:.6g}") for value in values] for name, values in per_silo.items()},
    }


def evaluated(lines: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rounds that were evaluated; with `evaluate_every` not all are."""
    return [line for line in lines if _per_client(line) is not None]


def _per_client(line: Mapping[str, Any]) -> list[float | None] | None:
    """Every silo's main score in a round: accuracy, or R2 where labels are quantities."""
    found: list[float | None] | None = line["r2"] if "r2" in line else line["accuracy"]
    return found


def _values(line: Mapping[str, Any]) -> list[float]:
    return [math.nan if value is None else value for value in _per_client(line) or ()]


def _best(lines: Iterable[Mapping[str, Any]]) -> evaluate.Best | None:
    best = None
    for line in evaluated(lines):
        best = evaluate.better(best, line["round"], _values(line))
    return best


def score_of(facts: Mapping[str, Any]) -> str:
    """The name of the main score: "accuracy", or "r2" where labels are quantities."""
    return str(facts.get("score", "accuracy"))


def _validated(lines: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The round that silos would choose by their validation data: the first with the best mean score on them."""
    known = [line for line in lines if line.get("val") is not None]
    return max(known, key=lambda line: line["val"], default=None)


def _summarise(
    facts: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], weights: Array | None, seconds: float
) -> dict[str, Any]:
    """The results of the rounds so far. The order of the keys is part of the format."""
    best, measured, validated = _best(lines), evaluated(lines), _validated(lines)
    told = {key: facts[key] for key in TOLD}
    main = score_of(facts)
    summary = {
        **{key: told[key] for key in ("method", "data", "setting", "model", "clients")},
        "rounds": len(lines),
        "seed": told["seed"],
        "score": main,
        "best": best.mean if best else None,
        "bmta": best.mean if best and main == "accuracy" else None,
        "best_round": best.round if best else None,
        "last": measured[-1]["mean"] if measured else None,
        "worst": evaluate.worst(best.accuracies) if best else None,
        "per_client": best.accuracies if best else [],
        "validated": validated["mean"] if validated else None,
        "validated_round": validated["round"] if validated else None,
        "validated_per_client": validated[main] if validated else None,
        "metrics": {
            "best": lines[best.round - 1].get("metrics") if best else None,
            "validated": validated["metrics"] if validated else None,
            "last": measured[-1].get("metrics") if measured else None,
            "last_per_client": measured[-1].get("per_silo") if measured else None,
        },
        "seconds": seconds,
        **{key: sum(line[key] for line in lines) for key in ("bytes_up", "bytes_down", "bytes_eval")},
        "block_score": None if weights is None else evaluate.block_score(weights, facts.get("groups")),
        "engine": told["engine"],
        "version": told["version"],
    }
    return {key: _plain(value) for key, value in summary.items()}


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
        known = {"silos": list(silos), **_plain(facts)}
        config_text = tomli_w.dumps(written).encode()
        content = {FACTS: _json(known, indent=1), LINES: b"", PART: b"", CONFIG: config_text}
        if manifest is not None:
            content = {MANIFEST: _manifest_text(manifest), **content}
        made: list[Path] = []
        check_free(path, force=force)
        try:
            made += [folder for folder in (path, *path.parents) if not folder.exists()]
            path.mkdir(parents=True, exist_ok=True)
            if holds_run(path):
                _remove_run(path)
            for name, text in content.items():
                made.insert(0, path / name)
                _replace(path / name, text)
        except OSError as error:
            _undo(made)
            reason = error.strerror or error
            raise InputError(f"cannot write a run to {path} ({reason}): give another --out") from error
        return cls(path, written, silos, {key: value for key, value in known.items() if key != "silos"})

    @classmethod
    def resume(cls, path: str | Path, config: Mapping[str, Any]) -> tuple[Recorder, Progress | None]:
        """Continue a run from its checkpoint; without one, from the beginning. Needs the same configuration.

        Rounds after the checkpoint are forgotten: they will be run again.
        """
        record = read(path)
        written = _written(config)
        _need_same(record, written)
        _settle(record.path)
        recorder = cls(record.path, written, record.silos, record.facts)
        saved = _load_checkpoint(record.path, len(record.silos))
        done = saved.progress.round if saved else 0
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
        self._best = _best(self.lines)
        if self.finished:
            return
        if done < self.config["rounds"]:
            (self.path / SUMMARY).unlink(missing_ok=True)
        weights = {round: matrix for round, matrix in record.weights.items() if round <= done}
        _replace(self.path / PART, b"".join(_part(round, matrix) for round, matrix in weights.items()))
        _replace(self.path / LINES, b"".join(_json(line) for line in self.lines))
        _replace(self.path / CONFIG, tomli_w.dumps(self.config).encode())

    @property
    def finished(self) -> bool:
        """Whether every round is done and `finish` has run, which ends by removing `weights.part`."""
        done = len(self.lines) >= self.config["rounds"]
        return done and (self.path / SUMMARY).exists() and not (self.path / PART).exists()

    def add(self, round: Round) -> dict[str, Any]:
        """Record one round; gives back its line of `rounds.jsonl`."""
        if round.round != len(self.lines) + 1:
            raise ValueError(f"rounds come in order: expected {len(self.lines) + 1}, got {round.round}")
        line = _line(round, self.silos, score_of(self.facts))
        recent = [*self.lines[1 - evaluate.SEVERAL :], line]
        trouble = evaluate.attention_trouble([r["collaborators"] for r in recent], [len(r["epochs"]) for r in recent])
        if trouble is not None:
            line["warnings"].append(trouble)
        if round.weights is not None:
            _append(self.path / PART, _part(round.round, round.weights.detach().cpu().numpy()))
        _append(self.path / LINES, _json(line))
        self.lines.append(line)
        if round.scores is None:
            return line
        self._right["last"] = [score.each.detach().cpu() for score in round.scores]
        self._best = evaluate.better(self._best, round.round, _values(line))
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
        for name in (LINES, PART):  # a checkpoint must not be ahead of what it refers to
            if (self.path / name).exists():
                _sync(self.path / name)
        right = [{"best": best, "last": last} for best, last in zip(*self._right.values(), strict=True)]
        files = {
            SERVER: progress.server,
            CLIENTS: _numbered(progress.clients),
            SCORES: _numbered(right),
        }
        best_round = self._best.round if self._best else None
        facts = {"round": progress.round, "seconds": self.seconds, "best_round": best_round}
        _save_checkpoint(self.path, files, facts)
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
            return dict(_load_json(self.path / SUMMARY))
        folder = self.path / MODELS
        folder.mkdir(exist_ok=True)
        for silo, state in models:
            with replacing(folder / f"{self._files[silo]}.safetensors") as temporary:
                save_file(_apart(state), temporary)
        summary = self._results()
        (self.path / PART).unlink(missing_ok=True)
        return summary

    def interrupted(self) -> dict[str, Any] | None:
        """Leave a readable directory, with a summary of the rounds done if there are any."""
        return self._results() if self.lines and not self.finished else None

    def _results(self) -> dict[str, Any]:
        parts = _read_part(self.path / PART, len(self.silos))
        weights = {round: matrix for round, matrix in parts.items() if round <= len(self.lines)}
        if weights:
            _save_arrays(self.path / WEIGHTS, {f"round_{r:04d}": matrix for r, matrix in weights.items()})
        folder = self.path / PREDICTIONS
        folder.mkdir(exist_ok=True)
        for silo, best, last in zip(self.silos, *self._right.values(), strict=bool(evaluated(self.lines))):
            _save_arrays(folder / f"{self._files[silo]}.npz", {"best": best.numpy(), "last": last.numpy()})
        summary = _summarise(self.facts, self.lines, _latest(weights), self.seconds)
        _replace(self.path / SUMMARY, _json(summary, indent=1))
        _sync(self.path)
        return summary


def _manifest_text(manifest: Mapping[str, Any]) -> bytes:
    """As JSON with a line for each silo: hundreds of silos with a hundred classes stay readable."""
    plain = _plain(manifest)
    lines = ",\n".join("  " + json.dumps(silo) for silo in plain["silos"])
    others = json.dumps({key: value for key, value in plain.items() if key != "silos"}, indent=1)
    return f'{others[:-2]},\n "silos": [\n{lines}\n ]\n}}\n'.encode()


def _undo(made: Iterable[Path]) -> None:
    """Remove what a refused `create` has made, as far as that is possible."""
    for path in made:
        try:
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        except OSError:
            return


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys with dots between them."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _need_same(record: Record, config: Mapping[str, Any]) -> None:
    """Refuse to resume under another configuration, which would be neither run."""
    old, new = _flat(record.config), _flat(config)
    for key in sorted((old.keys() | new.keys()) - set(FREE)):
        if old.get(key) != new.get(key):
            before, now = (repr(known[key]) if key in known else "not set" for known in (old, new))
            raise InputError(f"{record.path} has {key} = {before}, got {now}: resume with the same value")
    if new["rounds"] < old["rounds"]:
        raise InputError(
            f"{record.path} was started for {old['rounds']} rounds, got {new['rounds']}: rounds may only grow"
        )


def _part_type(clients: int) -> np.dtype[Any]:
    return np.dtype([("round", "<i8"), ("weights", "<f4", (clients, clients))])


def _part(round: int, matrix: Array) -> bytes:
    return np.array([(round, matrix)], dtype=_part_type(len(matrix))).tobytes()


def _read_part(path: Path, clients: int) -> dict[int, Array]:
    """Weights by round, as far as they were written: a piece that a crash cut off is left out."""
    if not path.exists():
        return {}
    entries = np.fromfile(path, dtype=_part_type(clients))
    return {int(entry["round"]): entry["weights"] for entry in entries}


def _latest(weights: Mapping[int, Array]) -> Array | None:
    return weights[max(weights)] if weights else None


@dataclass(frozen=True, eq=False)
class Record:
    """A run as read from disk, finished or under way."""

    path: Path
    config: dict[str, Any]
    facts: dict[str, Any]
    silos: list[str]
    lines: list[dict[str, Any]]
    summary: dict[str, Any] | None

    @cached_property
    def manifest(self) -> dict[str, Any] | None:
        """Who holds what, as `Silos.manifest` gives it; runs of earlier versions have none."""
        return _load_json(self.path / MANIFEST) if (self.path / MANIFEST).exists() else None

    @cached_property
    def weights(self) -> dict[int, Array]:
        """Collaboration weights [m, m] by round; empty for a method without."""
        if (self.path / PART).exists():
            return _read_part(self.path / PART, len(self.silos))
        if not (self.path / WEIGHTS).exists():
            return {}
        arrays = _load_arrays(self.path / WEIGHTS)
        return {int(key.removeprefix("round_")): arrays[key] for key in sorted(arrays)}

    @cached_property
    def predictions(self) -> dict[str, dict[str, Array]]:
        """By silo: "best" and "last", `Score.each` of its test examples. Empty while a run is under way."""
        names = file_names(self.silos)
        files = {silo: self.path / PREDICTIONS / f"{names[silo]}.npz" for silo in self.silos}
        return {silo: _load_arrays(file) for silo, file in files.items() if file.exists()}

    @cached_property
    def results(self) -> dict[str, Any]:
        """The summary, or one of the rounds so far; its seconds are then those of the rounds alone."""
        if self.summary is not None:
            return self.summary
        seconds = sum(value or 0.0 for line in self.lines for value in line["seconds"].values())
        return _summarise(self.facts, self.lines, _latest(self.weights), seconds)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """The rounds on disk. A last line that a crash cut off is left out."""
    if not path.exists():
        return []
    texts = path.read_text(encoding="utf-8", errors="replace").splitlines()
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(texts, start=1):
        try:
            line = json.loads(text)
        except ValueError as error:
            if number == len(texts):
                break
            raise InputError(f"{path} line {number} is not valid JSON: {error}") from error
        if not isinstance(line, dict) or line.get("round") != number:
            raise InputError(f"{path} line {number} is not round {number}: the run cannot be read")
        lines.append(line)
    return lines


def read(path: str | Path) -> Record:
    """Read a run directory."""
    path = Path(path)
    if not (path / CONFIG).is_file() or not (path / FACTS).is_file():
        raise InputError(f"{path} holds no run: give a directory that `amity run` has written")
    try:
        config = tomllib.loads((path / CONFIG).read_text(encoding="utf-8"))
        lines = _read_lines(path / LINES)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"the run in {path} cannot be read: {error}") from error
    facts = _load_json(path / FACTS)
    if not isinstance(facts, dict) or not {"silos", *TOLD} <= facts.keys():
        raise InputError(f"{path / FACTS} is not what `amity run` writes: the run cannot be read")
    silos = facts.pop("silos")
    summary = _load_json(path / SUMMARY) if (path / SUMMARY).exists() else None
    return Record(path, config, facts, silos, lines, summary)
