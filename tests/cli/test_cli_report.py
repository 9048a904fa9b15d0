"""`amity report`: the table and the page of runs, of comparisons and of broken directories."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli.commands import TINY, Amity, refused, tree, worked


@pytest.mark.parametrize(
    "name", ["config.toml", "facts.json", "manifest.json", "rounds.jsonl", "summary.json", "weights.npz"]
)
def test_a_report_of_a_broken_run_is_refused(amity: Amity, name: str, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "held")
    (tmp_path / "held" / name).write_bytes(b"{ broken\n{")
    before = tree(tmp_path)
    refused(amity("report", "held"), "held")
    assert tree(tmp_path) == before


def test_a_table_in_a_file_is_whole(amity: Amity, tmp_path: Path, finished: Path) -> None:
    """Eighty columns are what is taken for a file's width: too few for the table of a run with a long name."""
    names = [f"a-name-of-some-length-{number}" for number in (1, 2)]
    for name in names:
        shutil.copytree(finished, tmp_path / "all" / name)
    said = amity("report", "all")
    worked(said)
    assert "…" not in said.out and "MB down" in said.out and f"pfedatt ({names[1]})" in said.out


def test_a_terminal_without_the_letters_still_shows_the_results(tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "Zürich")
    program = "from amity.cli.app import main; main()"
    command = [sys.executable, "-c", program, "report", "Zürich"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    assert done.returncode == 0, done.stderr
    assert b"pfedatt" in done.stdout and b"report: report.html" in done.stdout


def test_report_of_runs_and_of_a_comparison(amity: Amity, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "one")
    worked(amity("compare", "separate", "fedavg", *TINY, "--out", "both"))
    (tmp_path / "both" / "report.html").unlink()
    before = tree(tmp_path)
    said = amity("report", "one", "both")
    worked(said)
    rows = [line.split()[0] for line in said.out.splitlines() if line.strip()]
    assert {"pfedatt", "separate", "fedavg"} <= set(rows)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(name in text for name in ("pfedatt", "separate", "fedavg"))
    worked(amity("report", "one", "--out", "elsewhere/one.html"))
    assert "separate" not in amity("report", "one").out
    assert tree(tmp_path, but="report.html").keys() == {*before, "elsewhere", "elsewhere/one.html"}
    assert {name: content for name, content in tree(tmp_path).items() if name in before} == before


def test_a_report_with_every_figure_as_a_file(amity: Amity, tmp_path: Path, finished: Path) -> None:
    said = amity("report", finished, "--figures", "pictures")
    worked(said)
    files = {path.name for path in (tmp_path / "pictures").iterdir()}
    for name in (
        "silos",
        "traffic",
        "weights-pfedatt",
        "ties-pfedatt",
        "curves-mean",
        "silo-lines-pfedatt",
        "holdings",
    ):
        assert {f"{name}.csv", f"{name}.png", f"{name}.pdf"} <= files
    assert f"figures: {len(files)} files in pictures" in said.out
    refused(amity("report", finished, "--figures", "report.html"), "figures go into a directory")
    before = tree(tmp_path)
    for bad in ("report.html/inside", "x" * 300, "/proc/figures"):  # below a file, too long, on a system that has none
        refused(amity("report", finished, "--out", "other.html", "--figures", bad), "cannot write figures to")
    assert tree(tmp_path) == before


def test_a_report_writes_over_nobody_elses_file(amity: Amity, tmp_path: Path, finished: Path) -> None:
    (tmp_path / "patients.csv").write_text("age\n71\n")
    before = tree(tmp_path)
    refused(amity("report", finished, "--out", "patients.csv"), "--out must be an html file or a folder, got patients")
    refused(amity("report", finished, "--out", "page"), "--out must be an html file or a folder, got page")
    refused(amity("report", finished, "--json", "patients.csv"), "--json must be a json file, got patients.csv")
    refused(amity("report", finished, "--out", "page.html", "--json", "page.html"), "--json must be a json file")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("json", ["taken", "file/below.json"])
def test_where_a_view_cannot_go_no_page_is_written_either(
    amity: Amity, json: str, tmp_path: Path, finished: Path
) -> None:
    shutil.copytree(finished, tmp_path / "held")
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").write_text("mine")
    before = tree(tmp_path)
    refused(amity("report", "held", "--json", json), "cannot write the view to")
    assert tree(tmp_path) == before
