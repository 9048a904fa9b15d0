"""The layout of a run directory, and the directories that a run may be written to."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amity.errors import InputError
from amity.record.checksums import SUMS
from amity.record.files import Array, load_bytes, load_json
from amity.record.sharing import modes

CONFIG, FACTS, LINES, SUMMARY = "config.toml", "facts.json", "rounds.jsonl", "summary.json"
MANIFEST, EVENTS = "manifest.json", "events.jsonl"
WEIGHTS, PART = "weights.npz", "weights.part"
MODELS, CLOUDS, PREDICTIONS = "models", "clouds", "predictions"
REPORT = "report.html"  # made from the record; a new run must not show the old one's
CHECKPOINT, NEW, OLD = "checkpoint", "checkpoint.new", "checkpoint.old"
SERVER, CLIENTS, SCORES, CHOSEN_SERVER, CHOSEN_CLIENTS, SENT, PROGRESS = STATE = (
    "server.safetensors",
    "clients.safetensors",
    "scores.safetensors",
    "chosen-server.safetensors",  # the round that validation data have chosen so far, where it is an earlier one
    "chosen-clients.safetensors",
    "clouds.safetensors",  # the cloud models that clients were sent in the round that is delivered so far
    "progress.json",
)
PARTS = (*STATE, SUMS)

_HALF = re.compile(r"\.tmp[A-Za-z0-9]{6}")  # what safetensors writes to before the name is the file's own

_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}


def _escaped(name: str) -> str:
    """Return a silo's name as a file name: letters and digits of any script stay, the rest becomes %XX."""

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
    """Return every silo's file name without its ending: safe as a path, unique also where case does not count."""
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
    """Return whether a directory holds a run, or what is left of one."""
    marks = (CONFIG, FACTS, MANIFEST, LINES, EVENTS, SUMMARY, WEIGHTS, PART, SUMS, CHECKPOINT, OLD)
    return any((path / mark).exists() for mark in marks)


def has_ended(path: Path) -> bool:
    """Return whether the results of a run were written to its end, which is when `weights.part` goes."""
    return (path / SUMMARY).exists() and not (path / PART).exists()


def check_free(path: Path, *, force: bool) -> None:
    """Refuse a directory that a new run must not be written to."""
    modes()  # a word in the environment that means nothing is refused before round 1, too
    if not _may_be_directory(path):
        raise InputError(f"a run needs a directory, got the file {path}: give another --out")
    if holds_run(path) and not force:
        raise InputError(f"{path} already holds a run: --resume continues it, --force replaces it")
    if stray := _strays(path):
        raise InputError(f"{stray} is not part of a run: move it, or give another --out")


def _may_be_directory(path: Path) -> bool:
    """Return whether it is a directory, or nothing yet."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True  # a file above it shows when the directory is made
    except (OSError, ValueError) as error:  # a name that is too long, or one that no file system has
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"a run needs a directory, got {str(path)[:60]!r} ({reason}): give another --out") from None


def _strays(path: Path) -> Path | None:
    """Return a file of somebody else's in a checkpoint directory, where it would be lost; None where there is none.

    A checkpoint that is still being written holds nothing but its own files.
    """
    folders = [path / name for name in (CHECKPOINT, OLD) if (path / name).is_dir()]
    return next((file for folder in folders for file in folder.iterdir() if file.name not in PARTS), None)


def remove_run(path: Path) -> None:
    """Remove a run's own files and nothing else; `config.toml` last, so that what is left counts as a run."""
    try:
        silos = file_names(load_json(path / FACTS)["silos"]).values()
    except (InputError, KeyError, TypeError, AttributeError):
        silos = {}.values()  # whose models and predictions these are is not known: they stay
    sweep(path, silos)
    shutil.rmtree(path / NEW, ignore_errors=True)
    files = own_files(silos)
    doomed = [path / name for name in files if name != CONFIG]
    doomed += [path / folder / part for folder in (CHECKPOINT, OLD) for part in PARTS]
    for file in (*doomed, path / REPORT, path / CONFIG):
        file.unlink(missing_ok=True)
    for folder in (MODELS, CLOUDS, PREDICTIONS, CHECKPOINT, OLD):
        if (path / folder).is_dir() and not any((path / folder).iterdir()):
            (path / folder).rmdir()


def own_files(silos: Iterable[str]) -> list[str]:
    """Return every file that a run has at some time beside its checkpoints, for silos by their file names."""
    names = [SUMMARY, MANIFEST, WEIGHTS, PART, EVENTS, LINES, SUMS, FACTS, CONFIG]
    stems = list(silos)
    beside = [*model_facts_files(stems), *card_files(stems)]
    return [*names, *model_files(stems), *beside, *cloud_files(stems), *prediction_files(stems)]


def model_files(silos: Iterable[str]) -> list[str]:
    """Return where the personal models are, for silos by their file names."""
    return [f"{MODELS}/{stem}.safetensors" for stem in silos]


def model_facts_files(silos: Iterable[str]) -> list[str]:
    """Return where it stands what each personal model takes and gives, for silos by their file names."""
    return [f"{MODELS}/{stem}.json" for stem in silos]


def card_files(silos: Iterable[str]) -> list[str]:
    """Return where the cards of the personal models are, for silos by their file names."""
    return [f"{MODELS}/{stem}.md" for stem in silos]


def cloud_files(silos: Iterable[str]) -> list[str]:
    """Return where the cloud models are, for silos by their file names."""
    return [f"{CLOUDS}/{stem}.safetensors" for stem in silos]


def prediction_files(silos: Iterable[str]) -> list[str]:
    """Return where the predictions are, for silos by their file names."""
    return [f"{PREDICTIONS}/{stem}.npz" for stem in silos]


def sweep(path: Path, silos: Iterable[str]) -> None:
    """Remove the temporary files of a process that was killed before it could put them in place."""
    for name in (*own_files(silos), REPORT):
        file = path / name
        file.with_name(f".{file.name}.tmp").unlink(missing_ok=True)
    for folder in (path / MODELS, path / CLOUDS):
        for file in folder.iterdir() if folder.is_dir() else ():
            if _HALF.fullmatch(file.name):
                file.unlink()


def _part_type(clients: int) -> np.dtype[Any]:
    return np.dtype([("round", "<i8"), ("weights", "<f4", (clients, clients))])


def weights_part(round: int, matrix: Array) -> bytes:
    """Return a round's entry in `weights.part`."""
    return np.array([(round, matrix)], dtype=_part_type(len(matrix))).tobytes()


def read_parts(path: Path, clients: int) -> dict[int, Array]:
    """Return weights by round, as far as they were written: a piece that a crash cut off is left out."""
    return parts_of(load_bytes(path), clients) if path.exists() else {}


def parts_of(content: bytes, clients: int) -> dict[int, Array]:
    """Return the weights by round in a piece of `weights.part` that begins with an entry."""
    kind = _part_type(clients)
    entries = np.frombuffer(content[: len(content) // kind.itemsize * kind.itemsize], dtype=kind).copy()
    return {int(entry["round"]): entry["weights"] for entry in entries}
