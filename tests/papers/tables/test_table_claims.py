"""Claims judged on made-up outcomes: by comparisons that were run, with margins, tests and p-values."""

from __future__ import annotations

from papers.made_up import CONTENT, EIGHT, SEVERAL, outcome, results, text_of

from amity import statistics
from amity.papers import tables


def test_a_claim_is_judged_by_the_comparisons_that_were_run() -> None:
    assert "good is better: **confirmed, but not clearly** (1 of 1 comparisons" in text_of(SEVERAL)
    both = {("good", "x"): [outcome([90, 94])], ("bad", "x"): [outcome([80, 84])]}
    contrary = {("good", "y"): [outcome([70, 70])], ("bad", "y"): [outcome([80, 84])]}
    assert "**confirmed in half** (1 of 2" in text_of(results({**both, **contrary}))
    third = {("good", "z"): [outcome([90, 94])], ("bad", "z"): [outcome([80, 84])]}
    columns = {**CONTENT["columns"], "z": {}}
    assert "**confirmed in part** (2 of 3" in text_of(results({**both, **contrary, **third}, columns=columns))
    two = {("bad", "z"): [outcome([90, 94])], ("good", "z"): [outcome([80, 84])]}
    assert "**mostly not confirmed** (1 of 3" in text_of(results({**both, **contrary, **two}, columns=columns))
    told = text_of(results(contrary))
    assert "**not confirmed** (0 of 1" in told
    assert told.count("too few silos") == 1 and "contrary: Good on y against bad -12.00\n" in told
    (_, brief) = tables.claims(results(contrary), ["y"], briefly=True)
    assert "**not confirmed** (0 of 1" in brief and "contrary" not in brief
    told = text_of(results({("good", "x"): [outcome([90, 94])]}))
    assert "good is better: **not run** at this size (0 of 2 comparisons)." in told


def test_a_claim_about_rows_with_other_silos_is_not_tested_in_pairs() -> None:
    # All six pairs differ in one direction, as 2 of 2^6 signs do. As groups they alternate, which says nothing.
    better, worse = [11.0, 22, 33, 44, 55, 66], [12.0, 24, 36, 48, 60, 72]
    same = {("good", "y"): [outcome(better)], ("bad", "y"): [outcome(worse)]}
    assert "bad -3.50 (p 0.0312)" in text_of(results(same))
    other = outcome(worse)
    other.content["resolved"]["setting"] = "dirichlet:alpha=5"
    p = statistics.rank_sum(better, worse).p
    assert p > 0.5 and f"bad -3.50 (p {p:.2f})" in text_of(results({**same, ("bad", "y"): [other]}))


def test_a_claim_is_clear_where_a_test_says_so_after_holms_correction() -> None:
    """Eight silos that all gain, each by another amount: p = 2 / 2^8 < 0.05, times 8 comparisons it is not."""
    ahead = {("good", "x"): [outcome([a + 1 + i / 10 for i, a in enumerate(EIGHT)])], ("bad", "x"): [outcome(EIGHT)]}
    assert "(1 of 1 comparisons that were run, of 2; 1 clearly so, 0 clearly not)" in text_of(results(ahead))
    behind = {("good", "y"): ahead["bad", "x"], ("bad", "y"): ahead["good", "x"]}
    assert "(0 of 1 comparisons that were run, of 2; 0 clearly so, 1 clearly not)" in text_of(results(behind))
    rows: dict[str, dict[str, str]] = {f"good{i}": {} for i in range(8)}
    many = {(row, "x"): ahead["good", "x"] for row in rows} | {("bad", "x"): ahead["bad", "x"]}
    claim = {"text": "all are better", "above": list(rows), "below": ["bad"], "columns": ["x"]}
    told = text_of(results(many, rows={**rows, "bad": {}}, claims=[claim]))
    assert (
        "all are better: **confirmed, but not clearly** (8 of 8 comparisons; too few silos for any to be clear)" in told
    )
    seven = {key: found for key, found in many.items() if key[0] != "good7"}
    told = text_of(results(seven, rows={**rows, "bad": {}}, claims=[claim]))  # 14 / 2^8 = 0.055: still none
    assert "(7 of 7 comparisons that were run, of 8; too few silos for any to be clear)" in told
    six = {key: found for key, found in seven.items() if key[0] != "good6"}
    told = text_of(results(six, rows={**rows, "bad": {}}, claims=[claim]))
    assert "(6 of 6 comparisons that were run, of 8; 6 clearly so, 0 clearly not)" in told


def test_a_claim_says_of_how_many_comparisons_silos_are_too_few() -> None:
    """Ten silos that all gain in one column, four in the other: 2 / 2^10 and 2 / 2^4."""
    of_ten = {("good", "x"): [outcome([90.0] * 10)], ("bad", "x"): [outcome([80.0] * 10)]}
    of_four = {("good", "y"): [outcome([90.0] * 4)], ("bad", "y"): [outcome([80.0] * 4)]}
    told = text_of(results({**of_ten, **of_four}))
    assert "(2 of 2 comparisons; 1 clearly so, 0 clearly not, 1 with too few silos to be clear)" in told
    of_pairs = results({**of_ten, **of_four}, outputs=[{"kind": "wilcoxon"}])
    text = text_of(of_pairs)
    assert "+ 0.0020" in text and "− 0.0020" in text and "+ too few" in text and "− too few" in text
    assert text.endswith("Too few: p is never below 0.125 with so few silos, whatever is seen.")
    (_, line) = tables.make(of_pairs.experiment.outputs[0], of_pairs)[1]
    assert (line["p_holm"], line["least_holm"]) == ("0.125", "0.125")


def test_a_claim_may_ask_for_a_p_value() -> None:
    """Eight silos that all gain: p = 2 / 2^8. Told beside the p-values of all pairs where there is no other table."""
    ahead = {("good", "x"): [outcome([a + 1 + i / 10 for i, a in enumerate(EIGHT)])], ("bad", "x"): [outcome(EIGHT)]}
    claim = {"text": "clearly better", "above": ["good"], "below": ["bad"], "columns": ["x"], "p": 0.01}
    of_pairs = {"outputs": [{"kind": "wilcoxon"}]}
    assert "clearly better: **confirmed** (1 of 1" in text_of(results(ahead, claims=[claim], **of_pairs))
    told = text_of(results(ahead, claims=[{**claim, "p": 0.001}], **of_pairs))
    assert "clearly better: **not confirmed** (0 of 1" in told
    assert "contrary: Good on Data X against bad +1.35 (p 0.0078)" in told


def test_a_margin_is_part_of_the_test() -> None:
    """Every silo loses a little, clearly less than the claim allows."""
    close = {
        ("good", "x"): [outcome([a - 0.1 - i / 100 for i, a in enumerate(EIGHT)])],
        ("bad", "x"): [outcome(EIGHT)],
    }
    claim = {"text": "as good", "above": ["good"], "below": ["bad"], "within": 3.0, "columns": ["x"]}
    assert "as good: **confirmed** (1 of 1 comparisons; 1 clearly so, 0 clearly not)" in text_of(
        results(close, claims=[claim])
    )


def test_a_claim_may_compare_a_row_with_itself_in_another_column() -> None:
    found = {("good", "x"): [outcome([80, 90])], ("good", "y"): [outcome([84, 95])]}
    claim = {"text": "it stays", "above": ["good"], "below": ["good"], "columns": ["x"], "than": "y", "within": 4.0}
    told = text_of(results(found, claims=[claim]))
    assert "it stays: **not confirmed** (0 of 1 comparisons;" in told
    assert "contrary: Good on Data X against Good on y -4.50\n" in told
    assert "it stays: **confirmed, but not clearly**" in text_of(results(found, claims=[{**claim, "within": 5.0}]))


def test_a_claim_may_allow_a_margin() -> None:
    claim = {"text": "as good", "above": ["bad"], "below": ["good"], "within": 12.5}
    outcomes = {("good", "x"): [outcome([90, 94])], ("bad", "x"): [outcome([80, 84])]}
    assert "as good: **confirmed, but not clearly**" in text_of(results(outcomes, claims=[claim]))
    assert "as good: **not confirmed**" in text_of(results(outcomes, claims=[{**claim, "within": 9.0}]))
