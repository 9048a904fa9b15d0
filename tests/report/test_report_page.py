"""The report as a file: what it holds, that it needs nothing else, and what is refused. test_browser_* look at it."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from report.reported_runs import EVIL, MANIFEST, Page, a_run
from report.views import a_view

from amity.contract import InputError
from amity.record import Manifest, Record
from amity.report import compare_table, write_holdings, write_report
from amity.report.page import asset, assets, linked_page, report_page, write_report_page
from amity.report.table import rows


def test_a_report_of_several_runs(records: list[Record], tmp_path: Path) -> None:
    path = write_report(records, tmp_path / "out" / "report.html")
    assert path == tmp_path / "out" / "report.html"
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    page = Page(path)
    assert [method["method"] for method in page.view["methods"]] == ["separate", "fedamp", "apple"]
    assert [run["weights"] is not None for run in page.view["runs"]] == [False, True, True]


def test_a_report_of_one_run_goes_into_its_directory(records: list[Record]) -> None:
    path = write_report(records[:1], records[0].path)
    assert path == records[0].path / "report.html"
    assert Page(path).view["title"] == "separate"


def test_what_users_name_stays_text(records: list[Record], tmp_path: Path) -> None:
    """No text of the view can end the element that it lies in: it has no `<` there."""
    page = Page(write_report(records, tmp_path / "report.html"))
    assert page.view["silos"][1]["name"] == EVIL
    assert EVIL not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<" not in page.scripts[0] and "img" not in page.tags and not page.handlers
    assert page.tags.count("script") == len(page.scripts) == 2


def test_a_report_needs_nothing_from_elsewhere(records: list[Record], tmp_path: Path) -> None:
    """No address, and a policy under which nothing is loaded and no other script or style counts."""
    path = write_report(records, tmp_path / "report.html")
    page = Page(path)
    assert page.addresses == ["#page"]
    text = path.read_text(encoding="utf-8")
    policy = re.search('content="(default-src[^"]*)"', text)
    assert policy and policy[1].startswith("default-src 'none';") and "unsafe" not in policy[1]
    for tag in ("script", "style"):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert inside is not None
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]


def test_a_report_is_small(tmp_path: Path) -> None:
    """Under 2 MB for twenty silos. Of a hundred silos over ninety rounds, benchmarks/report_page.py has the numbers."""
    path = write_report_page(a_view(20, 30), tmp_path / "report.html")
    assert path.stat().st_size < 2e6


def test_scripts_are_ours_and_put_texts_in_as_text() -> None:
    """Every text goes through text nodes: no script writes markup, evaluates text or asks a network."""
    for name in assets():
        text = asset(name)
        assert len(text.splitlines()) < 300
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "fetch(",
            "http:",
            "url(",
        ):
            assert word not in text.replace('"http://www.w3.org/2000/svg"', ""), name
    assert "</script" not in "".join(asset(name) for name in assets() if name.endswith(".js"))


def test_the_live_page_loads_the_same_files(tmp_path: Path) -> None:
    path = tmp_path / "live.html"
    path.write_text(linked_page("/page", ["/follow.js"]), encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    loaded = re.findall(r'(?:src|href)="(/[^"]*)"', text)
    assert loaded == [*(f"/page/{name}" for name in assets()), "/follow.js"]
    assert "Content-Security-Policy" not in text and '<script type="application/json" id="view"></script>' in text
    with pytest.raises(InputError, match="the page has no file '../document.py'"):
        asset("../document.py")


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
    assert Page(write_report([run], tmp_path)).view["runs"][0]["course"]["rounds"] == []


def test_names_that_no_text_file_can_hold(tmp_path: Path) -> None:
    view = a_view()
    view["silos"][0]["name"] = "caf\udce9"
    path = write_report_page(view, tmp_path / "report.html")
    assert Page(path).view["silos"][0]["name"] == "caf\udce9"


def test_a_page_of_who_holds_what(tmp_path: Path) -> None:
    page = Page(write_holdings(MANIFEST, tmp_path / "new" / "picture.html"))
    assert [silo["name"] for silo in page.view["silos"]] == ["a", EVIL, "c"]
    assert [silo["held"] for silo in page.view["silos"]] == [[4, 0, 1], [9, 0, 9], [0, 25, 0]]  # validation among them
    assert [silo["test"] for silo in page.view["silos"]] == [3, 6, 7]
    assert page.view["notes"] == ["class 0 ran out", "sha256 of the split: 0123456789abcdef"]
    assert page.view["classes"] == ["0", "1", "2"] and page.view["runs"] == []
    assert "img" not in page.tags and not page.handlers


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


def test_importing_the_report_imports_no_plotting() -> None:
    code = (
        "import sys, amity, amity.report, amity.report.figures; "
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


def test_a_page_is_the_same_for_the_same_view() -> None:
    assert report_page(a_view()) == report_page(a_view())
