"""Who gains by joining, silo by silo."""

from __future__ import annotations

import math

from papers.made_up import cells_of, outcome, results

from amity.papers import tables

JOINED = results(
    {
        # Seeds 0 and 1 of two silos. Alone: 80, 60 and 82, 62.
        ("alone", "x"): [outcome([80, 60]), outcome([82, 62], 1)],
        # Gains of 2, -1 and 4, -3: 3 +- sqrt(2) in every seed, -2 +- sqrt(2) in none; seeds in any order.
        ("good", "x"): [outcome([86, 59], 1), outcome([82, 59])],
        # Gains of 1, 1 and -1, 0: nothing on average, and 0.5.
        ("bad", "x"): [outcome([81, 61]), outcome([81, 62], 1)],
        ("pooled", "x"): [outcome([99, 99]), outcome([99, 99], 1)],
    },
    rows={"alone": {"label": "Alone"}, "good": {"label": "Good"}, "bad": {}, "pooled": {}},
    outputs=[{"kind": "worth", "against": "alone", "without": ["pooled"]}],
    claims=[],
)


def test_who_gains_by_joining_is_told_by_silo_and_by_method() -> None:
    (output,) = JOINED.experiment.outputs
    (head, column, by_silo, chance, by_method), lines = tables.make(output, JOINED)
    root = f"{math.sqrt(2):.2f}"
    assert "over Alone" in head and column == "**Data X**"
    assert cells_of(by_silo, "0") == ["0", f"81.00 ± {root}", "1 of 2", "1", f"Good **+3.00 ± {root}**"]
    assert cells_of(by_silo, "1") == ["1", f"61.00 ± {root}", "1 of 2", "0", f"bad +0.50 ± {math.sqrt(0.5):.2f}"]
    # Four pairs; of Good the first silo gains in both seeds and the second loses in both; coins: 4 / 2^2.
    assert "4 pairs" in chance and "1 gain" in chance and "1 lose" in chance and "in 1.0 each" in chance
    assert cells_of(by_method, "Good") == ["Good", f"**+3.00 ± {root}**", f"-2.00 ± {root}"]
    assert cells_of(by_method, "bad") == ["bad", f"+0.00 ± {root}", f"+0.50 ± {math.sqrt(0.5):.2f}"]
    assert [(line["row"], line["silo"], line["gain"]) for line in lines] == [
        ("good", "0", "3"),
        ("good", "1", "-2"),
        ("bad", "0", "0"),
        ("bad", "1", "0.5"),
    ]
    last = lines[-1]
    assert (last["seeds"], last["seeds_that_gain"], last["seeds_that_lose"]) == (2, 1, 0)


def test_a_silo_without_a_test_or_a_gain_has_none() -> None:
    alone, joined = [outcome([80, math.nan])], [outcome([79, math.nan])]
    which = results(
        {("alone", "x"): alone, ("good", "x"): joined},
        rows={"alone": {}, "good": {}},
        outputs=[{"kind": "worth", "against": "alone"}],
        claims=[],
    )
    (output,) = which.experiment.outputs
    (_, _, by_silo, _, by_method), lines = tables.make(output, which)
    assert cells_of(by_silo, "0")[2:] == ["0 of 1", "0", "–"]
    assert cells_of(by_silo, "1")[1:] == ["–", "0 of 0", "0", "–"]
    assert cells_of(by_method, "good") == ["good", "-1.00", "–"] and lines[1]["seeds"] == 0
