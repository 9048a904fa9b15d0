"""Tables of outcomes that were made up: every number in them can be worked out by hand."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.experiments import tables
from amity.experiments.outcome import Outcome
from amity.experiments.reproduce import Results
from amity.experiments.spec import Experiment
from amity.experiments.tables import scores

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


def outcome(
    accuracies: list[float], seed: int = 0, warnings: Sequence[str] = (), notes: Sequence[str] = ("a subset",)
) -> Outcome:
    mean = sum(accuracies) / len(accuracies)
    spread = math.sqrt(sum((value - mean) ** 2 for value in accuracies) / len(accuracies))
    at = {"round": 1, "mean": mean, "worst": min(accuracies), "spread": spread, "accuracy": accuracies}
    content = {
        "resolved": {"seed": seed},
        "notes": list(notes),
        "warnings": list(warnings),
        "block_score": None,
        "best": at,
        "last": {**at, "mean": mean - 1},
        "validated": None,
        "seconds": 3.0,
        "peak_gib": 2.0 + seed,
        "bytes_up": 4e9,
        "bytes_down": (6 + 2 * seed) * 1e9,
        "silos": [str(silo) for silo in range(len(accuracies))],
        "rounds": {"round": [1, 2]},
    }
    return Outcome(Path("nowhere.json"), content)


def results(outcomes: dict[tuple[str, str], list[Outcome]], **changes: Any) -> Results:
    return Results(Experiment("us/made-up", {**CONTENT, **changes}), "quick", outcomes, {})


SEVERAL = results(
    {
        ("good", "x"): [outcome([90, 94]), outcome([94, 98], 1)],  # means 92 and 96
        ("bad", "x"): [outcome([80, 84])],
        ("good", "y"): [outcome([50, 60])],
    }
)


def _table(which: Results) -> str:
    (output, *_) = which.experiment.outputs
    return "\n\n".join(tables.made(output, which)[0])


def test_the_mean_and_the_sample_deviation_over_seeds_stand_beside_the_papers_value() -> None:
    text = _table(SEVERAL)
    deviation = math.sqrt(((92 - 94) ** 2 + (96 - 94) ** 2) / (2 - 1))
    (line,) = [line for line in text.splitlines() if line.startswith("| Good ")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["Good", f"**94.00 ± {deviation:.2f}**", "91.50", "**55.00**"]
    (line,) = [line for line in text.splitlines() if line.startswith("| bad ")]
    assert [cell.strip() for cell in line.strip("|").split("|")] == ["bad", "82.00", "–", "–"]


def test_the_head_says_what_was_scaled_down_and_what_is_missing() -> None:
    text = "\n".join(tables.heading(SEVERAL))
    assert "everything is small" in text and "4 of 8 runs are recorded" in text and "a subset" in text


def test_the_head_repeats_what_runs_warned_of_and_says_which() -> None:
    assert "Warning" not in "\n".join(tables.heading(SEVERAL))
    found = results(
        {
            ("good", "x"): [outcome([90, 94], warnings=["diverges"]), outcome([94, 98], 1)],
            ("bad", "x"): [outcome([80, 84])],
            ("bad", "y"): [outcome([50, 60], warnings=["collapsed", "diverges"])],
        }
    )
    told = [part for part in tables.heading(found) if part.startswith("Warning")]
    assert told == [
        "Warning: diverges. Said by Good on Data X (1 of 2 seeds); bad on y.",
        "Warning: collapsed. Said by bad on y.",
    ]


def test_the_head_says_of_which_runs_a_note_is_that_not_all_of_a_data_set_have() -> None:
    found = results(
        {
            ("good", "x"): [outcome([90, 94], notes=["x1 is a subset", "7 moved"])],
            ("bad", "x"): [outcome([80, 84], notes=["x1 is a subset"])],
            ("bad", "y"): [outcome([50, 60], notes=["y is old"])],
        }
    )
    told = [part for part in tables.heading(found) if part.startswith("Data")]
    assert told == ["Data: 7 moved. Said by Good on Data X.", "Data: x1 is a subset.", "Data: y is old."]


def test_notes_that_differ_in_numbers_alone_are_one_over_seeds_but_not_over_data_sets() -> None:
    found = results(
        {
            ("good", "x"): [
                outcome([90, 94], notes=["x1: 50 draws, 1,000 moved, 0.5 kept"]),
                outcome([94, 98], 1, notes=["x1: 50 draws, 900 moved, 0.25 kept"]),
                outcome([94, 98], 2, notes=["x1: 50 draws, 950 moved, 0.5 kept"]),
            ],
            ("good", "y"): [outcome([50, 60], notes=["x2: 50 draws, 1 moved, 0.5 kept"])],
        }
    )
    told = [part for part in tables.heading(found) if part.startswith("Data")]
    assert told == [
        "Data: x1: 50 draws, 900 to 1,000 moved, 0.25 to 0.5 kept.",
        "Data: x2: 50 draws, 1 moved, 0.5 kept.",
    ]


def test_the_long_form_has_a_line_for_every_cell_that_is_there() -> None:
    (output, *_) = SEVERAL.experiment.outputs
    lines = tables.made(output, SEVERAL)[1]
    assert [(line["row"], line["column"]) for line in lines] == [("good", "x"), ("bad", "x"), ("good", "y")]
    first = lines[0]
    assert first["bmta"] == "94" and first["last"] == "93" and first["seeds"] == 2 and first["worst"] == "92"


def test_what_runs_need_is_told_as_the_mean_over_seeds_and_the_largest_memory() -> None:
    several = results(dict(SEVERAL.outcomes), outputs=[{"kind": "cost"}])
    (output,) = several.experiment.outputs
    (text, _), lines = tables.made(output, several)
    (line,) = [line for line in text.splitlines() if line.startswith("| Good on Data X ")]
    # Two silos, two rounds, 3 s a run; memory of 2 and 3 GiB; down 6 and 8 GB.
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["Good on Data X", "2", "2", "0.1", "0.0", "3.0", "4.00", "7.00"]
    assert [(line["row"], line["column"]) for line in lines] == [("good", "x"), ("bad", "x"), ("good", "y")]
    assert (lines[0]["seconds"], lines[0]["peak_gib"], lines[0]["bytes_down"]) == ("3", "3", "7e+09")


def test_a_claim_is_judged_by_the_comparisons_that_were_run() -> None:
    assert "good is better: **confirmed** (1 of 1 comparisons" in _table(SEVERAL)
    both = {("good", "x"): [outcome([90, 94])], ("bad", "x"): [outcome([80, 84])]}
    contrary = {("good", "y"): [outcome([70, 70])], ("bad", "y"): [outcome([80, 84])]}
    assert "**confirmed in half** (1 of 2" in _table(results({**both, **contrary}))
    third = {("good", "z"): [outcome([90, 94])], ("bad", "z"): [outcome([80, 84])]}
    columns = {**CONTENT["columns"], "z": {}}
    assert "**confirmed in part** (2 of 3" in _table(results({**both, **contrary, **third}, columns=columns))
    two = {("bad", "z"): [outcome([90, 94])], ("good", "z"): [outcome([80, 84])]}
    assert "**mostly not confirmed** (1 of 3" in _table(results({**both, **contrary, **two}, columns=columns))
    told = _table(results(contrary))
    assert "**not confirmed** (0 of 1" in told and "contrary: Good on y against bad -12.00 (p " in told
    (_, brief) = tables.claims(results(contrary), ["y"], briefly=True)
    assert "**not confirmed** (0 of 1" in brief and "contrary" not in brief
    assert "good is better" not in _table(results({("good", "x"): [outcome([90, 94])]}))


def test_a_claim_about_rows_with_other_silos_is_not_tested_in_pairs() -> None:
    # All three pairs differ in one direction, as 2 of 2^3 signs do. As groups they alternate, 1 2 1 2 1 2: of the 20
    # orders 1 + 1 + 2 + 3 have a rank sum as small, and as many one as large.
    better, worse = [11.0, 22, 33], [12.0, 24, 36]
    same = {("good", "y"): [outcome(better)], ("bad", "y"): [outcome(worse)]}
    assert "bad -2.00 (p 0.25)" in _table(results(same))
    other = outcome(worse)
    other.content["resolved"]["setting"] = "dirichlet:alpha=5"
    assert "bad -2.00 (p 0.70)" in _table(results({**same, ("bad", "y"): [other]}))


EIGHT = [80.0, 81, 82, 83, 84, 85, 86, 87]


def test_a_claim_is_clear_where_a_test_says_so_after_holms_correction() -> None:
    """Eight silos that all gain, each by another amount: p = 2 / 2^8 < 0.05, times 8 comparisons it is not."""
    ahead = {("good", "x"): [outcome([a + 1 + i / 10 for i, a in enumerate(EIGHT)])], ("bad", "x"): [outcome(EIGHT)]}
    assert "(1 of 1 comparisons that were run, of 2; 1 clearly so, 0 clearly not)" in _table(results(ahead))
    behind = {("good", "y"): ahead["bad", "x"], ("bad", "y"): ahead["good", "x"]}
    assert "(0 of 1 comparisons that were run, of 2; 0 clearly so, 1 clearly not)" in _table(results(behind))
    rows = {f"good{i}": {} for i in range(8)}
    many = {(row, "x"): ahead["good", "x"] for row in rows} | {("bad", "x"): ahead["bad", "x"]}
    claim = {"text": "all are better", "above": list(rows), "below": ["bad"], "columns": ["x"]}
    told = _table(results(many, rows={**rows, "bad": {}}, claims=[claim]))
    assert "all are better: **confirmed** (8 of 8 comparisons; 0 clearly so, 0 clearly not)" in told


def test_a_claim_may_ask_for_a_p_value() -> None:
    """Eight silos that all gain: p = 2 / 2^8. Told beside the p-values of all pairs where there is no other table."""
    ahead = {("good", "x"): [outcome([a + 1 + i / 10 for i, a in enumerate(EIGHT)])], ("bad", "x"): [outcome(EIGHT)]}
    claim = {"text": "clearly better", "above": ["good"], "below": ["bad"], "columns": ["x"], "p": 0.01}
    of_pairs = {"outputs": [{"kind": "wilcoxon"}]}
    assert "clearly better: **confirmed** (1 of 1" in _table(results(ahead, claims=[claim], **of_pairs))
    told = _table(results(ahead, claims=[{**claim, "p": 0.001}], **of_pairs))
    assert "clearly better: **not confirmed** (0 of 1" in told
    assert "contrary: Good on Data X against bad +1.35 (p 0.0078)" in told


def test_a_margin_is_part_of_the_test() -> None:
    """Every silo loses a little, clearly less than the claim allows."""
    close = {
        ("good", "x"): [outcome([a - 0.1 - i / 100 for i, a in enumerate(EIGHT)])],
        ("bad", "x"): [outcome(EIGHT)],
    }
    claim = {"text": "as good", "above": ["good"], "below": ["bad"], "within": 3.0, "columns": ["x"]}
    assert "as good: **confirmed** (1 of 1 comparisons; 1 clearly so, 0 clearly not)" in _table(
        results(close, claims=[claim])
    )


def test_a_claim_may_compare_a_row_with_itself_in_another_column() -> None:
    found = {("good", "x"): [outcome([80, 90])], ("good", "y"): [outcome([84, 95])]}
    claim = {"text": "it stays", "above": ["good"], "below": ["good"], "columns": ["x"], "than": "y", "within": 4.0}
    told = _table(results(found, claims=[claim]))
    assert "it stays: **not confirmed** (0 of 1 comparisons;" in told
    assert "contrary: Good on Data X against Good on y -4.50 (p " in told
    assert "it stays: **confirmed**" in _table(results(found, claims=[{**claim, "within": 5.0}]))


def test_natural_silos_count_once_over_seeds() -> None:
    """Four hospitals in three seeds are four: p = 2 / 2^4, however many seeds say the same."""
    ours, alone = [10.0, 20, 30, 40], [9.0, 18, 27, 36]
    seeds = {
        ("good", "x"): [outcome(ours, seed) for seed in range(3)],
        ("bad", "x"): [outcome(alone, seed) for seed in range(3)],
    }
    outputs = [{"kind": "wilcoxon"}]
    dealt = results(seeds, outputs=outputs)
    for outcomes in seeds.values():
        for one in outcomes:
            one.content["resolved"]["setting"] = "natural"
    (line,) = tables.made(dealt.experiment.outputs[0], dealt)[1]
    assert float(line["p"]) == 2 / 2**4 and float(line["mean_difference"]) == 2.5


def test_rows_with_other_silos_are_never_tested_in_pairs() -> None:
    """Other settings, and other numbers of silos: the test of two groups is told of."""
    other = outcome([12.0, 24, 36, 48])
    other.content["resolved"]["clients"] = 4
    both = {("good", "y"): [outcome([11.0, 22, 33])], ("bad", "y"): [other]}
    which = results(both, outputs=[{"kind": "table"}, {"kind": "wilcoxon"}])
    assert "contrary: Good on y against bad -8.00" in _table(which)
    parts, (line,) = tables.made(which.experiment.outputs[1], which)
    from scipy.stats import mannwhitneyu

    assert float(line["p"]) == pytest.approx(mannwhitneyu([11, 22, 33], [12, 24, 36, 48]).pvalue, rel=1e-2)
    assert "Mann and Whitney" in parts[1]


def test_the_head_warns_of_runs_whose_data_were_changed_in_between() -> None:
    both = {("good", "x"): [outcome([90, 94])], ("bad", "x"): [outcome([80, 84])]}
    both["good", "x"][0].content["data_sha256"] = "old"
    both["bad", "x"][0].content["data_sha256"] = "new"
    assert any("on Data X did not all have the same data" in part for part in tables.heading(results(both)))
    both["bad", "x"][0].content["resolved"]["method"] = "pooled"  # which has all data in one place
    assert not any("did not all" in part for part in tables.heading(results(both)))


def test_a_claim_may_allow_a_margin() -> None:
    claim = {"text": "as good", "above": ["bad"], "below": ["good"], "within": 12.5}
    outcomes = {("good", "x"): [outcome([90, 94])], ("bad", "x"): [outcome([80, 84])]}
    assert "as good: **confirmed**" in _table(results(outcomes, claims=[claim]))
    assert "as good: **not confirmed**" in _table(results(outcomes, claims=[{**claim, "within": 9.0}]))


def test_p_values_are_those_of_the_paired_test_and_silos_pair_within_a_seed() -> None:
    good = [outcome([90, 91, 92, 93, 94, 95, 96, 97]), outcome([70, 71, 72, 73, 74, 75, 76, 77], 1)]
    bad = [
        outcome([69, 70, 71, 72, 73, 74, 75, 70], 1),
        outcome([80, 82, 83, 85, 86, 88, 89, 91]),
    ]  # seeds in any order
    kinds = [{"kind": "wilcoxon"}]
    which = results({("good", "x"): good, ("bad", "x"): bad}, outputs=kinds)
    (output,) = which.experiment.outputs
    parts, (line,) = tables.made(output, which)
    mine, others = (one.accuracies + two.accuracies for one, two in ((good[0], good[1]), (bad[1], bad[0])))
    pairs = list(zip(mine, others, strict=True))
    from scipy.stats import wilcoxon

    expected = wilcoxon([a - b for a, b in pairs], correction=False, method="asymptotic").pvalue
    assert float(line["p"]) == pytest.approx(expected, rel=1e-2)
    assert float(line["mean_difference"]) == pytest.approx(sum(a - b for a, b in pairs) / len(pairs), abs=1e-3)
    signs = {text.split("|")[1].strip(): ("+" in text, "−" in text) for text in parts[-1].splitlines()[2:]}
    assert signs == {"Good": (True, False), "bad": (False, True)}


def test_quantities_are_not_called_accuracies() -> None:
    of_quantities = Outcome(Path("nowhere.json"), {**outcome([50, 60]).content, "score": "r2"})
    assert _table(results({("good", "x"): [of_quantities]})).startswith(
        "Best mean test R² over rounds, in percent, one"
    )
    assert _table(SEVERAL).startswith("Best mean test accuracy over rounds (BMTA), in percent, mean")


def test_what_rounding_leaves_of_a_tie_is_a_tie() -> None:
    """Gains of 1/3 at three silos and a loss of 2/3 at a fourth, as records keep them: 66.6667 - 66.3333 is 0.3334.

    Ranks 2, 2, 2 against 4: W = 4, its mean 5, its variance 7.5 less (27 - 3) / 48 for the tie.
    """
    good, bad = outcome([33.3333, 66.6667, 100.0, 0.0]), outcome([33.0, 66.3333, 99.6667, 0.6667])
    which = results({("good", "x"): [good], ("bad", "x"): [bad]})
    compared = which.compared("good", "bad", "x")
    assert compared.test().p == pytest.approx(math.erfc(1 / math.sqrt(14)))


def test_equal_methods_are_told_as_equal() -> None:
    which = results({(row, "x"): [outcome([80, 90])] for row in ("good", "bad")}, outputs=[{"kind": "wilcoxon"}])
    assert _table(which).count("= 1.00") == 2


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


def _cells(text: str, first: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {first} ")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_who_gains_by_joining_is_told_by_silo_and_by_method() -> None:
    (output,) = JOINED.experiment.outputs
    (head, column, by_silo, chance, by_method), lines = tables.made(output, JOINED)
    root = f"{math.sqrt(2):.2f}"
    assert "over Alone" in head and column == "**Data X**"
    assert _cells(by_silo, "0") == ["0", f"81.00 ± {root}", "1 of 2", "1", f"Good **+3.00 ± {root}**"]
    assert _cells(by_silo, "1") == ["1", f"61.00 ± {root}", "1 of 2", "0", f"bad +0.50 ± {math.sqrt(0.5):.2f}"]
    # Four pairs; of Good the first silo gains in both seeds and the second loses in both; coins: 4 / 2^2.
    assert "4 pairs" in chance and "1 gain" in chance and "1 lose" in chance and "in 1.0 each" in chance
    assert _cells(by_method, "Good") == ["Good", f"**+3.00 ± {root}**", f"-2.00 ± {root}"]
    assert _cells(by_method, "bad") == ["bad", f"+0.00 ± {root}", f"+0.50 ± {math.sqrt(0.5):.2f}"]
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
    (_, _, by_silo, _, by_method), lines = tables.made(output, which)
    assert _cells(by_silo, "0")[2:] == ["0 of 1", "0", "–"] and _cells(by_silo, "1")[1:] == ["–", "0 of 0", "0", "–"]
    assert _cells(by_method, "good") == ["good", "-1.00", "–"] and lines[1]["seeds"] == 0


@given(st.lists(st.lists(st.text("ab|c ", max_size=5), min_size=2, max_size=2), max_size=4))
def test_columns_of_markdown_line_up(body: list[list[str]]) -> None:
    lines = tables.markdown(["one", "two"], body).splitlines()
    assert len(lines) == 2 + len(body) and len({len(line) for line in lines}) == 1


def test_files_are_written_and_nothing_where_nothing_is_recorded(tmp_path: Path) -> None:
    (output, *_) = SEVERAL.experiment.outputs
    written = tables.write(output, SEVERAL, tmp_path)
    assert sorted(path.name for path in written) == ["made-up.csv", "made-up.md"]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "made-up.csv").read_text())))
    assert [row["row"] for row in rows] == ["good", "bad", "good"] and list(rows[0]) == list(scores.LONG)
    assert tables.write(output, results({}), tmp_path / "none") == []
    assert not (tmp_path / "none").exists()
