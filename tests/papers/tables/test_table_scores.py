"""The table of accuracies: every number in it can be worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

from papers.made_up import SEVERAL, outcome, results, text_of

from amity.papers import tables
from amity.papers.outcome import Outcome


def test_the_mean_and_the_sample_deviation_over_seeds_stand_beside_the_papers_value() -> None:
    text = text_of(SEVERAL)
    deviation = math.sqrt(((92 - 94) ** 2 + (96 - 94) ** 2) / (2 - 1))
    (line,) = [line for line in text.splitlines() if line.startswith("| Good ")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["Good", f"**94.00 ± {deviation:.2f}**", "91.50", "**55.00**"]
    (line,) = [line for line in text.splitlines() if line.startswith("| bad ")]
    assert [cell.strip() for cell in line.strip("|").split("|")] == ["bad", "82.00", "–", "–"]


def test_the_long_form_has_a_line_for_every_cell_that_is_there() -> None:
    (output, *_) = SEVERAL.experiment.outputs
    lines = tables.make(output, SEVERAL)[1]
    assert [(line["row"], line["column"]) for line in lines] == [("good", "x"), ("bad", "x"), ("good", "y")]
    first = lines[0]
    assert first["bmta"] == "94" and first["last"] == "93" and first["seeds"] == 2 and first["worst"] == "92"


def test_quantities_are_not_called_accuracies() -> None:
    of_quantities = Outcome(Path("nowhere.json"), {**outcome([50, 60]).content, "score": "r2"})
    assert text_of(results({("good", "x"): [of_quantities]})).startswith(
        "Best mean test R² over rounds, in percent, one"
    )
    assert text_of(SEVERAL).startswith("Best mean test accuracy over rounds (BMTA), in percent, mean")
