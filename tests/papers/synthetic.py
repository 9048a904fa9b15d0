"""Experiments that nobody ran: outcomes as files hold them, from numbers drawn at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from amity.papers.outcome import FEW_SILOS, Outcome, OutcomeContent, RecordedRound
from amity.papers.results import Results
from amity.papers.spec import Experiment

ROUNDS = 30


def content(best: RecordedRound, **changes: Any) -> OutcomeContent:
    """Return all that the file of an outcome holds, with these changes: the best round is the last one too."""
    mean = [best["mean"]]
    made = {
        "asked": {"method": "fedavg"},
        "resolved": {"seed": 0, "rounds": best["round"], "epochs": 5},
        "notes": [],
        "silos": [str(silo) for silo in range(len(best["accuracy"]))],
        "groups": None,
        "seconds": 1.0,
        "peak_gib": None,
        "bytes_up": 0,
        "bytes_down": 0,
        "block_score": None,
        "best": best,
        "last": best,
        "validated": None,
        "validation": None,
        "metrics": None,
        "warnings": [],
        "rounds": {"round": [best["round"]], "mean": mean, "worst": [best["worst"]], "pooled": mean, "loss": [None]},
        "clients": None,
    }
    return cast(OutcomeContent, {**made, **changes})


def experiment(rows: Mapping[str, Any], columns: Mapping[str, Any], **run: Any) -> Experiment:
    """Return an experiment with these rows and columns, and options of every run."""
    described = {
        "id": "T",
        "title": "a test",
        "paper": "none",
        "run": {"data": "digits", "setting": "practical", "clients": 6, "rounds": ROUNDS, "method": "fedavg", **run},
        "rows": dict(rows),
        "columns": dict(columns),
        "sizes": {"cpu": {}},
    }
    return Experiment("test/synthetic", described)


def outcome(
    path: Path,
    *,
    seed: int = 0,
    silos: int = 8,
    rounds: int = ROUNDS,
    level: float = 80.0,
    groups: Sequence[int | None] | None = None,
    weights: bool = False,
    signed: bool = False,
    every: int = 1,
) -> Outcome:
    """Return a run whose accuracies rise to a level; it was evaluated in one of `every` so many rounds."""
    rng = np.random.default_rng([seed, int(level * 100), silos])
    rise = 1 - 0.8 * np.exp(-np.arange(1, rounds + 1) / (rounds / 6))
    own = np.clip(level + rng.normal(0, 6, silos), 0, 100)
    table = np.clip(rise[:, None] * own + rng.normal(0, 1, (rounds, silos)), 0, 100)
    measured = [number % every == 0 for number in range(rounds)]
    means = [float(row.mean()) if there else None for row, there in zip(table, measured, strict=True)]
    best = int(np.argmax([-1.0 if mean is None else mean for mean in means]))
    at: RecordedRound = {
        "round": best + 1,
        "mean": means[best],
        "worst": float(table[best].min()),
        "spread": float(table[best].std()),
        "accuracy": table[best].tolist(),
    }
    made = content(
        at,
        resolved={"seed": seed, "rounds": rounds, "epochs": 5},
        silos=[f"silo-{number:02d}" for number in range(silos)],
        groups=None if groups is None else list(groups),
        block_score=None if groups is None else 12.345,
        rounds={
            "round": list(range(1, rounds + 1)),
            "mean": means,
            "worst": [None if m is None else float(row.min()) for m, row in zip(means, table, strict=True)],
            "pooled": means,
            "loss": [None if mean is None else 3 * (1.02 - mean / 100) for mean in means],
        },
        clients=[r.tolist() if t else [] for r, t in zip(table, measured, strict=True)] if silos <= FEW_SILOS else None,
    )
    if weights:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = range(1, rounds + 1) if silos <= FEW_SILOS else [rounds]
        save_weights(path, {r: _matrix(rng, r / rounds, silos, groups, signed) for r in kept})
    return Outcome(path, made)


def save_weights(path: Path, weights: Mapping[int, np.ndarray[Any, Any]]) -> None:
    """Write collaboration weights by round beside the file of an outcome."""
    arrays: dict[str, Any] = {str(round): matrix for round, matrix in weights.items()}
    np.savez(path.with_suffix(".npz"), **arrays)


def changed(outcome: Outcome, **changes: Any) -> Outcome:
    """Return an outcome with other content under some keys."""
    return Outcome(outcome.path, cast(OutcomeContent, {**outcome.content, **changes}))


def _matrix(
    rng: np.random.Generator, late: float, silos: int, groups: Sequence[int | None] | None, signed: bool
) -> np.ndarray[Any, Any]:
    label = np.array(range(silos) if groups is None else groups)
    same = label[:, None] == label[None, :]
    other = (0.2 + late * same) / silos * rng.uniform(0.8, 1.2, (silos, silos))
    if signed:
        other -= 0.6 * late / silos * ~same
    return np.where(np.eye(silos, dtype=bool), 0.4 + 0.3 * late, other).astype(np.float16)


def results(
    folder: Path, rows: Mapping[str, Any], columns: Mapping[str, Any], seeds: int = 1, **options: Any
) -> Results:
    """Return outcomes of every row in every column; rows differ in their level."""
    found = {}
    for height, row in enumerate(rows):
        for width, column in enumerate(columns):
            level = 70 + 25 * height / len(rows) - 8 * width
            found[row, column] = [
                outcome(folder / f"{row}-{column}-{seed}.json", seed=seed, level=level, **options)
                for seed in range(seeds)
            ]
    return Results(experiment(rows, columns), "cpu", found, {})
