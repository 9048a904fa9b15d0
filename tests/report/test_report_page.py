"""The report's content, checked as text and as data; how it looks was checked by eye."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import escape
from pathlib import Path

import pytest
from report.reported_runs import EVIL, Page, a_run

from amity.contract import InputError
from amity.record import Record
from amity.report import compare_table, figures, write_report
from amity.report.series import series_of
from amity.report.table import rows


def test_more_metrics_are_shown_where_there_are_some(records: list[Record], tmp_path: Path) -> None:
    assert "More metrics" not in Page(write_report(records, tmp_path / "plain.html")).text
    named = {"balanced_accuracy": 61.234, "auroc": 71.119}
    runs = [a_run(tmp_path / name, name, [(5, 5, 5, 6)], metrics=named, val=33.0) for name in ("apple", "fedavg")]
    text = Page(write_report(runs, tmp_path / "more.html")).text
    for word in (
        "More metrics",
        "Balanced accuracy %",
        "AUROC %",
        "Delivered %",
        "Last %",
        "61.23",
        "71.12",
        "52.50",
        "too few silos",
    ):
        assert word in text


def test_a_report_of_several_runs(records: list[Record], tmp_path: Path) -> None:
    path = write_report(records, tmp_path / "out" / "report.html")
    assert path == tmp_path / "out" / "report.html"
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    page = Page(path)
    for method in ("separate", "fedamp", "apple"):
        assert page.text.count(method) >= 2  # in the table and beside its configuration
    for word in ("digits", "mlp", "silos", "rounds", "seed", "BMTA"):
        assert word in page.text
    drawn = {figure["id"]: figure for figure in page.figures}
    assert list(drawn) == ["curves", "silos", "weights-1", "weights-2", "traffic"]
    assert set(drawn) <= set(page.ids)
    assert [trace["name"] for trace in drawn["curves"]["data"]] == ["separate", "fedamp", "apple"]


def test_a_report_of_one_run_goes_into_its_directory(records: list[Record]) -> None:
    path = write_report(records[:1], records[0].path)
    assert path == records[0].path / "report.html"
    page = Page(path)
    assert "separate" in page.text
    assert [figure["id"] for figure in page.figures] == ["curves", "silos", "traffic"]
    assert [trace["name"] for trace in page.figures[0]["data"]] == ["separate", "worst silo"]


def test_what_users_name_stays_text(records: list[Record], tmp_path: Path) -> None:
    page = Page(write_report(records, tmp_path / "report.html"))
    assert EVIL in page.text  # shown as it was written
    assert "img" not in page.tags and not page.handlers
    assert page.tags.count("script") == len(page.scripts) == 3
    # Plotly renders tags inside its texts, so they are escaped there as well.
    texts = json.dumps(page.figures)
    assert "<img" not in texts and escape(EVIL)[:20] in texts
    assert "&quot;" not in texts  # which Plotly would show as it stands


@pytest.mark.parametrize("rounds", [1, 3, 10])
def test_few_rounds_have_a_tick_each(rounds: int, tmp_path: Path) -> None:
    """Left to itself Plotly puts ticks at half rounds, which then read 0, 1, 1, 2, 2, 3, 3."""
    record = a_run(tmp_path / "run", "fedavg", [(1, 1, 1, 1)] * rounds)
    assert figures.curves(series_of([record]))["layout"]["xaxis"]["dtick"] == 1


def test_a_report_needs_nothing_from_elsewhere(records: list[Record], tmp_path: Path) -> None:
    page = Page(write_report(records, tmp_path / "report.html"))
    assert page.addresses == []
    assert sum(len(script) > 1_000_000 for script in page.scripts) == 1  # plotly, once
    policy = re.search('content="(default-src[^"]*)"', (tmp_path / "report.html").read_text(encoding="utf-8"))
    assert policy and policy[1].startswith("default-src 'none';")


def test_a_report_that_cannot_be_written_is_refused(records: list[Record], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one run"):
        write_report([], tmp_path / "report.html")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write the report"):
        write_report(records, tmp_path / "file" / "report.html")


def test_a_run_without_a_round_can_be_shown(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", "fedamp", [], finish=False)
    assert rows([run])[0].delivered is None
    assert compare_table([run]).row_count == 1
    assert "fedamp" in Page(write_report([run], tmp_path)).text


def test_importing_the_report_imports_no_plotting() -> None:
    code = (
        "import sys, amity, amity.report; "
        "print([name for name in ('plotly', 'matplotlib', 'pandas', 'scipy') if name in sys.modules])"
    )
    path = [entry for entry in sys.path if entry]
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == "[]"
