"""P-values between all pairs of rows."""

from __future__ import annotations

import pytest
from papers.made_up import EIGHT, outcome, results, text_of

from amity.papers import tables


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
    (line,) = tables.make(dealt.experiment.outputs[0], dealt)[1]
    assert float(line["p"]) == 2 / 2**4 and float(line["mean_difference"]) == 2.5


def test_rows_with_other_silos_are_never_tested_in_pairs() -> None:
    """Other settings, and other numbers of silos: the test of two groups is told of."""
    other = outcome([12.0, 24, 36, 48])
    other.content["resolved"]["clients"] = 4
    both = {("good", "y"): [outcome([11.0, 22, 33])], ("bad", "y"): [other]}
    which = results(both, outputs=[{"kind": "table"}, {"kind": "wilcoxon"}])
    assert "contrary: Good on y against bad -8.00" in text_of(which)
    parts, (line,) = tables.make(which.experiment.outputs[1], which)
    from scipy.stats import mannwhitneyu

    assert float(line["p"]) == pytest.approx(mannwhitneyu([11, 22, 33], [12, 24, 36, 48]).pvalue, rel=1e-2)
    assert "Mann and Whitney" in parts[1]


def test_p_values_are_those_of_the_paired_test_and_silos_pair_within_a_seed() -> None:
    good = [outcome([90, 91, 92, 93, 94]), outcome([70, 71, 72, 73, 74], 1)]
    bad = [outcome([69, 73, 69, 68, 67.5], 1), outcome([80, 82.5, 84, 85.5, 87])]  # seeds in any order
    kinds = [{"kind": "wilcoxon"}]
    which = results({("good", "x"): good, ("bad", "x"): bad}, outputs=kinds)
    (output,) = which.experiment.outputs
    parts, (line,) = tables.make(output, which)
    mine, others = (one.accuracies + two.accuracies for one, two in ((good[0], good[1]), (bad[1], bad[0])))
    pairs = list(zip(mine, others, strict=True))
    from scipy.stats import wilcoxon

    expected = wilcoxon([a - b for a, b in pairs], method="exact").pvalue
    assert float(line["p"]) == pytest.approx(expected, rel=1e-2)
    assert float(line["mean_difference"]) == pytest.approx(sum(a - b for a, b in pairs) / len(pairs), abs=1e-3)
    signs = {text.split("|")[1].strip(): ("+" in text, "−" in text) for text in parts[-1].splitlines()[2:]}
    assert signs == {"Good": (True, False), "bad": (False, True)}


def test_equal_methods_are_told_as_equal() -> None:
    which = results({(row, "x"): [outcome(EIGHT)] for row in ("good", "bad")}, outputs=[{"kind": "wilcoxon"}])
    assert text_of(which).count("= 1.00") == 2
