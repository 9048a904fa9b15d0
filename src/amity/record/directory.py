"""What lies where in a run directory, and which directories a run may be written to."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amity.contract import InputError
from amity.record.files import Array, load_json

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


def _strays(path: Path) -> Path | None:
    """A file of somebody else's in a checkpoint directory, where it would be lost."""
    folders = [path / name for name in (CHECKPOINT, NEW, OLD) if (path / name).is_dir()]
    return next((file for folder in folders for file in folder.iterdir() if file.name not in PARTS), None)


def remove_run(path: Path) -> None:
    """Remove a run's own files and nothing else; `config.toml` last, so that what is left counts as a run."""
    try:
        silos = file_names(load_json(path / FACTS)["silos"]).values()
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


def _part_type(clients: int) -> np.dtype[Any]:
    return np.dtype([("round", "<i8"), ("weights", "<f4", (clients, clients))])


def weights_part(round: int, matrix: Array) -> bytes:
    return np.array([(round, matrix)], dtype=_part_type(len(matrix))).tobytes()


def read_parts(path: Path, clients: int) -> dict[int, Array]:
    """Weights by round, as far as they were written: a piece that a crash cut off is left out."""
    if not path.exists():
        return {}
    entries = np.fromfile(path, dtype=_part_type(clients))
    return {int(entry["round"]): entry["weights"] for entry in entries}
