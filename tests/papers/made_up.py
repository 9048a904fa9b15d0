"""Outcomes of one round that were made up: every number of a table can be worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from papers.synthetic import content

from amity.papers import tables
from amity.papers.outcome import Outcome, RecordedRound
from amity.papers.results import Results
from amity.papers.spec import Experiment

CONTENT: dict[str, Any] = {
    "id": "T",
    "title": "Made up",
    "paper": "Nobody",
    "columns": {"x": {"label": "Data X"}, "y": {}},
    "rows": {"good": {"label": "Good"}, "bad": {}},
    "paper_values": {"good": {"x": 91.5}},
    "run": {"rounds": 2},
    "sizes": {"quick": {"note": "everything is small", "seeds": 2}},
    "claims": [{"text": "good is better", "above": ["good"], "below": ["bad"]}],
}

EIGHT = [80.0, 81, 82, 83, 84, 85, 86, 87]


def outcome(
    accuracies: list[float], seed: int = 0, warnings: Sequence[str] = (), notes: Sequence[str] = ("a subset",)
) -> Outcome:
    """Return a run whose silos had these accuracies in its best round; in the last one their mean is a point less."""
    mean = sum(accuracies) / len(accuracies)
    spread = math.sqrt(sum((value - mean) ** 2 for value in accuracies) / len(accuracies))
    best: RecordedRound = {
        "round": 1,
        "mean": mean,
        "worst": min(accuracies),
        "spread": spread,
        "accuracy": list(accuracies),
    }
    last: RecordedRound = {**best, "mean": mean - 1}
    made = content(
        best,
        last=last,
        resolved={"seed": seed, "rounds": 2, "epochs": 5},
        notes=list(notes),
        warnings=list(warnings),
        seconds=3.0,
        peak_gib=2.0 + seed,
        bytes_up=4_000_000_000,
        bytes_down=(6 + 2 * seed) * 1_000_000_000,
        rounds={"round": [1, 2]},
    )
    return Outcome(Path("nowhere.json"), made)


def results(outcomes: dict[tuple[str, str], list[Outcome]], **changes: Any) -> Results:
    """Return outcomes as those of an experiment of the rows good and bad and the columns x and y, or as changed."""
    return Results(Experiment("us/made-up", {**CONTENT, **changes}), "quick", outcomes, {})


SEVERAL = results(
    {
        ("good", "x"): [outcome([90, 94]), outcome([94, 98], 1)],  # means 92 and 96
        ("bad", "x"): [outcome([80, 84])],
        ("good", "y"): [outcome([50, 60])],
    }
)


def text_of(which: Results) -> str:
    """Return the text of the first table of some results."""
    (output, *_) = which.experiment.outputs
    return "\n\n".join(tables.make(output, which).paragraphs)


def cells_of(text: str, first: str) -> list[str]:
    """Return the cells of the line of a table that begins with this one."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {first} ")]
    return [cell.strip() for cell in line.strip("|").split("|")]
