"""Runs that were made up round by round: the accuracies of their silos, and what they warned of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from papers.synthetic import content

from amity.papers import tables
from amity.papers.outcome import Outcome, RecordedRound
from amity.papers.results import Results
from amity.papers.spec import Experiment

Accuracies = Sequence[float]
EIGHT = [80.0, 81, 82, 83, 84, 85, 86, 87]
DIVERGES = "upload refused: params not finite; training diverges, try a smaller rate"
COLLAPSED = "attention has collapsed to self for 3 rounds: this is separate training"
UNIFORM = "attention is uniform for 3 rounds: every silo starts from the same average"


def run(
    rounds: Sequence[Accuracies | None],
    method: str = "fedamp",
    *,
    kept: bool = True,
    seed: int = 0,
    warnings: Sequence[str] = (),
    settings: dict[str, Any] | None = None,
    resolved: dict[str, Any] | None = None,
    **more: Any,
) -> Outcome:
    """Return a run whose silos had these accuracies, round by round; None in a round without evaluation.

    `kept`: all of them are in its record, as of few silos; else those of the best and the last round alone.
    """
    means = [None if silos is None else sum(silos) / len(silos) for silos in rounds]
    evaluated = [(mean, place) for place, mean in enumerate(means) if mean is not None]
    best = max(evaluated, key=lambda pair: pair[0])[1]
    count = len(rounds[best] or [])

    def at(place: int) -> RecordedRound:
        silos = list(rounds[place] or [])
        return {"round": place + 1, "mean": means[place], "worst": min(silos), "spread": 0.0, "accuracy": [*silos]}

    made = content(
        at(best),
        asked={"method": method, **({"set": settings} if settings else {})},
        resolved={"seed": seed, "rounds": len(rounds), "epochs": 5, **(resolved or {})},
        last=at(len(rounds) - 1),
        warnings=list(warnings),
        rounds={
            "round": [place + 1 for place in range(len(rounds))],
            "mean": means,
            "took_part": [count] * len(rounds),
        },
        clients=[list(silos or []) for silos in rounds] if kept else None,
        **more,
    )
    return Outcome(Path("nowhere.json"), made)


def results(outcomes: dict[str, Outcome | list[Outcome]], **claim: Any) -> Results:
    """Return results in one column, x, with the claim that the first row is better than the others."""
    first, *others = outcomes
    described = {
        "id": "T",
        "title": "Made up",
        "paper": "Nobody",
        "columns": {"x": {"label": "X"}},
        "rows": {row: {} for row in outcomes},
        "run": {},
        "sizes": {"cpu": {}},
        "claims": [{"text": "it is", "above": [first], "below": others, **claim}],
    }
    found = {(row, "x"): one if isinstance(one, list) else [one] for row, one in outcomes.items()}
    return Results(Experiment("us/made-up", described), "cpu", found, {})


def verdict(found: Results) -> str:
    """Return what is said of the claim."""
    (_, lines) = tables.claims(found, ["x"])
    return lines


def plus(points: float) -> list[float]:
    """Return the accuracies of eight silos, each higher by so many points."""
    return [value + points for value in EIGHT]
