"""Outcomes on disk: a file that is damaged, swapped or edited is named in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from papers.small_experiment import command

from amity.errors import InputError
from amity.papers import outcome, reproduce, spec


def test_a_broken_outcome_is_named(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = spec.read("us/small", root).cell("cpu", "separate", "a").run(0)
    path = outcome.path_of(tmp_path / "out", spec.key_of(run))
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert command("reproduce", "us/small", "--from", root, "--out", tmp_path / "out", "--size", "cpu") == 2
    assert str(path.name) in capsys.readouterr().err.replace("\n", "")


@pytest.mark.parametrize("damage", ["{}", "[]", "null", "swapped", "shortened"])
def test_a_record_that_is_not_the_runs_own_is_named(
    damage: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment, out = spec.read("us/small", root), tmp_path / "out"
    runs = [experiment.cell("cpu", row, "a").run(0) for row in ("separate", "heurfedamp")]
    for run in runs:
        reproduce.Runner(out).run(run)
    mine, others = (outcome.path_of(out, spec.key_of(run)) for run in runs)
    if damage == "swapped":
        mine.write_text(others.read_text())
    elif damage == "shortened":
        content = json.loads(mine.read_text())
        del content["best"]
        mine.write_text(json.dumps(content))
    else:
        mine.write_text(damage)
    assert command("reproduce", "us/small", "--from", root, "--out", out, "--size", "cpu", "--no-run") == 2
    (complaint,) = capsys.readouterr().err.strip().splitlines()
    assert mine.name in complaint and "remove it to run" in complaint


@pytest.mark.parametrize(
    "place",
    ["resolved", "notes", "silos", "seconds", "best", "last", "warnings", "rounds", "best accuracy", "rounds mean"],
)
def test_a_record_that_was_edited_by_hand_is_named(
    place: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = spec.read("us/small", root).cell("cpu", "separate", "a").run(0)
    path = reproduce.Runner(tmp_path).run(run).path
    whole = json.loads(path.read_text())
    key, _, inner = place.partition(" ")
    for other in (None, "x", [None, "x"]):
        path.write_text(json.dumps({**whole, key: {**whole[key], inner: other} if inner else other}))
        assert command("reproduce", "us/small", "--from", root, "--out", tmp_path, "--size", "cpu", "--no-run") == 2
        (complaint,) = capsys.readouterr().err.strip().splitlines()
        assert path.name in complaint and f"as {key}: remove it to run" in complaint


def test_weights_that_cannot_be_read_are_named(root: Path, tmp_path: Path) -> None:
    run = spec.read("us/small", root).cell("cpu", "heurfedamp", "a").run(0)
    kept = reproduce.Runner(tmp_path).run(run)
    for content in (b"", b"PK", b"x" * 100):
        kept.path.with_suffix(".npz").write_bytes(content)
        with pytest.raises(InputError, match="remove it and"):
            _ = outcome.Outcome(kept.path, kept.content).weights
