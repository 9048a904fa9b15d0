"""Outcomes written to disk, from the record of a finished run."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np

from amity import statistics
from amity.config.run import Run
from amity.errors import InputError
from amity.metric import METRICS, MetricKey
from amity.papers.outcome.content import (
    FEW_SILOS,
    SCORE_DIGITS,
    OutcomeContent,
    RecordedRound,
    RequestedOptions,
    ResolvedOptions,
    RoundValues,
)
from amity.papers.outcome.outcome import Outcome
from amity.papers.outcome.reader import path_of
from amity.papers.outcome.tested import packed
from amity.papers.spec import key_of, requested_options
from amity.record import Record, evaluated, replacing, score_of, scores_of
from amity.record.summary import best_of, validated_round

MOST_WEIGHTS = 200
"""Rounds whose collaboration weights are kept."""


def write(folder: Path, run: Run, record: Record, peak_gib: float | None) -> Outcome:
    """Write the outcome of a finished run and return it. The JSON file comes last: where it is, everything is."""
    path = path_of(folder, key_of(run))
    content = _content_of(run, record, peak_gib)
    text = ",\n".join(f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in content.items())
    with writable_folder(path.parent):
        _write_weights(path.with_suffix(".npz"), record)
        with replacing(path) as temporary:
            temporary.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    return Outcome(path, content)


@contextmanager
def writable_folder(folder: Path) -> Iterator[None]:
    """Make a folder for results, and turn any failure to write inside the block into one line that says what to do."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        where = error.filename2 or error.filename or folder
        raise InputError(
            f"{where} cannot be written ({error.strerror or error}): make room, or choose --out"
        ) from error


def _write_weights(path: Path, record: Record) -> None:
    """Write the weights of at most MOST_WEIGHTS rounds, or those of the last round where silos are many."""
    rounds = sorted(record.weights)
    if not rounds:
        return
    every = max(1, math.ceil(len(rounds) / MOST_WEIGHTS))
    kept = sorted({*rounds[::every], rounds[-1]}) if len(record.silos) <= FEW_SILOS else rounds[-1:]
    with replacing(path) as temporary, temporary.open("wb") as file:
        exact = np.float32 if len(record.silos) <= FEW_SILOS else np.float16  # small files either way
        arrays = {str(round): record.weights[round].astype(exact) for round in kept}
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type, unused-ignore]


def _content_of(run: Run, record: Record, peak_gib: float | None) -> OutcomeContent:
    results, lines, score = record.results, record.lines, score_of(record.facts)
    measured = evaluated(lines)
    best_round, delivered_round = results["best_on_test_round"], results["delivered_round"]
    assert best_round and delivered_round  # a run that has finished has both
    best = lines[best_round - 1]
    earlier = best_of(measured[:-1])
    judged = validated_round(lines)  # before the ending, where there is one: after it nothing is held out any more
    chosen = judged if results["chosen_by"] == "validation" else None
    return {
        "asked": cast(RequestedOptions, requested_options(run)),
        "resolved": cast(ResolvedOptions, record.config),
        "machine": f"{platform.system()} {platform.machine()}",
        "version": record.facts["version"],
        "notes": record.facts.get("notes", []),
        "data_sha256": record.facts.get("sha256"),
        "silos": record.silos,
        "groups": record.facts.get("groups"),
        "score": score,
        "seconds": round(results["seconds"], 1),
        "peak_gib": None if peak_gib is None else round(peak_gib, 2),
        "bytes_up": results["bytes_up"],
        "bytes_down": results["bytes_down"],
        "block_score": results["block_score"],
        "best": _recorded_round(best, score),
        "earlier": None if earlier is None else _recorded_round(lines[earlier.round - 1], score),
        "last": _recorded_round(measured[-1], score),
        "validated": None if chosen is None else _recorded_round(chosen, score),
        "validation": None if judged is None else _rounded(judged["val"]),
        "metrics": cast(Any, results.get("metrics")),
        "ending": results["chosen_by"] == "ending",
        "tested": packed(record, delivered_round),
        "warnings": sorted({warning for line in lines for warning in line["warnings"]}),
        "warned": {warning: line["round"] for line in reversed(lines) for warning in line["warnings"]},
        "rounds": _round_values(record, score),
        "clients": [_all_rounded(line[score]) for line in lines] if len(record.silos) <= FEW_SILOS else None,
    }


def _recorded_round(line: Mapping[str, Any], score: str) -> RecordedRound:
    accuracy = _all_rounded(line[score])
    values = [value for value in accuracy if value is not None]
    return {
        "round": line["round"],
        "mean": _rounded(line["mean"]),
        "worst": _rounded(line["worst"]),
        "spread": _rounded(statistics.spread(values)),
        "accuracy": accuracy,
    }


def _round_values(record: Record, score: str) -> RoundValues:
    lines = record.lines
    assert record.manifest is not None  # a run that was kept on disk has one
    by_example: MetricKey = "r2" if METRICS[score].labels == "quantities" else "accuracy"
    tested = [sum(silo["test"]) for silo in record.manifest["silos"]]
    trained = [sum(silo["train"]) for silo in record.manifest["silos"]]
    return {
        "round": [line["round"] for line in lines],
        "mean": [_rounded(line["mean"]) for line in lines],
        "worst": [_rounded(line["worst"]) for line in lines],
        "pooled": [_rounded(_pooled(scores_of(line, by_example), tested)) for line in lines],
        "loss": [_rounded(_pooled(line["loss"], tested)) for line in lines],
        "train_loss": [_rounded(_pooled(line.get("train_loss"), trained)) for line in lines],
        "took_part": [len(line["took_part"]) for line in lines],
    }


def _pooled(values: Sequence[float | None] | None, counts: Sequence[int]) -> float | None:
    """Return the mean over all silos' examples together, each judged by its own silo's model."""
    pairs = [(value, count) for value, count in zip(values or [], counts, strict=bool(values)) if value is not None]
    total = sum(count for _, count in pairs)
    return math.fsum(value * count for value, count in pairs) / total if total else None


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(value, SCORE_DIGITS)


def _all_rounded(values: Sequence[float | None] | None) -> list[float | None]:
    return [_rounded(value) for value in values or []]
