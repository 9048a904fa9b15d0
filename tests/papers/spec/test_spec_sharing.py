"""Experiments of the papers that show the same runs share them."""

from __future__ import annotations

from pathlib import Path

import pytest
from papers.papers_files import keys, paper

from amity.papers import reproduce, spec


@pytest.mark.parametrize("size", spec.SIZES)
def test_views_of_the_same_runs_share_them(size: str) -> None:
    table = keys("fedamp/table3", size)
    assert keys("fedamp/figure2", size) == table
    assert keys("fedamp/wilcoxon", size) == table
    assert keys("fedamp/figure4", size) < table
    cells = keys("apple/table1", size)
    assert keys("apple/figure2", size) == cells
    assert keys("apple/figure3", size) < cells
    assert keys("apple/table2", size, ("fedfomo", "apple-0")) < cells


@pytest.mark.parametrize("size", spec.SIZES)
@pytest.mark.parametrize(("ours", "theirs"), [("pfedatt/table3", "fedamp/table3"), ("pfedatt/table2", "fedamp/table1")])
def test_pfedatts_tables_share_what_fedamps_have(ours: str, theirs: str, size: str) -> None:
    both = tuple(row for row in paper(ours).rows(size) if row in paper(theirs).rows(size))
    assert {"fedavg", "apfl"} <= set(both)
    assert keys(ours, size, both) == keys(theirs, size, both)
    if theirs == "fedamp/table3":
        assert {"pfedme", "pfedatt"} <= set(both)


@pytest.mark.parametrize("size", ["quick", "paper"])
def test_the_heatmap_is_of_runs_of_the_table(size: str) -> None:
    assert keys("fedamp/figure3", size) < keys("fedamp/table3", size)


def test_with_nobody_dropped_it_is_the_table() -> None:
    whole = keys("fedamp/dropped", "paper", columns=("fmnist-0",))
    assert whole <= keys("fedamp/table3", "paper", columns=("fmnist",))
    alone = [keys("fedamp/dropped", "paper", ("separate",), (f"emnist-{share}",)) for share in (0, 10, 30, 50)]
    assert alone == [alone[0]] * 4


@pytest.mark.parametrize("size", spec.SIZES)
def test_fedacs_tables_share_their_runs(size: str) -> None:
    both = ("separate", "ditto", "perfedavg")
    column = ("fmnist",)
    assert keys("fedacs/table1", size, both, column) == keys("fedacs/figure1b", size, both, column)
    (chooses,) = (
        cell for cell in paper("fedacs/figure1b").cells(size) if (cell.row, cell.column) == ("fedacs", "fmnist")
    )
    (fixed,) = (
        cell for cell in paper("fedacs/table2").cells(size) if (cell.row, cell.column) == ("alpha-0.5", "fmnist")
    )
    p = fixed.run(0).settings["p"]
    assert keys("fedacs/table2", size, ("alpha-0.5",), column) == {
        spec.key_of(chooses.run(seed, p)) for seed in range(chooses.seeds)
    }


def test_the_p_of_fedacs_sweep_is_the_one_that_was_chosen() -> None:
    found = reproduce.recorded(paper("fedacs/figure1b"), "cpu", Path(__file__).parents[3] / "experiments" / "results")
    sweep = paper("fedacs/table2").cells("cpu")
    assert {cell.run(0).settings["p"] for cell in sweep} == {found.chosen["fedacs", "fmnist"].value}
