"""Experiments that nobody ran: outcomes as files hold them, from numbers drawn at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amity.experiments.outcome import FEW, Outcome
from amity.experiments.reproduce import Results
from amity.experiments.spec import Experiment

ROUNDS = 30


def experiment(rows: Mapping[str, Any], columns: Mapping[str, Any], **run: Any) -> Experiment:
    content = {
        "id": "T",
        "title": "a test",
        "paper": "none",
        "run": {"data": "digits", "setting": "practical", "clients": 6, "rounds": ROUNDS, "method": "fedavg", **run},
        "rows": dict(rows),
        "columns": dict(columns),
        "sizes": {"cpu": {}},
    }
    return Experiment("test/synthetic", content)


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
    """Accuracies that rise to a level; `every`: the rounds that were evaluated."""
    rng = np.random.default_rng([seed, int(level * 100), silos])
    rise = 1 - 0.8 * np.exp(-np.arange(1, rounds + 1) / (rounds / 6))
    own = np.clip(level + rng.normal(0, 6, silos), 0, 100)
    table = np.clip(rise[:, None] * own + rng.normal(0, 1, (rounds, silos)), 0, 100)
    measured = [number % every == 0 for number in range(rounds)]
    means = [float(row.mean()) if there else None for row, there in zip(table, measured, strict=True)]
    best = int(np.argmax([-1.0 if mean is None else mean for mean in means]))
    at = {"mean": means[best], "accuracy": table[best].tolist(), "round": best + 1}
    content = {
        "resolved": {"seed": seed},
        "silos": [f"silo-{number:02d}" for number in range(silos)],
        "groups": None if groups is None else list(groups),
        "best": at,
        "last": at,
        "block_score": None if groups is None else 12.345,
        "rounds": {
            "round": list(range(1, rounds + 1)),
            "mean": means,
            "worst": [None if m is None else float(row.min()) for m, row in zip(means, table, strict=True)],
            "pooled": means,
            "loss": [None if mean is None else 3 * (1.02 - mean / 100) for mean in means],
        },
        "clients": [r.tolist() if t else [] for r, t in zip(table, measured, strict=True)] if silos <= FEW else None,
    }
    if weights:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = range(1, rounds + 1) if silos <= FEW else [rounds]
        np.savez(path.with_suffix(".npz"), **{str(r): _matrix(rng, r / rounds, silos, groups, signed) for r in kept})
    return Outcome(path, content)


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
    """Every row in every column; rows differ in their level."""
    found = {}
    for height, row in enumerate(rows):
        for width, column in enumerate(columns):
            level = 70 + 25 * height / len(rows) - 8 * width
            found[row, column] = [
                outcome(folder / f"{row}-{column}-{seed}.json", seed=seed, level=level, **options)
                for seed in range(seeds)
            ]
    return Results(experiment(rows, columns), "cpu", found, {})
