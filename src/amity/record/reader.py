"""The reader of run directories: runs as reports see them, finished or under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from amity.errors import DamagedFile, InputError
from amity.federation.events import Event
from amity.record.checksums import Check, Sums, config_sum, damaged, read_sums, sum_of, weights_sum
from amity.record.contents import Config, Facts, Line, Manifest, ModelFacts, Summary
from amity.record.directory import (
    CHECKPOINT,
    CONFIG,
    EVENTS,
    FACTS,
    LINES,
    MANIFEST,
    MODELS,
    OLD,
    PART,
    PREDICTIONS,
    SUMMARY,
    WEIGHTS,
    cloud_files,
    file_names,
    model_files,
    read_parts,
    weights_part,
)
from amity.record.events import read_events
from amity.record.files import Array, load_arrays, load_bytes, load_toml, parse_json
from amity.record.lines import read_lines
from amity.record.shapes import are_facts, are_model_facts, is_manifest, is_summary
from amity.record.summary import LATER_KEYS, latest, summarise


@dataclass(frozen=True, eq=False)
class Record:
    """A run as read from disk, finished or under way. What is damaged is refused when it is read."""

    path: Path
    config: Config
    facts: Facts
    silos: list[str]
    lines: list[Line]
    summary: Summary | None
    checks: Sequence[Check | None]  # one per line; None in lines of earlier versions
    sums: Sums | None  # None: of an earlier version, which wrote no checksums

    @cached_property
    def manifest(self) -> Manifest | None:
        """The examples of each silo, as `Silos.manifest` counts them; runs of earlier versions have none."""
        if self._there(MANIFEST) is None:
            return None
        manifest = _load(self.path / MANIFEST, self.sums)
        if not is_manifest(manifest):
            raise _strange(self.path / MANIFEST)
        return manifest

    @cached_property
    def events(self) -> list[Event]:
        """The events in their order. Runs of earlier versions have none; one under way, those on disk so far.

        The results of a run have a checksum for them. Until there are any, a last line that was cut off is left out.
        """
        if self.sums is not None and self.sums.lists(EVENTS):
            return read_events(self.sums.whole(EVENTS), whole=True)
        file = self.path / EVENTS
        return read_events(file, whole=False) if file.exists() else []

    @cached_property
    def weights(self) -> dict[int, Array]:
        """Collaboration weights [m, m] by round; empty for a method without."""
        if (self.path / PART).exists():
            file = self.path / PART
            found = read_parts(file, len(self.silos))
        else:
            file = self.path / WEIGHTS
            found = _rounds_of(file, len(self.silos)) if file.exists() else {}
        return self._checked(found, file)

    def _checked(self, found: Mapping[int, Array], file: Path) -> dict[int, Array]:
        """The weights of the rounds on disk, as these rounds' lines know them."""
        kept = {}
        for round, check in enumerate(self.checks, start=1):
            if check is not None and check.weights is not None:
                if round not in found or weights_sum(weights_part(round, found[round])) != check.weights:
                    raise damaged(Path(f"{file} round {round}"))
            if round in found and (check is None or check.weights is not None):
                kept[round] = found[round]
        return kept

    @cached_property
    def predictions(self) -> dict[str, dict[str, Array]]:
        """By silo: "delivered" and "last", `Score.each` of its test examples. Empty while a run is under way."""
        names = file_names(self.silos)
        files = {silo: self._there(f"{PREDICTIONS}/{names[silo]}.npz") for silo in self.silos}
        return {silo: load_arrays(file) for silo, file in files.items() if file is not None}

    @property
    def has_models(self) -> bool:
        """Whether every silo's personal model is there, and part of the results."""
        names = self._model_files.values()
        listed = self.sums is None or all(self.sums.lists(name) for name in names)
        return listed and all((self.path / name).exists() for name in names)

    @property
    def has_model_facts(self) -> bool:
        """Whether it is known what every personal model takes and gives; earlier versions did not write it down."""
        names = [name.removesuffix(".safetensors") + ".json" for name in self._model_files.values()]
        return self.sums is not None and all(self.sums.lists(name) for name in names)

    @property
    def models_elsewhere(self) -> bool:
        """Whether the silos of the run are organisations of their own, which keep their personal models."""
        return self.facts.get("engine") == "flare"

    @property
    def models(self) -> dict[str, dict[str, Tensor]]:
        """Every silo's personal model, as a state dict."""
        return {silo: self.model(silo) for silo in self.silos}

    def model(self, silo: str) -> dict[str, Tensor]:
        """A silo's personal model, as a state dict."""
        self._check_has_model(silo)
        file = self._there(self._model_files[silo])
        assert file is not None
        return _tensors(file)

    def model_facts(self, silo: str) -> ModelFacts:
        """What a silo's personal model takes and gives. Runs of earlier versions do not know."""
        self._check_has_model(silo)
        file = self._there(self._model_files[silo].removesuffix(".safetensors") + ".json")
        if file is None:
            raise InputError(
                f"{self.path / MODELS} does not say what the model of {silo} takes, as a run of this version does: "
                "run it again with --force"
            )
        facts = parse_json(file, load_bytes(file))
        if not are_model_facts(facts):
            raise _strange(file)
        return facts

    def _check_has_model(self, silo: str) -> None:
        """Refuse to look for the model of a silo that keeps it elsewhere, or has none yet."""
        if self.models_elsewhere:
            raise InputError(
                f"{self.path} has no models, each silo has its own: look into its state folder, or use it there with "
                "`amity federation predict`"
            )
        name = self._model_files[silo]
        if not (self.sums.lists(name) if self.sums is not None else (self.path / name).exists()):
            raise InputError(f"{self.path / MODELS} has no model of {silo}: finish the run with --resume")

    @property
    def clouds(self) -> dict[str, dict[str, Tensor]]:
        """The cloud models that silos were sent in the delivered round, as state dicts; empty without."""
        names = file_names(self.silos)
        files = {silo: self._there(name) for silo, name in zip(names, cloud_files(names.values()), strict=True)}
        return {silo: _tensors(file) for silo, file in files.items() if file is not None}

    @cached_property
    def _model_files(self) -> dict[str, str]:
        names = file_names(self.silos)
        return dict(zip(names, model_files(names.values()), strict=True))

    def _there(self, name: str) -> Path | None:
        """The path of a file that the run has, seen to be whole as far as that can be known."""
        if self.sums is None:
            return self.path / name if (self.path / name).exists() else None
        return self.sums.whole(name) if self.sums.lists(name) else None

    @cached_property
    def results(self) -> Summary:
        """The summary, or one of the rounds so far; its seconds are then those of the rounds alone.

        Summaries of earlier versions spoke of the best round on test data: their rounds are summed up anew.
        """
        if self.summary is not None and self.summary.keys() >= LATER_KEYS:
            return self.summary
        seconds = sum(value or 0.0 for line in self.lines for value in line["seconds"].values())
        if self.summary is not None:
            seconds = self.summary["seconds"]
        return summarise(self.facts, self.lines, latest(self.weights), seconds)


def read(path: str | Path) -> Record:
    """Read a run directory. What is damaged is refused: here, or when it is asked for."""
    path = Path(path)
    sums = read_sums(path)
    if not (path / CONFIG).is_file() or not (path / FACTS).is_file():
        if sums is None:
            raise InputError(f"{path} holds no run: give a directory that `amity run` has written")
        missing = CONFIG if not (path / CONFIG).is_file() else FACTS
        raise DamagedFile(f"{path / missing} is missing: the run cannot be read without it")
    config = _config(path, sums)
    known = _load(path / FACTS, sums)
    if not are_facts(known):
        raise _strange(path / FACTS)
    silos = known["silos"]
    facts = cast(Facts, {key: value for key, value in known.items() if key != "silos"})
    written = sums if sums is None or sums.rounds is not None else _checkpointed(path)
    lines, checks = read_lines(path / LINES, len(silos), written, must=sums is not None)
    done = len(lines) if sums is None or sums.rounds is None else sums.rounds  # a signal may come between two files
    summary = _summary(path, sums, len(silos))
    return Record(path, config, facts, silos, lines[:done], summary, checks[:done], sums)


def _summary(path: Path, sums: Sums | None, silos: int) -> Summary | None:
    if not (sums.lists(SUMMARY) if sums is not None else (path / SUMMARY).exists()):
        return None
    summary = _load(path / SUMMARY, sums)
    if not is_summary(summary, silos):
        raise _strange(path / SUMMARY)
    return summary


def own_config(path: Path) -> Config:
    """Return the configuration of the run in a directory; an empty one where there is no run."""
    return _config(path, read_sums(path)) if (path / CONFIG).is_file() else {}


def _config(path: Path, sums: Sums | None) -> Config:
    config = load_toml(path / CONFIG)
    if sums is not None and config_sum(config) not in sums.configs:
        raise DamagedFile(
            f"{path / CONFIG} is not as the run wrote it: undo what was changed. --resume takes changes as options, "
            "such as --rounds 30; --config runs an edited copy as another run"
        )
    if not isinstance(config.get("rounds", 0), int) or not isinstance(config.get("set", {}), dict):
        raise _strange(path / CONFIG)
    return config


def _checkpointed(path: Path) -> Sums | None:
    """Return what the newest checkpoint knows of the rounds on disk; a damaged one says nothing to a reader."""
    for folder in (path / CHECKPOINT, path / OLD):
        try:
            sums = read_sums(folder)
        except InputError:
            continue
        if sums is not None:
            return sums
    return None


def _load(path: Path, sums: Sums | None) -> object:
    content = load_bytes(path)
    if sums is not None and sum_of(content) != sums.files.get(path.name):
        raise damaged(path)
    return parse_json(path, content)


def _tensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise DamagedFile(f"the model {file} cannot be read: {error}") from error


def _rounds_of(path: Path, silos: int) -> dict[int, Array]:
    arrays = load_arrays(path)
    try:
        found = {int(key.removeprefix("round_")): arrays[key].astype("<f4", casting="safe") for key in sorted(arrays)}
    except (ValueError, TypeError):
        raise _strange(path) from None
    if any(matrix.shape != (silos, silos) for matrix in found.values()):
        raise _strange(path)
    return found


def _strange(path: Path) -> DamagedFile:
    return DamagedFile(f"{path} is not what `amity run` writes: the run cannot be read")
