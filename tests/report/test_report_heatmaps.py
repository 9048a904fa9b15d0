"""The report's heat maps: who learns from whom, who holds what."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np
import pytest
import torch
from report.reported_runs import EVIL, GROUPS, MANIFEST, SILOS, Page, a_run

from amity.contract import InputError
from amity.record import Manifest, Record
from amity.record.contents import Holding
from amity.report import heatmaps, write_holdings, write_report


def test_the_heat_map_puts_groups_side_by_side(records: list[Record]) -> None:
    figure = heatmaps.weights(records[1])
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
    heat = heatmaps.weights(records[2])["data"][0]
    assert heat["zmin"] == -heat["zmax"] == pytest.approx(-0.3)


def test_the_heat_map_without_groups_keeps_the_order(tmp_path: Path) -> None:
    figure = heatmaps.weights(a_run(tmp_path, "fedamp", [(1, 1, 1, 1)], torch.eye(4), groups=None))
    assert figure["data"][0]["x"] == [escape(silo, quote=False) for silo in SILOS]
    assert figure["data"][0]["zmax"] == 1.0 and figure["layout"]["shapes"] == []


def test_the_picture_of_who_holds_what() -> None:
    figure = heatmaps.holdings(MANIFEST)
    (heat,) = figure["data"]
    assert heat["x"] == ["a", escape(EVIL), "c"] and heat["y"] == ["0", "1", "2"]
    assert heat["z"] == [[2.0, 3.0, None], [None, None, 5.0], [1.0, 3.0, None]]  # validation counts as training
    assert heat["customdata"][0] == [[4, 2], [9, 3], [0, 0]]
    assert [line["x0"] for line in figure["layout"]["shapes"]] == [1.5]
    named = heatmaps.holdings({**MANIFEST, "labels": ["cat", "<b>", "ox"]})
    assert named["data"][0]["y"] == ["cat", "&lt;b&gt;", "ox"]
    long: list[Holding] = [
        {**silo, "name": f"University hospital, ward {silo['name'][:1]}"} for silo in MANIFEST["silos"]
    ]
    drawn = heatmaps.holdings({**MANIFEST, "silos": long, "labels": ["cat", "<b>", "an ox of some size"]})
    across, down = drawn["layout"]["xaxis"], drawn["layout"]["yaxis"]
    assert across["tickvals"] == drawn["data"][0]["x"] == [escape(silo["name"]) for silo in long]
    assert across["ticktext"] == ["Universi… ward a", "Universi… ward &lt;", "Universi… ward c"]
    assert down["ticktext"] == ["cat", "&lt;b&gt;", "an ox of…me size"]
    scattered: list[Holding] = [
        {**silo, "group": group} for silo, group in zip(MANIFEST["silos"], (0, 1, 0), strict=True)
    ]
    assert heatmaps.holdings({**MANIFEST, "silos": scattered})["layout"]["shapes"] == []


def test_a_page_of_who_holds_what(tmp_path: Path) -> None:
    page = Page(write_holdings(MANIFEST, tmp_path / "new" / "picture.html"))
    assert [figure["id"] for figure in page.figures] == ["holdings"]
    assert EVIL in page.text and "class 0 ran out" in page.text and "0123456789abcdef" in page.text
    assert "img" not in page.tags and not page.handlers and page.addresses == []


def test_a_report_shows_who_holds_what_once_for_all_who_hold_the_same(tmp_path: Path) -> None:
    nothing: list[Holding] = [{**silo, "train": [0, 0, 0], "val": None} for silo in MANIFEST["silos"]]
    pooled: Manifest = {**MANIFEST, "silos": nothing}
    held = {"separate": MANIFEST, "fedamp": MANIFEST, "pooled": pooled}
    records = [a_run(tmp_path / name, name, [(5, 5, 5, 5)], manifest=manifest) for name, manifest in held.items()]
    alike = Page(write_report(records[:2], tmp_path / "two.html"))
    assert [figure["id"] for figure in alike.figures if "holdings" in figure["id"]] == ["holdings-0"]
    page = Page(write_report(records, tmp_path / "three.html"))
    assert [figure["id"] for figure in page.figures if "holdings" in figure["id"]] == ["holdings-0", "holdings-1"]
    assert "Who holds what" in page.text and "separate, fedamp" in page.text


def test_infinite_weights_are_blank(tmp_path: Path) -> None:
    weights = torch.eye(4)
    weights[0, 1] = torch.inf
    run = a_run(tmp_path / "run", "fedamp", [(1, 1, 1, 1)], weights, groups=None)
    heat = heatmaps.weights(run)["data"][0]
    assert heat["z"][0][1] is None and heat["zmax"] == 1.0
    write_report([run], tmp_path)


def test_a_picture_needs_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest: Manifest = {
        "data": "d",
        "setting": "s",
        "classes": 1,
        "labels": [],
        "notes": [],
        "sha256": "0",
        "silos": [{"name": "a", "group": None, "train": [1], "val": None, "test": [1]}],
    }
    monkeypatch.chdir(tmp_path)
    for path in (".", tmp_path):
        with pytest.raises(InputError, match="is a directory: give a file"):
            write_holdings(manifest, path)
