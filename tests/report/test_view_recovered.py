"""The share of the gain recovered and the share of silos harmed in a view, of runs made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from report.reported_runs import a_run

from amity.record import Record
from amity.report.series import series_of
from amity.report.view import view_of
from amity.report.view_worth import worth_of

ALONE, POOLED, OURS = (4, 5, 4, 5), (8, 9, 8, 9), (7, 8, 5, 8)  # of ten right: 4.5, 8.5 and 7 in the mean


def runs(path: Path, *methods: str, ending: str = "auto") -> list[Record]:
    """Return runs of these methods, each with its last round as its ending."""
    right = {"separate": ALONE, "pooled": POOLED, "fedamp": OURS}
    found = []
    for method in methods:
        record = a_run(path / method, method, [right[method]])
        record.config["ending"] = ending
        found.append(record)
    return found


def test_the_share_of_the_gain_by_hand(tmp_path: Path) -> None:
    (view,), _ = worth_of(series_of(runs(tmp_path, "separate", "pooled", "fedamp")))
    assert view["recovered"]["share"] == pytest.approx(100 * (7 - 4.5) / (8.5 - 4.5))
    assert view["recovered"]["ceiling"] == pytest.approx(40)
    assert view["harmed"]["share"] == 0 and view["harmed"]["words"] == "none of 4 silos is better alone"


def test_without_an_ending_the_share_is_undefined_and_the_page_says_why(tmp_path: Path) -> None:
    records = runs(tmp_path, "separate", "pooled", "fedamp", ending="none")
    (view,), _ = worth_of(series_of(records))
    assert view["recovered"]["share"] is None
    assert "fedamp, separate, pooled stopped after the last round" in view["recovered"]["words"]
    page = view_of(records)
    assert any(remark.startswith("Share of the gain undefined: fedamp") for remark in page["remarks"])


def test_the_table_has_a_column_for_either(tmp_path: Path) -> None:
    page = view_of(runs(tmp_path, "separate", "pooled", "fedamp"))
    assert list(page["table"])[:3] == ["delivered", "recovered", "harmed"]
    numbers = {method["name"]: method["numbers"] for method in page["methods"]}
    assert numbers["fedamp"]["recovered"] == {"mean": pytest.approx(62.5), "deviation": None}
    assert numbers["separate"]["recovered"] is None
    assert any("0 % is training alone" in remark for remark in page["remarks"])


def test_without_all_data_in_one_place_only_harm_is_told(tmp_path: Path) -> None:
    page = view_of(runs(tmp_path, "separate", "fedamp"))
    assert "harmed" in page["table"] and "recovered" not in page["table"]
    alone = view_of(runs(tmp_path / "one", "fedamp"))
    assert "harmed" not in alone["table"]
