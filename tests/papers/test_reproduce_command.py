"""`amity reproduce`: tables beside the papers' numbers, and one line for every mistake."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from papers.small_experiment import SMALL, command
from rich.console import Console

from amity.cli import reproduce as cli_reproduce
from amity.papers import outcome, spec


def test_the_command_writes_the_table_beside_the_papers_numbers(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    some = ("--size", "cpu", "--rows", "separate,heurfedamp")
    assert command("reproduce", "us", "--from", root, "--out", out, *some) == 0
    told = capsys.readouterr().out
    text = (out / "us" / "cpu" / "small.md").read_text()
    assert text.strip() in told
    assert "12.34" in text and "Alone" in text and "alone is better: **" in text
    with (out / "us" / "cpu" / "small.csv").open() as file:
        rows = {row["row"]: row for row in csv.DictReader(file)}
    found = outcome.read(out, spec.read("us/small", root).cell("cpu", "separate", "a").run(0))
    assert found is not None
    assert float(rows["separate"]["bmta"]) == pytest.approx(found.bmta, abs=1e-3)
    assert rows["separate"]["paper"] == "12.34" and rows["heurfedamp"]["paper"] == ""
    assert (out / "us" / "cpu" / "small-wilcoxon.csv").exists()
    assert command("reproduce", "--from", root, "--out", out, "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["name"] == "us/small" and listed["cpu"] == {"runs": 5, "recorded": 2}
    monkeypatch.setattr(cli_reproduce, "out", Console(width=20))
    assert command("reproduce", "--from", root, "--out", out) == 0
    told = capsys.readouterr().out
    assert "us/small" in told and "2/5" in told and "…" not in told
    assert command("reproduce", "us/small", "--from", root, "--out", out, "--json") == 2
    assert capsys.readouterr().err.startswith("amity: --json is for the list")


def test_a_part_that_is_run_does_not_take_the_place_of_the_whole(root: Path, tmp_path: Path) -> None:
    words = ("reproduce", "us/small", "--from", root, "--out", tmp_path / "out", "--size", "cpu", "--rows")
    for row in ("separate", "heurfedamp"):
        assert command(*words, row) == 0
    with (tmp_path / "out" / "us" / "cpu" / "small.csv").open() as file:
        assert [row["row"] for row in csv.DictReader(file)] == ["separate", "heurfedamp"]


def test_no_run_shows_what_is_there(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("reproduce", "us/small", "--from", root, "--out", tmp_path / "out", "--no-run") == 0
    assert not (tmp_path / "out").exists()
    assert "0 of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nobody/nothing"], "unknown experiment 'nobody/nothing'"),
        (["us/small", "--size", "huge"], "unknown size of us/small: 'huge'"),
        (["us/small", "--rows", "nobody"], "unknown row of us/small: 'nobody'"),
        (["us/small", "--columns", "a,,b"], "--columns needs names"),
        (["us/small", "--size", "cpu", "--columns", "b"], "size cpu of us/small does not run b, it runs a"),
    ],
)
def test_mistakes_get_one_line(
    words: list[str], said: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("reproduce", *words, "--from", root, "--out", tmp_path / "out") == 2
    complaint = capsys.readouterr().err.strip().splitlines()[-1]
    assert said in complaint and complaint.startswith("amity: ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('text = "alone is better"\n', "", "text in every"),
        ('[[outputs]]\nkind = "table"', '[[outputs]]\nname = "table"', "kind in every"),
        ('below = ["heurfedamp"]', 'below = []\nmeasure = "width"', "unknown measure of a claim in us/small: 'width'"),
        ('below = ["heurfedamp"]', "below = []\nmeasure = 3", "measure in [[claims]] to be text, got 3"),
        ("seeds = 2", 'seeds = "two"', "seeds to be a whole number above 0, got 'two'"),
        ("[columns.b]\n", "[columns]\nb = 1\n[other.b]\n", "columns"),
        ("[sizes.cpu]\n", "[sizes.cpu]\nof = 3\n", "sizes.cpu.of to be a table"),
        ("rounds = 2", "rounds = -2", "rounds to be a whole number >= 1"),
        ("epochs = 1", "lr = nan", "lr to be a number > 0"),
        ("[rows.heurfedamp]", "[rows.heurfedamp]\nset.sigmo = 1.0", "sigmo"),
        ("batch = 10", "data = 'digitz'", "unknown data set 'digitz'"),
        ("batch = 10", "data = 'folder:nowhere'", "nowhere"),
        ("batch = 10", "setting = 'practicle'", "unknown setting 'practicle'"),
        ("batch = 10", "model = 'mlq'", "unknown model 'mlq'"),
        ("batch = 10", "model = 'cnn-apple'", "cnn-apple needs images"),
        ("choose_rounds = 1", "optimizer = 'adam'", "scaffold needs the optimizer sgd, got adam"),
        ("choose.lr = [1e-7, 0.05]", "choose.set.bogus = [1]", "unknown option of scaffold 'bogus'"),
        ("choose.lr = [1e-7, 0.05]", "method = 'pfedme'\nchoose.lr = [0.01, 1.0]", "pfedme needs lr x attraction < 2"),
    ],
)
def test_a_malformed_experiment_gets_one_line_before_anything_runs(
    old: str, new: str, said: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in SMALL
    (root / "us" / "small.toml").write_text(SMALL.replace(old, new, 1))
    assert command("reproduce", "us/small", "--from", root, "--out", tmp_path / "out") == 2
    complaint = capsys.readouterr().err.strip().splitlines()[-1]
    assert complaint.startswith("amity: ") and said in complaint
    assert not (tmp_path / "out").exists()


def test_what_is_in_the_way_of_results_gets_one_line(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    (out / "us" / "cpu" / "small.md").mkdir(parents=True)
    words = ("us/small", "--from", root, "--out", out, "--size", "cpu", "--rows", "separate")
    assert command("reproduce", *words) == 2
    assert "small.md cannot be written" in capsys.readouterr().err.splitlines()[-1]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "runs").write_text("")
    assert command("reproduce", *words[:4], tmp_path / "other", *words[5:]) == 2
    assert "runs cannot be written" in capsys.readouterr().err.splitlines()[-1]
