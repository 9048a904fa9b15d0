"""The local work behind the numbers: who has trained more, and what it reaches with as much as the others."""

from __future__ import annotations

from papers.round_by_round import plus, results, run

from amity.papers import tables
from amity.papers.spec import Output


def test_a_table_says_who_has_trained_more_and_what_it_reaches_with_as_much() -> None:
    tuned, plain = run([plus(0), plus(2), plus(4)], "fedavg-ft"), run([plus(0), plus(2), plus(3)])
    found = results({"fedavg-ft": tuned, "ditto": run([plus(1)] * 3, "ditto"), "fedamp": plain})
    (output,) = found.experiment.outputs
    (told,) = [part for part in tables.make(output, found)[0] if part.startswith("Local work.")]
    assert (
        "fedavg-ft trains once more before every evaluation, at every silo, also at one that dropped out of the round."
        in told
    )
    assert "fedavg-ft 85.50 on X." in told and "In a round: ditto two trainings." in told
    unknown = results({"fedavg-ft": run([plus(0), None, plus(4)], "fedavg-ft"), "fedamp": plain})
    (told,) = [part for part in tables.make(output, unknown)[0] if part.startswith("Local work.")]
    assert told.endswith("The round before the last, with as many trainings as the others had, was not evaluated here.")
    alike = results({"one": run([plus(0)] * 3, "fedavg-ft"), "two": run([plus(0)] * 3, "fedavg-ft")})
    assert not any(part.startswith("Local work.") for part in tables.make(output, alike)[0])


def test_the_table_of_p_values_marks_pairs_of_unequal_work_and_such_as_could_not_be_tested() -> None:
    plain = run([plus(0), plus(2), plus(3)], kept=False)
    tuned = {
        "unequal": run([plus(0), None, plus(4)], "fedavg-ft"),
        "untested": run([plus(0), plus(2), plus(4)], "fedavg-ft", kept=False),
    }
    for row, sign, note in (
        ("unequal", "− 0.0078 †", "†: one of the two had"),
        ("untested", "+ –", "–: at equal work means"),
    ):
        found = results({"fedamp": plain, row: tuned[row]})
        parts, (line,) = tables.make(Output("wilcoxon", "it"), found)
        assert "| fedamp " in parts[-2] and f" {sign} " in parts[-2] and parts[-1].startswith(note)
        assert (line["trainings_ahead"], line["p"]) == (("-1", "0.00781") if row == "unequal" else ("0", ""))
