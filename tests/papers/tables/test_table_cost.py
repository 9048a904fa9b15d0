"""Time, memory and traffic."""

from __future__ import annotations

from papers.made_up import SEVERAL, results

from amity.papers import tables


def test_what_runs_need_is_told_as_the_mean_over_seeds_and_the_largest_memory() -> None:
    several = results(dict(SEVERAL.outcomes), outputs=[{"kind": "cost"}])
    (output,) = several.experiment.outputs
    (text, _), lines = tables.make(output, several)
    (line,) = [line for line in text.splitlines() if line.startswith("| Good on Data X ")]
    # Two silos, two rounds, 3 s a run; memory of 2 and 3 GiB; down 6 and 8 GB.
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["Good on Data X", "2", "2", "0.1", "0.0", "3.0", "4.00", "7.00"]
    assert [(line["row"], line["column"]) for line in lines] == [("good", "x"), ("bad", "x"), ("good", "y")]
    assert (lines[0]["seconds"], lines[0]["peak_gib"], lines[0]["bytes_down"]) == ("3", "3", "7e+09")
