"""Runs as reports see them: read from disk, finished or under way."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from amity.contract import InputError
from amity.record.directory import (
    CONFIG,
    FACTS,
    LINES,
    MANIFEST,
    MODELS,
    PART,
    PREDICTIONS,
    SUMMARY,
    WEIGHTS,
    file_names,
    read_parts,
)
from amity.record.files import Array, load_arrays, load_json
from amity.record.summary import SUMMED, TOLD, latest, summarise


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
        if not (self.path / MANIFEST).exists():
            return None
        manifest = load_json(self.path / MANIFEST)
        silos = manifest.get("silos") if isinstance(manifest, dict) else None
        if not isinstance(silos, list) or not all(isinstance(silo, dict) and "name" in silo for silo in silos):
            raise _strange(self.path / MANIFEST)
        return dict(manifest)

    @cached_property
    def weights(self) -> dict[int, Array]:
        """Collaboration weights [m, m] by round; empty for a method without."""
        if (self.path / PART).exists():
            return read_parts(self.path / PART, len(self.silos))
        if not (self.path / WEIGHTS).exists():
            return {}
        arrays = load_arrays(self.path / WEIGHTS)
        return {int(key.removeprefix("round_")): arrays[key] for key in sorted(arrays)}

    @cached_property
    def predictions(self) -> dict[str, dict[str, Array]]:
        """By silo: "best" and "last", `Score.each` of its test examples. Empty while a run is under way."""
        names = file_names(self.silos)
        files = {silo: self.path / PREDICTIONS / f"{names[silo]}.npz" for silo in self.silos}
        return {silo: load_arrays(file) for silo, file in files.items() if file.exists()}

    @property
    def has_models(self) -> bool:
        return all(file.exists() for file in self._model_files.values())

    @property
    def models(self) -> dict[str, dict[str, Tensor]]:
        """Every silo's personal model, as a state dict."""
        try:
            return {silo: load_file(file) for silo, file in self._model_files.items()}
        except (OSError, SafetensorError) as error:
            raise InputError(f"the models in {self.path / MODELS} cannot be read: {error}") from error

    @property
    def _model_files(self) -> dict[str, Path]:
        names = file_names(self.silos)
        return {silo: self.path / MODELS / f"{names[silo]}.safetensors" for silo in self.silos}

    @cached_property
    def results(self) -> dict[str, Any]:
        """The summary, or one of the rounds so far; its seconds are then those of the rounds alone."""
        if self.summary is not None:
            return self.summary
        seconds = sum(value or 0.0 for line in self.lines for value in line["seconds"].values())
        return summarise(self.facts, self.lines, latest(self.weights), seconds)


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
    facts = load_json(path / FACTS)
    if not isinstance(facts, dict) or not {"silos", *TOLD} <= facts.keys():
        raise _strange(path / FACTS)
    silos = facts.pop("silos")
    summary = load_json(path / SUMMARY) if (path / SUMMARY).exists() else None
    if summary is not None and (not isinstance(summary, dict) or not {*TOLD, *SUMMED} <= summary.keys()):
        raise _strange(path / SUMMARY)
    return Record(path, config, facts, silos, lines, summary)


def _strange(path: Path) -> InputError:
    return InputError(f"{path} is not what `amity run` writes: the run cannot be read")


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
