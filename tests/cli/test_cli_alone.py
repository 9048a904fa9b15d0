"""Every silo also trains alone, unless told not to: where that run lies, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli import commands
from cli.commands import TINY, Amity, config, lines, models, refused, summary, tree, worked

from amity.record import remove_stale_alone
from amity.record.shapes import fits, shape_of
from amity.report.contents import View


def test_a_run_has_every_silo_alone_inside_it(amity: Amity, tmp_path: Path) -> None:
    said = amity("run", "fedamp", *TINY, "--alone", "--out", "both")
    worked(said)
    assert config(tmp_path / "both" / "alone")["method"] == "separate" and (tmp_path / "both" / "report.html").exists()
    content = json.loads((tmp_path / "both" / "results.json").read_text())
    (worth,) = content["worth"]
    assert worth["method"] == "fedamp" and len(worth["silos"]) == 3
    assert worth["words"] in said.out and worth["chance"] in said.out
    assert (
        said.out.index(worth["words"]) < said.out.index("silo-00") < said.out.index("Delivered %")
    )  # the answer first
    assert said.out.startswith(worth["words"]) and said.out.rstrip().splitlines()[-1] == "report: both/report.html"
    rows = [line for line in said.out.splitlines() if line.split()[:1] and line.split()[0].startswith("silo-0")]
    assert len(rows) == 3 and all(verdict["words"] in row for verdict, row in zip(worth["silos"], rows, strict=True))
    # It is the run that one gets by itself.
    worked(amity("run", "separate", *TINY, "--participation", "1", "--out", "own"))
    assert summary(tmp_path / "own") == summary(tmp_path / "both" / "alone")
    assert models(tmp_path / "own") == models(tmp_path / "both" / "alone")
    # The report finds both, and writes all that a page shows.
    worked(amity("report", "both", "--out", "r.html", "--json", "view.json"))
    view = json.loads((tmp_path / "view.json").read_text())
    assert fits(view, shape_of(View)) and [run["folder"] for run in view["runs"]] == ["both", "alone"]
    assert view["worth"] == content["worth"]


def test_it_is_the_default(amity: Amity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "without_alone", list)
    worked(amity("run", "fedavg", *TINY, "--out", "a"))
    worked(amity("compare", "fedavg", "pfedatt", *TINY, "--out", "b"))
    assert (tmp_path / "a" / "alone" / "summary.json").exists()
    assert (tmp_path / "b" / "separate" / "summary.json").exists()


def test_it_can_be_left_out_and_references_need_none(amity: Amity, tmp_path: Path) -> None:
    worked(amity("run", "fedamp", *TINY, "--no-alone", "--out", "a"))
    worked(amity("run", "separate", *TINY, "--alone", "--out", "b"))
    worked(amity("compare", "separate", "fedavg", *TINY, "--alone", "--out", "c"))
    assert not (tmp_path / "a" / "alone").exists() and not (tmp_path / "b" / "alone").exists()
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        *("fedavg", "report.html", "results.json", "separate")
    ]


def test_seeds_lie_side_by_side(amity: Amity, tmp_path: Path) -> None:
    said = amity("run", "fedavg", *TINY, "--alone", "--seeds", "0:2", "--out", "a")
    worked(said)
    assert sorted(path.name for path in (tmp_path / "a" / "alone").iterdir()) == ["seed-0", "seed-1"]
    assert "silos of 2 seeds, each dealt anew" in said.out
    worked(amity("report", "a", "--out", "r.html", "--json", "view.json"))
    view = json.loads((tmp_path / "view.json").read_text())
    assert [(method["name"], method["seeds"]) for method in view["methods"]] == [
        *(("separate", [0, 1]), ("fedavg", [0, 1]))
    ]


def test_it_is_resumed_and_replaced_with_the_run(amity: Amity, tmp_path: Path) -> None:
    worked(amity("run", "fedavg", *TINY, "--no-alone", "--out", "a"))
    before = {name: content for name, content in tree(tmp_path / "a", but="report.html").items() if name[-3:] != ".md"}
    worked(amity("run", "fedavg", *TINY, "--alone", "--out", "a", "--resume"))  # a run of its own begins beside it
    assert "alone" in (tmp_path / "a" / "models" / "silo-00.md").read_text()  # cards alone know of it
    assert before.items() <= tree(tmp_path / "a").items() and len(lines(tmp_path / "a" / "alone")) == 2
    worked(amity("run", "--alone", "--out", "a", "--resume", "--rounds", "3"))
    assert len(lines(tmp_path / "a")) == 3 == len(lines(tmp_path / "a" / "alone"))
    refused(amity("run", "fedavg", *TINY, "--alone", "--out", "a"), "already holds a run")
    worked(amity("run", "fedavg", *TINY, "--alone", "--out", "a", "--force"))
    assert len(lines(tmp_path / "a")) == 2 == len(lines(tmp_path / "a" / "alone"))


def test_a_run_that_is_replaced_without_it_leaves_no_older_one(amity: Amity, tmp_path: Path) -> None:
    """A verdict is never made from a run alone that belongs to another run."""
    worked(amity("run", "fedavg", *TINY, "--alone", "--out", "a"))
    said = amity("run", "fedavg", *TINY, "--no-alone", "--epochs", "1", "--out", "a", "--force")
    worked(said)
    assert not (tmp_path / "a" / "alone").exists() and not (tmp_path / "a" / "results.json").exists()
    assert "a/alone was removed" in said.err
    worked(amity("report", "a", "--out", "r.html", "--json", "view.json"))
    view = json.loads((tmp_path / "view.json").read_text())
    assert view["worth"] == [] and "--no-alone" in view["why_no_worth"]


def test_seeds_that_are_replaced_without_it_leave_none_either(tmp_path: Path) -> None:
    for seed in (0, 1):
        for place in (tmp_path / f"seed-{seed}", tmp_path / "alone" / f"seed-{seed}"):
            place.mkdir(parents=True)
            (place / "config.toml").touch()
    both = [tmp_path / f"seed-{seed}" for seed in (0, 1)]
    assert remove_stale_alone(both[0], [tmp_path / "alone" / "seed-0"]) is None
    assert [remove_stale_alone(path, both) is not None for path in both] == [True, True]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-0", "seed-1"]


def test_a_comparison_refuses_an_older_run_alone_that_would_stay(amity: Amity, tmp_path: Path) -> None:
    worked(amity("run", "separate", *TINY, "--out", "c/separate"))
    before = tree(tmp_path)
    words = "c/separate holds an older run"
    refused(amity("compare", "fedavg", "pfedatt", *TINY, "--no-alone", "--out", "c", "--force"), words)
    assert tree(tmp_path) == before


def test_a_directory_that_is_taken_is_seen_before_anything_begins(amity: Amity, tmp_path: Path) -> None:
    worked(amity("run", "separate", *TINY, "--out", "a/alone"))
    before = tree(tmp_path)
    refused(amity("run", "fedavg", *TINY, "--alone", "--out", "a"), "alone already holds a run")
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fedamp"], ("adam", 0.001, 0.0)),
        (["apple"], ("adam", 0.001, 0.0)),  # `separate` has its own protocol, as in every comparison,
        (["apple", "--lr", "0.05"], ("sgd", 0.05, 0.0)),  # but a rate belongs to the optimiser that it was meant for
        (["fedavg", "--optimizer", "sgd", "--momentum", "0.5"], ("sgd", 0.01, 0.5)),
    ],
)
def test_its_solver(amity: Amity, tmp_path: Path, words: list[str], expected: tuple[str, float, float]) -> None:
    tiny = [word if word != "2" else "1" for word in TINY]
    worked(amity("run", *words, *tiny, "--drop", "0.3", "--alone", "--out", "a"))
    found = config(tmp_path / "a" / "alone")
    assert (found["optimizer"], found["lr"], found["momentum"]) == expected
    assert (found["participation"], found["drop"]) == (1.0, 0.0)
