"""The table of methods side by side: its numbers, names and p-values."""

from __future__ import annotations

import dataclasses
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from four_silos import arrays
from report.reported_runs import Page, a_run, labels
from rich.console import Console

import amity
from amity.record import Record, read
from amity.report import compare_table, table, table_width, write_report
from amity.report.table import no_best, p_values, probability, rows
from amity.statistics import RankTest


def test_long_numbers_are_told_by_their_size() -> None:
    assert [table.number(value, 2) for value in (-12345.678, -1.5e33, None)] == ["-12,345.68", "-1.5e+33", "–"]


def test_p_values_against_the_best_run(tmp_path: Path) -> None:
    """Four silos, all better by different amounts: the exact p of one test is 2 / 2^4, of two after Holm twice that.

    Four can have no smaller one, and the report says so. Of eight that all gain the p-value is told."""
    best = a_run(tmp_path / "best", "apple", [(9, 10, 8, 7)])
    worse = a_run(tmp_path / "worse", "separate", [(8, 8, 5, 3)])
    worst = a_run(tmp_path / "worst", "fedavg", [(5, 8, 7, 1)])
    assert p_values([worse, best]) == [(0.125, 0.125, 0), None]
    assert p_values([worse, best, worst]) == [(0.25, 0.25, 0), None, (0.25, 0.25, 0)]
    assert probability(RankTest(0.25, 0.25)) == "too few silos, never below 0.25" and probability(None) == "–"
    assert probability(RankTest(2 / 2**8, 2 / 2**8)) == "0.0078"
    assert p_values([best]) is None
    other = a_run(tmp_path / "other", "fedprox", [(5, 8, 7, 1)], seed=1)
    assert p_values([best, other]) is None  # another split of the data


def test_rows_by_hand(records: list[Record]) -> None:
    separate, fedamp, apple = rows(records)

    def seen(mean: Any) -> Any:
        """A number of one seed: its deviation is not defined."""
        return mean, pytest.approx(math.nan, nan_ok=True)

    assert (separate.delivered, separate.spread, separate.block_score, separate.best) == (
        seen(60),
        seen(0),
        None,
        False,
    )
    # The first round has the best mean on test data, 80 with 90, 90, 90, 50 percent. Delivered is the second, 78.
    assert (fedamp.best_on_test, fedamp.delivered, fedamp.last) == (seen(80), seen(77.5), seen(77.5))
    assert (fedamp.worst, fedamp.spread, fedamp.best) == (seen(70), seen(pytest.approx(np.sqrt(75 / 4))), True)
    # Within: .1, .2, .3; between, without the row that was not asked: 0, 0, .1, .1, 0, 0.
    assert fedamp.block_score == seen(pytest.approx(0.2 / (0.2 / 6)))
    assert (fedamp.up, fedamp.down) == (seen(2), seen(4))
    assert (apple.delivered, apple.seconds) == (seen(70), seen(1))


def test_runs_of_one_method_are_told_apart(tmp_path: Path) -> None:
    first = a_run(tmp_path / "x" / "run", "fedamp", [(1, 1, 1, 1)])
    second = a_run(tmp_path / "y" / "run", "fedamp", [(1, 1, 1, 1)])
    third = a_run(tmp_path / "z", "fedavg", [(1, 1, 1, 1)])
    assert labels([first, second, third]) == ["fedamp (x/run)", "fedamp (y/run)", "fedavg"]
    assert labels([first, third, first]) == ["fedamp (run)", "fedavg", "fedamp (run) #2"]
    of_two = [a_run(tmp_path / folder / "fedamp", "fedamp", [(1, 1, 1, 1)]) for folder in ("one", "two")]
    assert labels(of_two) == ["one/fedamp", "two/fedamp"]
    assert labels([of_two[0], first]) == ["one/fedamp", "fedamp (run)"]


def test_a_run_that_was_stopped_says_so(tmp_path: Path) -> None:
    whole = a_run(tmp_path / "whole", "fedavg", [(1, 1, 1, 1)])
    half = a_run(tmp_path / "half", "fedamp", [(1, 1, 1, 1), (2, 2, 2, 2)])
    half = dataclasses.replace(half, config={**half.config, "rounds": 400})
    assert labels([whole, half]) == ["fedavg", "fedamp (2 of 400 rounds)"]
    assert rows([whole, half])[1].method == "fedamp (2 of 400 rounds)"
    assert "fedamp (2 of 400 rounds)" in Page(write_report([whole, half], tmp_path)).scripts[0]


def test_a_narrow_table_loses_columns_and_no_digits(tmp_path: Path) -> None:
    name = "a method with a name as long as this one"
    runs = [a_run(tmp_path / "x", name, [(1, 1, 1, 1)]), a_run(tmp_path / "y", "fedamp", [(9, 9, 9, 9)])]
    whole = table_width(compare_table(runs))
    for width in range(whole, 20, -1):
        small = compare_table(runs, width)
        headings = [str(column.header) for column in small.columns]
        assert headings[:5] == ["Method", "Delivered %", "Worst %", "Spread", "BMTA %"]
        assert table_width(small) <= width or len(headings) == 5
        console = Console(width=max(width, table_width(small)), record=True, file=io.StringIO())
        console.print(small)
        text = console.export_text()
        assert name in text and "90.00 *" in text and "…" not in text
    assert len(compare_table(runs, whole).columns) == 9 and len(compare_table(runs, whole - 1).columns) == 8


def test_the_table_marks_the_best_and_takes_names_as_text(tmp_path: Path) -> None:
    runs = [
        a_run(tmp_path / "x", "[red]mine[/red]", [(1, 1, 1, 1)]),
        a_run(tmp_path / "y", "fedamp", [(9, 9, 9, 9)]),
    ]
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(compare_table(runs))
    lines = console.export_text().splitlines()
    mine = next(line for line in lines if "[red]mine[/red]" in line)
    best = next(line for line in lines if "fedamp" in line)
    assert "90.00 *" in best and "*" not in mine and "10.00" in mine
    for heading in (
        "Method",
        "Delivered",
        "BMTA",
        "Worst",
        "Spread",
        "Block",
        "Sec",
        "MB up",
        "MB down",
    ):
        assert any(heading in line for line in lines)


def test_runs_on_different_examples_have_no_best(tmp_path: Path) -> None:
    """Not even where the names of all silos are the same: the hash of the test data decides, and not where they lie."""
    silos = {seed: {name: arrays(place + seed) for place, name in enumerate("abc")} for seed in (0, 3)}
    run = amity.Run("separate", rounds=1, epochs=1, model="mlr")
    for name, seed in (("one", 0), ("again", 0), ("other", 3)):
        amity.run(run, amity.own_silos(silos[seed]), out=tmp_path / name)
    one, again, other = (read(tmp_path / name) for name in ("one", "again", "other"))
    assert again.summary is not None
    moved = dataclasses.replace(again, summary={**again.summary, "data": "folder:elsewhere"})
    for alike in ([one, again], [one, moved], [one], []):
        assert no_best(alike) == ""
    assert any(row.best for row in rows([one, moved]))
    assert "not tested on the same examples" in no_best([one, other])
    assert not any(row.best for row in rows([one, other]))
    found = compare_table([one, other])
    assert "none is called the best. Delivered is the mean test accuracy" in str(found.caption)
    page = Page(write_report([one, other], tmp_path / "report.html"))
    assert page.view["why_no_best"] == no_best([one, other]) and not any(m["best"] for m in page.view["methods"])


def test_a_table_says_whose_models_have_trained_more_often(tmp_path: Path) -> None:
    """A fine-tuned model of round k has had k + 1 local trainings: the star may go to it for that alone."""
    silos = amity.own_silos({name: arrays(place) for place, name in enumerate("abc")})
    runs = {name: amity.Run(name, rounds=2, epochs=1, model="mlr") for name in ("fedamp", "fedavg-ft", "fedavg-local")}
    for name, run in runs.items():
        amity.run(run, silos, out=tmp_path / name)
    made = {name: read(tmp_path / name) for name in runs}

    def told(*names: str) -> tuple[str, str]:
        records = [made[name] for name in names]
        page = Page(write_report(records, tmp_path / "report.html"))
        return str(compare_table(records).caption), " ".join(page.view["remarks"])

    for text in told("fedamp", "fedavg-ft"):
        assert "models of fedavg-ft are trained once more before every evaluation" in text
    for names in (("fedamp", "fedavg-local"), ("fedavg-ft",)):
        assert not any("Unequal work" in text for text in told(*names))
