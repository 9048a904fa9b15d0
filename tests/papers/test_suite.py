"""Methods over federations, of outcomes that were made up: every number is worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.made_up import cells_of
from papers.synthetic import content

from amity.papers import figures, tables
from amity.papers.outcome import Outcome
from amity.papers.outcome.tested import SiloTested, packed_silo
from amity.papers.results import Results
from amity.papers.spec import Experiment
from amity.papers.suite import Federation

CONTENT: dict[str, Any] = {
    "id": "S",
    "title": "A suite",
    "paper": "ours",
    "columns": {"x": {"label": "Data X", "half": "development"}, "y": {"label": "Data Y", "half": "judging"}},
    "rows": {"separate": {}, "pooled": {}, "good": {"label": "Good"}, "poor": {}},
    "sizes": {"quick": {}},
    "outputs": [{"kind": "suite"}, {"kind": "suite-map"}],
}

ALONE = [60.0, 62.0, 64.0, 66.0, 68.0, 70.0]
POOLED = [value + 10 + place % 2 for place, value in enumerate(ALONE)]  # 10.5 above in the mean
GOOD = [value + 8.4 for value in ALONE]
POOR = [value - 2.1 for value in ALONE]


def a_run(
    scores: list[float], means: list[float], seed: int = 0, score: str = "accuracy", examples: int = 1000
) -> Outcome:
    """Return a run with these scores of silos at its end; of a thousand test examples, the first are right."""
    lower = score == "rmse"
    best: Any = {
        "round": len(means),
        "mean": means[-1],
        "worst": max(scores) if lower else min(scores),
        "spread": 1.0,
        "accuracy": scores,
    }
    tested: list[SiloTested | None] = []
    for value in scores:
        right = np.arange(examples) < round(value / 100 * examples)
        tested.append(packed_silo(np.full(examples, value) if lower else right, 50.0 if lower else None))
    made = content(
        best,
        last=best,
        score=score,
        resolved={"seed": seed, "rounds": len(means) - 1, "epochs": 1, "setting": "natural"},
        silos=[f"s{place}" for place in range(len(scores))],
        rounds={"round": list(range(1, len(means) + 1)), "mean": means},
        bytes_up=12_000_000,
        bytes_down=6_000_000,
        ending=True,
        tested=tested,
    )
    return Outcome(Path("nowhere.json"), made)


OUTCOMES = {
    ("separate", "x"): [a_run(ALONE, [60, 65])],
    ("pooled", "x"): [a_run(POOLED, [70, 75.5])],
    ("good", "x"): [a_run(GOOD, [62, 72, 73, 73.4])],  # 90 % of a gain of 8.4 is 7.56: round 3
    ("poor", "x"): [a_run(POOR, [60, 62.9])],
}
SUITE = Results(Experiment("us/suite", CONTENT), "quick", OUTCOMES, {})


def test_shares_are_those_of_the_hand() -> None:
    found = Federation(SUITE, "x")
    assert found.rows == ["good", "poor"]
    assert found.recovered("good")["share"] == pytest.approx(80) and found.recovered("poor")["share"] == pytest.approx(
        -20
    )
    assert found.whole().points == pytest.approx(10.5)
    assert found.rounds_needed("good") == 3 and math.isnan(found.rounds_needed("poor"))
    assert found.traffic("good") == pytest.approx(3.0)
    assert found.worst("poor") == pytest.approx(57.9)


def test_silos_are_judged_by_their_examples() -> None:
    found = Federation(SUITE, "x")
    assert found.counts("good").gain == 6 and found.harmed("good")["share"] == 0
    counts = found.counts("poor")  # 21 of 1000 lost, none won: training alone varies by as much, so nothing is clear
    assert (counts.lose, counts.level) == (0, 6)
    worse = {**OUTCOMES, ("poor", "x"): [a_run([value - 10 for value in ALONE], [55, 55])]}
    assert Federation(Results(SUITE.experiment, "quick", worse, {}), "x").harmed("poor")["share"] == 100


def test_places_among_methods() -> None:
    places = Federation(SUITE, "x").places(["good", "poor"])
    assert places["good"][:2] == (1, True) and places["poor"][:2] == (2, False)
    assert places["good"].regret == 0 and places["poor"].regret == pytest.approx(100)  # 80 less -20


def test_regret_is_measured_from_the_oracle_which_has_no_rank() -> None:
    """It may be wrong: then another method is ahead of it, by a regret below 0."""
    rows = {**CONTENT["rows"], "oracle": {"label": "Oracle", "best_of": ["poor"]}}
    outputs = [{"kind": "suite", "oracle": "oracle"}]
    outcomes = {**OUTCOMES, ("oracle", "x"): OUTCOMES["poor", "x"]}
    suite = Results(Experiment("us/suite", {**CONTENT, "rows": rows, "outputs": outputs}), "quick", outcomes, {})
    places = Federation(suite, "x").places(["good", "poor"], "oracle")
    assert (places["good"].rank, places["poor"].rank) == (1, 2)
    assert places["good"].regret == pytest.approx(-100) and places["poor"].regret == 0  # -20 less 80
    made = tables.make(suite.experiment.outputs[0], suite)
    assert "Regret: what the row Oracle recovers beyond it" in made.paragraphs[0]
    assert cells_of(made.paragraphs[2], "Oracle")[6:] == ["–", "–", "1", "–", "–", "3.0"]
    assert [(line["row"], line["rank"]) for line in made.lines] == [("good", 1), ("poor", 2), ("oracle", "")]
    unknown = Federation(Results(suite.experiment, "quick", OUTCOMES, {}), "x").places(["good"], "oracle")
    assert math.isnan(unknown["good"].regret)  # nothing of the oracle is recorded


def test_lower_errors_are_better() -> None:
    scores = {"separate": [2.0, 3.0, 4.0], "pooled": [1.6, 2.5, 3.6], "good": [1.8, 2.8, 3.8], "poor": [2.2, 3.2, 4.2]}
    outcomes = {(row, "y"): [a_run(of, [sum(of) / 3], score="rmse")] for row, of in scores.items()}
    found = Federation(Results(SUITE.experiment, "quick", outcomes, {}), "y")
    assert found.recovered("good")["share"] == pytest.approx(100 * 0.2 / (1.3 / 3))
    assert found.places(["poor", "good"])["good"].rank == 1
    assert found.worst("good") == 3.8
    # Squares grow by 0.84, 1.24 and 1.64, where labels vary by 8, 18 and 32: 10.5, 6.9 and 5.1 points of R2. Training
    # varies by 3 points, so that 5.88 are clear.
    assert found.counts("poor")[:3] == (0, 2, 1)


def test_seeds_of_the_same_silos_are_one_silo() -> None:
    again = {key: [*runs, a_run(runs[0].delivered, [60, 70], seed=1)] for key, runs in OUTCOMES.items()}
    found = Federation(Results(SUITE.experiment, "quick", again, {}), "x")
    assert found.counts("good").compared == 6 and found.recovered("good")["share"] == pytest.approx(80)


def test_the_table_has_both_halves_and_what_is_missing() -> None:
    output = SUITE.experiment.outputs[0]
    paragraphs, lines = tables.make(output, SUITE)
    text = "\n\n".join(paragraphs)
    assert "**The development half**" in text and "judging half" not in text  # nothing of it is recorded
    summary = paragraphs[2]
    assert cells_of(summary, "Good")[1:8] == ["1 of 1", "80", "80", "0.0", "0.0", "1.0", "1 of 1"]
    assert cells_of(summary, "poor")[1:] == [
        "1 of 1",
        "-20",
        "-20",
        "0.0",
        "0.0",
        "2.0",
        "0 of 1",
        "1",
        "100",
        "–",
        "3.0",
    ]
    assert cells_of(paragraphs[4], "Data X")[1:] == ["accuracy", "65.00", "75.50", "80", "-20"]
    assert cells_of(paragraphs[6], "Data X")[1:] == ["**+10.50**", "**+8.40**", "**-2.10**"]
    assert cells_of(paragraphs[9], "Data X")[1:] == ["+5.00", "+5.50", "+0.40", "+2.90"]  # after less before the ending
    assert cells_of(paragraphs[9], "adds something in")[1:] == ["1 of 1"] * 4
    assert [line["row"] for line in lines] == ["good", "poor"] and lines[0]["silos_that_gain"] == 6
    bare = Results(SUITE.experiment, "quick", {("good", "x"): OUTCOMES["good", "x"]}, {})
    assert tables.make(output, bare).lines == []


def test_the_map_is_drawn(tmp_path: Path) -> None:
    output = SUITE.experiment.outputs[1]
    assert [path.suffix for path in figures.draw(output, SUITE, tmp_path)] == [".png", ".pdf"]
    nothing = Results(SUITE.experiment, "quick", {}, {})
    assert figures.draw(output, nothing, tmp_path) == []
