"""The report's content, checked as text and as data; how it looks was checked by eye."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import subprocess
import sys
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from amity.contract import InputError, Progress, Round, Score
from amity.record import Record, Recorder, read
from amity.report import compare_table, figures, table, table_width, write_holdings, write_report
from amity.report.table import labels, p_values, rows

EVIL = "<img src=x onerror=alert(1)></script>"
SILOS = ["a", EVIL, "c", 'd"']
GROUPS = [1, 0, 1, 0]


def a_run(
    path: Path,
    method: str,
    right: list[tuple[int, ...]],
    weights: torch.Tensor | None = None,
    *,
    groups: list[int] | None = GROUPS,
    finish: bool = True,
    seed: int = 0,
    metrics: dict[str, float] | None = None,
    val: float | None = None,
) -> Record:
    facts = dict(data="digits", setting=EVIL, model="mlp", clients=4, seed=seed, engine="simulate", version="0.1")
    config = {"rounds": len(right), "method": method, "note": EVIL}
    recorder = Recorder.create(path, config, SILOS, {"method": method, "groups": groups, **facts})
    for number, counts in enumerate(right, start=1):
        scores = [Score(torch.arange(10) < count, 1.0, metrics or {}, val) for count in counts]
        recorder.add(
            Round(
                round=number,
                scores=scores,
                took_part=[0, 1, 2, 3],
                dropped={},
                epochs={},
                bytes_up=1_000_000,
                bytes_down=2_000_000,
                bytes_eval=500_000,
                seconds={"local": 1.0},
                weights=weights,
                progress=Progress(number, {}, []),
                warnings=[],
            )
        )
    if finish:
        recorder.finish((silo, {"w": torch.zeros(1)}) for silo in SILOS)
    return read(path)


def test_long_numbers_are_told_by_their_size() -> None:
    assert [table.number(value, 2) for value in (-12345.678, -1.5e33, None)] == ["-12,345.68", "-1.5e+33", "–"]


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    weights = torch.tensor([[0.9, 0.0, 0.1, 0.0], [float("nan")] * 4, [0.2, 0.1, 0.6, 0.1], [0.0, 0.3, 0.0, 0.7]])
    return [
        a_run(tmp_path / "one", "separate", [(5, 5, 5, 5), (6, 6, 6, 6)]),
        a_run(tmp_path / "two", "fedamp", [(9, 9, 9, 5), (8, 8, 8, 8)], weights),
        a_run(tmp_path / "three", "apple", [(7, 7, 7, 7)], -weights, finish=False),
    ]


class Page(HTMLParser):
    """The elements, the text outside scripts, and the figures of a report."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        self.figures: list[dict[str, Any]] = json.loads(self.scripts[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "script":
            self.scripts.append("")
        for key, value in attrs:
            if key == "id":
                self.ids.append(value or "")
            if key in ("src", "href"):
                self.addresses.append(value or "")
            if key.startswith("on"):
                self.handlers.append(key)

    def handle_data(self, data: str) -> None:
        if self.tags and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += data


def test_p_values_against_the_best_run(tmp_path: Path) -> None:
    """Four silos, all better by different amounts: the exact p of one test is 2 / 2^4, of two after Holm twice that."""
    best = a_run(tmp_path / "best", "apple", [(9, 10, 8, 7)])
    worse = a_run(tmp_path / "worse", "separate", [(8, 8, 5, 3)])
    worst = a_run(tmp_path / "worst", "fedavg", [(5, 8, 7, 1)])
    assert p_values([worse, best]) == [0.125, None]
    assert p_values([worse, best, worst]) == [0.25, None, 0.25]
    assert p_values([best]) is None
    other = a_run(tmp_path / "other", "fedprox", [(5, 8, 7, 1)], seed=1)
    assert p_values([best, other]) is None  # another split of the data


def test_more_metrics_are_shown_where_there_are_some(records: list[Record], tmp_path: Path) -> None:
    assert "More metrics" not in Page(write_report(records, tmp_path / "plain.html")).text
    named = {"balanced_accuracy": 61.234, "auroc": 71.119}
    runs = [a_run(tmp_path / name, name, [(5, 5, 5, 6)], metrics=named, val=33.0) for name in ("apple", "fedavg")]
    text = Page(write_report(runs, tmp_path / "more.html")).text
    for word in ("More metrics", "Balanced accuracy %", "AUROC %", "Validated %", "61.23", "71.12", "52.50", "1.0000"):
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
    assert figures.curves([record])["layout"]["xaxis"]["dtick"] == 1


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


def test_the_heat_map_puts_groups_side_by_side(records: list[Record]) -> None:
    figure = figures.weights(records[1])
    order = [1, 3, 0, 2]
    heat = figure["data"][0]
    assert heat["y"] == [f"{escape(SILOS[silo], quote=False)} (group {GROUPS[silo]})" for silo in order]
    expected = records[1].weights[2][np.ix_(order, order)]
    np.testing.assert_array_equal(np.array(heat["z"], dtype=np.float32), expected)
    assert heat["z"][0] == [None] * 4  # not asked
    assert (heat["zmin"], heat["zmax"]) == (0.0, pytest.approx(0.3))
    borders = {(line["x0"], line["y0"]) for line in figure["layout"]["shapes"]}
    assert borders == {(1.5, -0.5), (-0.5, 1.5)}


def test_the_heat_map_of_signed_weights_is_centred(records: list[Record]) -> None:
    heat = figures.weights(records[2])["data"][0]
    assert heat["zmin"] == -heat["zmax"] == pytest.approx(-0.3)


def test_the_heat_map_without_groups_keeps_the_order(tmp_path: Path) -> None:
    figure = figures.weights(a_run(tmp_path, "fedamp", [(1, 1, 1, 1)], torch.eye(4), groups=None))
    assert figure["data"][0]["x"] == [escape(silo, quote=False) for silo in SILOS]
    assert figure["data"][0]["zmax"] == 1.0 and figure["layout"]["shapes"] == []


def test_rows_by_hand(records: list[Record]) -> None:
    separate, fedamp, apple = rows(records)
    assert (separate.best_mean, separate.spread, separate.block_score, separate.best) == (60.0, 0.0, None, False)
    # The first round has mean 80 as well as the second: it counts, with 90, 90, 90, 50 percent.
    assert (fedamp.best_mean, fedamp.last, fedamp.worst, fedamp.best) == (80.0, 80.0, 50.0, True)
    assert fedamp.spread == pytest.approx(np.sqrt(300))
    # Within: .1, .2, .3; between, without the row that was not asked: 0, 0, .1, .1, 0, 0.
    assert fedamp.block_score == pytest.approx(0.2 / (0.2 / 6))
    assert (fedamp.up, fedamp.down) == (2.0, 4.0)
    assert (apple.best_mean, apple.seconds) == (70.0, 1.0)


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
    assert "fedamp (2 of 400 rounds)" in Page(write_report([whole, half], tmp_path)).text


def test_a_narrow_table_loses_columns_and_no_digits(tmp_path: Path) -> None:
    name = "a method with a name as long as this one"
    runs = [a_run(tmp_path / "x", name, [(1, 1, 1, 1)]), a_run(tmp_path / "y", "fedamp", [(9, 9, 9, 9)])]
    whole = table_width(compare_table(runs))
    for width in range(whole, 20, -1):
        small = compare_table(runs, width)
        headings = [str(column.header) for column in small.columns]
        assert headings[:5] == ["Method", "BMTA %", "Last %", "Worst %", "Spread"]
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
        "BMTA",
        "Last",
        "Worst",
        "Spread",
        "Block",
        "Sec",
        "MB up",
        "MB down",
    ):
        assert any(heading in line for line in lines)


def test_a_run_without_a_round_can_be_shown(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", "fedamp", [], finish=False)
    assert rows([run])[0].best_mean is None
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


MANIFEST = {
    "data": "digits",
    "setting": EVIL,
    "classes": 3,
    "notes": ["class 0 ran out"],
    "sha256": "0123456789abcdef0123",
    "silos": [
        {"name": "a", "group": 0, "train": [4, 0, 1], "val": None, "test": [2, 0, 1]},
        {"name": EVIL, "group": 0, "train": [8, 0, 9], "val": [1, 0, 0], "test": [3, 0, 3]},
        {"name": "c", "group": 1, "train": [0, 25, 0], "val": None, "test": [0, 7, 0]},
    ],
}


def test_the_picture_of_who_holds_what() -> None:
    figure = figures.holdings(MANIFEST)
    (heat,) = figure["data"]
    assert heat["x"] == ["a", escape(EVIL), "c"] and heat["y"] == ["0", "1", "2"]
    assert heat["z"] == [[2.0, 3.0, None], [None, None, 5.0], [1.0, 3.0, None]]  # validation counts as training
    assert heat["customdata"][0] == [[4, 2], [9, 3], [0, 0]]
    assert [line["x0"] for line in figure["layout"]["shapes"]] == [1.5]
    named = figures.holdings({**MANIFEST, "labels": ["cat", "<b>", "ox"]})
    assert named["data"][0]["y"] == ["cat", "&lt;b&gt;", "ox"]
    long = [{**silo, "name": f"University hospital, ward {silo['name'][:1]}"} for silo in MANIFEST["silos"]]
    drawn = figures.holdings({**MANIFEST, "silos": long, "labels": ["cat", "<b>", "an ox of some size"]})
    across, down = drawn["layout"]["xaxis"], drawn["layout"]["yaxis"]
    assert across["tickvals"] == drawn["data"][0]["x"] == [escape(silo["name"]) for silo in long]
    assert across["ticktext"] == ["Universi… ward a", "Universi… ward &lt;", "Universi… ward c"]
    assert down["ticktext"] == ["cat", "&lt;b&gt;", "an ox of…me size"]
    scattered = [{**silo, "group": group} for silo, group in zip(MANIFEST["silos"], (0, 1, 0), strict=True)]
    assert figures.holdings({**MANIFEST, "silos": scattered})["layout"]["shapes"] == []


def test_a_page_of_who_holds_what(tmp_path: Path) -> None:
    page = Page(write_holdings(MANIFEST, tmp_path / "new" / "picture.html"))
    assert [figure["id"] for figure in page.figures] == ["holdings"]
    assert EVIL in page.text and "class 0 ran out" in page.text and "0123456789abcdef" in page.text
    assert "img" not in page.tags and not page.handlers and page.addresses == []


def test_a_report_shows_who_holds_what_once_for_all_who_hold_the_same(records: list[Record], tmp_path: Path) -> None:
    pooled = [{**silo, "train": [0, 0, 0], "val": None} for silo in MANIFEST["silos"]]
    for record, manifest in zip(records, (MANIFEST, MANIFEST, {**MANIFEST, "silos": pooled}), strict=True):
        (record.path / "manifest.json").write_text(json.dumps(manifest))
    alike = Page(write_report([read(record.path) for record in records[:2]], tmp_path / "two.html"))
    assert [figure["id"] for figure in alike.figures if "holdings" in figure["id"]] == ["holdings-0"]
    page = Page(write_report([read(record.path) for record in records], tmp_path / "three.html"))
    assert [figure["id"] for figure in page.figures if "holdings" in figure["id"]] == ["holdings-0", "holdings-1"]
    assert "Who holds what" in page.text and "separate, fedamp" in page.text


def test_infinite_weights_are_blank(tmp_path: Path) -> None:
    weights = torch.eye(4)
    weights[0, 1] = torch.inf
    run = a_run(tmp_path / "run", "fedamp", [(1, 1, 1, 1)], weights, groups=None)
    heat = figures.weights(run)["data"][0]
    assert heat["z"][0][1] is None and heat["zmax"] == 1.0
    write_report([run], tmp_path)


def test_a_picture_needs_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = {
        **dict(data="d", setting="s", classes=1, labels=[], notes=[], sha256="0"),
        "silos": [{"name": "a", "group": None, "train": [1], "val": None, "test": [1]}],
    }
    monkeypatch.chdir(tmp_path)
    for path in (".", tmp_path):
        with pytest.raises(InputError, match="is a directory: give a file"):
            write_holdings(manifest, path)
