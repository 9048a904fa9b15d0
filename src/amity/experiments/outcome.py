"""What is kept of a finished run: a small JSON file, and its collaboration weights beside it.

Tables and figures are made from these alone, so that models and checkpoints can be thrown away.
"""

from __future__ import annotations

import json
import math
import platform
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from amity import evaluate
from amity.config import Run
from amity.errors import InputError
from amity.experiments.spec import asked, key_of
from amity.record import Record, evaluated, replacing, score_of

Array = npt.NDArray[Any]

DIGITS = 4  # that are kept of a score
EXACT = DIGITS - 1  # digits of a difference of two, so that what rounding leaves of equal fractions is no difference
FEW = 20  # silos of which every round is kept; of more silos the best and the last round
MOST = 200  # rounds whose weights are kept
NEEDED = ("resolved", "notes", "silos", "seconds", "block_score", "best", "last", "validated", "warnings", "rounds")
"""What tables and figures take for granted in a file."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """A run's results. Accuracies (of quantities: R2) are in percent, None where there is nothing to measure."""

    path: Path  # of the JSON file
    content: Mapping[str, Any]

    @property
    def method(self) -> str:
        return str(self.content["asked"]["method"])

    @property
    def seed(self) -> int:
        return int(self.content["resolved"]["seed"])

    @property
    def score(self) -> str:
        """What its accuracies are: "accuracy", or "r2" where labels are quantities."""
        return str(self.content.get("score", "accuracy"))

    @property
    def silos(self) -> list[str]:
        return list(self.content["silos"])

    @property
    def groups(self) -> list[int] | None:
        groups: list[int] | None = self.content["groups"]
        return groups

    @property
    def rounds(self) -> Mapping[str, list[Any]]:
        """By name ("round", "mean", "worst", "pooled", "loss", "train_loss"), one value per round; None where nothing
        was measured."""
        rounds: Mapping[str, list[Any]] = self.content["rounds"]
        return rounds

    @property
    def clients(self) -> list[list[float | None]] | None:
        """Accuracies [round][silo], where there are few silos."""
        clients: list[list[float | None]] | None = self.content["clients"]
        return clients

    @property
    def bmta(self) -> float:
        """The best mean test accuracy over rounds."""
        return _number(self.content["best"]["mean"])

    @property
    def last(self) -> float:
        """The mean test accuracy of the last round."""
        return _number(self.content["last"]["mean"])

    @property
    def validated(self) -> float:
        """The mean test accuracy of the round that validation data chose; NaN without such data."""
        chosen = self.content["validated"]
        return math.nan if chosen is None else _number(chosen["mean"])

    @property
    def validation(self) -> float:
        """The best mean score on validation data; NaN without such data."""
        return _number(self.content["validation"])

    @property
    def accuracies(self) -> list[float]:
        """The silos' test accuracies at the best round."""
        return [_number(value) for value in self.content["best"]["accuracy"]]

    @property
    def block_score(self) -> float | None:
        score: float | None = self.content["block_score"]
        return score

    @property
    def seconds(self) -> float:
        return float(self.content["seconds"])

    @cached_property
    def weights(self) -> dict[int, Array]:
        """Collaboration weights [m, m] by round: of all rounds with few silos, else of the last."""
        file = self.path.with_suffix(".npz")
        if not file.exists():
            return {}
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {int(round): archive[round].astype(np.float32) for round in archive.files}
        except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
            again = f"remove it and {self.path.name} to run it again"
            raise InputError(f"{file} cannot be read ({error}): {again}") from error


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def path_of(folder: Path, key: str) -> Path:
    return folder / "runs" / f"{key}.json"


def read(folder: Path, run: Run) -> Outcome | None:
    """The recorded outcome of a run; None where there is none."""
    path = path_of(folder, key_of(run))
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): remove it to run it again") from error
    if not isinstance(content, dict) or content.get("asked") != json.loads(json.dumps(asked(run))):
        raise InputError(f"{path} holds another run than its name says: remove it to run that one again")
    if lacking := [name for name in NEEDED if name not in content]:
        raise InputError(f"{path} must have {', '.join(lacking)}, it does not: remove it to run it again")
    return Outcome(path, content)


def keep(folder: Path, run: Run, record: Record, peak: float | None) -> Outcome:
    """Write what is kept of a finished run. The JSON file comes last: where it is, all is there."""
    path = path_of(folder, key_of(run))
    content = _content(run, record, peak)
    text = ",\n".join(f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in content.items())
    with writing(path.parent):
        _keep_weights(path.with_suffix(".npz"), record)
        with replacing(path) as temporary:
            temporary.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    return Outcome(path, content)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Results are written into a folder, which is made; what stands in the way is one line."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        where = error.filename2 or error.filename or folder
        raise InputError(
            f"{where} cannot be written ({error.strerror or error}): make room, or choose --out"
        ) from error


def _keep_weights(path: Path, record: Record) -> None:
    rounds = sorted(record.weights)
    if not rounds:
        return
    every = max(1, math.ceil(len(rounds) / MOST))
    kept = sorted({*rounds[::every], rounds[-1]}) if len(record.silos) <= FEW else rounds[-1:]
    with replacing(path) as temporary, temporary.open("wb") as file:
        exact = np.float32 if len(record.silos) <= FEW else np.float16  # small files either way
        arrays = {str(round): record.weights[round].astype(exact) for round in kept}
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type, unused-ignore]


def _content(run: Run, record: Record, peak: float | None) -> dict[str, Any]:
    results, lines, score = record.results, record.lines, score_of(record.facts)
    measured = evaluated(lines)
    tested, trained = ([sum(silo[part]) for silo in (record.manifest or {})["silos"]] for part in ("test", "train"))
    best = next(line for line in lines if line["round"] == results["best_round"])
    chosen = next((line for line in lines if line["round"] == results.get("validated_round")), None)
    return {
        "asked": asked(run),
        "resolved": record.config,
        "machine": f"{platform.system()} {platform.machine()}",
        "version": record.facts["version"],
        "notes": record.facts.get("notes", []),
        "data_sha256": record.facts.get("sha256"),
        "silos": record.silos,
        "groups": record.facts.get("groups"),
        "score": score,
        "seconds": round(results["seconds"], 1),
        "peak_gib": None if peak is None else round(peak, 2),
        "bytes_up": results["bytes_up"],
        "bytes_down": results["bytes_down"],
        "block_score": results["block_score"],
        "best": _at(best, score),
        "last": _at(measured[-1], score),
        "validated": None if chosen is None else _at(chosen, score),
        "validation": None if chosen is None else _short(chosen["val"]),
        "metrics": results.get("metrics"),
        "warnings": sorted({warning for line in lines for warning in line["warnings"]}),
        "rounds": {
            "round": [line["round"] for line in lines],
            "mean": [_short(line["mean"]) for line in lines],
            "worst": [_short(line["worst"]) for line in lines],
            "pooled": [_short(_pooled(line[score], tested)) for line in lines],
            "loss": [_short(_pooled(line["loss"], tested)) for line in lines],
            "train_loss": [_short(_pooled(line.get("train_loss"), trained)) for line in lines],
            "took_part": [len(line["took_part"]) for line in lines],
        },
        "clients": [_list(line[score]) for line in lines] if len(record.silos) <= FEW else None,
    }


def _at(line: Mapping[str, Any], score: str) -> dict[str, Any]:
    accuracy = _list(line[score])
    values = [value for value in accuracy if value is not None]
    return {
        "round": line["round"],
        "mean": _short(line["mean"]),
        "worst": _short(line["worst"]),
        "spread": _short(evaluate.spread(values)),
        "accuracy": accuracy,
    }


def _pooled(values: Sequence[float | None] | None, counts: Sequence[int]) -> float | None:
    """The mean over all silos' examples together, each judged by its own silo's model."""
    pairs = [(value, count) for value, count in zip(values or [], counts, strict=bool(values)) if value is not None]
    total = sum(count for _, count in pairs)
    return math.fsum(value * count for value, count in pairs) / total if total else None


def _short(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(value, DIGITS)


def _list(values: Sequence[float | None] | None) -> list[float | None]:
    return [_short(value) for value in values or []]
