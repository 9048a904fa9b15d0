"""Gains of silos are those of the models that runs deliver, never of a round that was chosen on test data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from papers import round_by_round
from papers.round_by_round import plus
from papers.synthetic import experiment, outcome

from amity.papers.outcome import Outcome, OutcomeContent, RecordedRound
from amity.papers.results import Results

COLUMNS: dict[str, Any] = {"left": {}}


def run(path: Path, method: str, *, best: float, last: float, validated: float | None = None) -> Outcome:
    """Return a run of eight silos, all equal in a round: round 2 is the best on test data, round 6 the last."""
    made = outcome(path, rounds=6)

    def at(round: int, value: float) -> RecordedRound:
        return {"round": round, "mean": value, "worst": value, "spread": 0.0, "accuracy": [value] * len(made.silos)}

    rounds = [at(1, 10.0), at(2, best), at(3, 50.0), at(4, validated or 51.0), at(5, 60.0), at(6, last)]
    content: OutcomeContent = {
        **made.content,
        "asked": {"method": method},
        "best": rounds[1],
        "last": rounds[5],
        "validated": None if validated is None else rounds[3],
        "clients": [one["accuracy"] for one in rounds],
    }
    return Outcome(path, content)


@pytest.mark.parametrize(
    ("mine", "expected"),
    [
        ({"method": "fedamp", "best": 89.65, "last": 83.21}, 83.21 - 87.98),  # its best round said: join
        ({"method": "fedamp", "best": 89.65, "last": 83.21, "validated": 88.0}, 88.0 - 87.98),
        ({"method": "fedavg-ft", "best": 89.65, "last": 83.21}, 60.0 - 87.98),  # one training more: a round earlier
    ],
)
def test_gains_are_those_of_the_delivered_models(mine: dict[str, Any], expected: float, tmp_path: Path) -> None:
    row = str(mine["method"])
    found = {
        (row, "left"): [run(tmp_path / "a.json", **mine)],
        ("separate", "left"): [run(tmp_path / "b.json", "separate", best=90.0, last=87.98)],
    }
    plan = experiment({row: {}, "separate": {}}, COLUMNS)
    ((_, gains),) = Results(plan, "cpu", found, {}).gains(row, "separate", "left")
    assert gains == pytest.approx([expected] * len(gains))


def test_gains_of_silos_are_at_equal_work_too() -> None:
    tuned = round_by_round.run([plus(0), plus(2), plus(4)], "fedavg-ft")
    alone = round_by_round.run([plus(0), plus(2), plus(3)], "separate")
    ((_, gains),) = round_by_round.results({"fedavg-ft": tuned, "separate": alone}).gains("fedavg-ft", "separate", "x")
    assert gains == pytest.approx([-1.0] * 8)
