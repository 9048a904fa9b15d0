"""The command line at its edges: names that no file system takes, who may read a run, what is said or refused."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.commands import TINY, Amity, clinics, lines, refused, summary, with_tiny, worked

from amity import Run, load, own_silos, record, run
from amity.contract import InputError
from amity.record import sharing

LONG = "x" * 300


# Names and depth ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        f"run separate --out {LONG}",
        f"run separate --out here/{LONG}/there",
        f"run separate --out {LONG} --resume",
        f"compare separate fedavg --out {LONG}",
        f"run separate --config {LONG}",
        f"run fedamp --matrix-dir {LONG}",
        f"report {LONG}",
        f"report held --out {LONG}",
    ],
)
def test_a_name_that_no_file_system_takes_is_refused(amity: Amity, words: str, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "held")
    full = words.split() if words.startswith("report") else with_tiny(words)
    refused(amity(*full), "too long")
    assert [file.name for file in tmp_path.iterdir()] == ["held"]


def test_such_a_name_is_refused_in_a_program_too(tmp_path: Path) -> None:
    asked = Run("separate", data="synthetic", setting="iid", clients=2, model="mlr", rounds=1, epochs=1)
    for name in (LONG, "a\0b"):
        with pytest.raises(InputError, match="give another --out"):
            run(asked, out=tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_silo_with_a_long_name_has_files_with_a_short_one(tmp_path: Path) -> None:
    """A hundred letters are allowed, and letters may have four bytes."""
    x, y = load("synthetic").train
    names = ["\N{LINEAR B SYLLABLE B008 A}" * 99 + digit for digit in "12"]
    silos = own_silos({name: (x[:9], y[:9], x[9:18], y[9:18]) for name in names})
    run(Run("separate", rounds=1, epochs=1, model="mlr"), silos, out=tmp_path / "run")
    found = record.read(tmp_path / "run")
    assert list(found.models) == list(found.predictions) == names
    assert max(len(os.fsencode(file.name)) for file in (tmp_path / "run").rglob("*")) < 220


def test_a_directory_that_is_named_after_long_things_has_a_short_name(amity: Amity, tmp_path: Path) -> None:
    clinics(tmp_path / ("ward" * 60))
    words = f"run separate --data folder:{'ward' * 60} --model mlr --rounds 1 --epochs 1 --workers 1"
    worked(amity(*words.split()))
    worked(amity(*words.split(), "--resume"))
    (made,) = (tmp_path / "runs").iterdir()
    assert made.name.startswith("separate-wardward") and len(made.name) < 200


def test_a_configuration_that_is_nested_too_deeply_is_refused(amity: Amity, tmp_path: Path, finished: Path) -> None:
    deep = "a = " + "[" * 2000 + "]" * 2000 + "\n"
    (tmp_path / "deep.toml").write_text(deep)
    refused(amity("run", "separate", "--config", "deep.toml"), "deep.toml", "TOML")
    shutil.copytree(finished, tmp_path / "held")
    (tmp_path / "held" / "config.toml").write_text(deep)
    refused(amity("report", "held"), "config.toml", "TOML")
    refused(amity("run", "--out", "held", "--resume"), "config.toml", "TOML")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "deep.toml").write_text(deep)
    refused(amity("reproduce", "mine/deep", "--from", "."), "deep.toml")


# Who may read it ------------------------------------------------------------------------------------------------


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(path: Path) -> dict[str, set[int]]:
    """The modes of all files, and of all folders, the first among them."""
    found: dict[str, set[int]] = {"files": set(), "folders": set()}
    for item in (path, *path.rglob("*")):
        found["folders" if item.is_dir() else "files"].add(stat.S_IMODE(item.stat().st_mode))
    return found


@pytest.mark.skipif(os.name == "nt", reason="other rights there")
@pytest.mark.parametrize(
    ("mask", "share", "files", "folders"),
    [(0o000, None, 0o600, 0o700), (0o022, "private", 0o600, 0o700), (0o077, "group", 0o660, 0o770)],
)
def test_a_run_is_its_owners_alone_unless_told_otherwise(
    amity: Amity,
    tmp_path: Path,
    umask: None,
    monkeypatch: pytest.MonkeyPatch,
    mask: int,
    share: str | None,
    files: int,
    folders: int,
) -> None:
    os.umask(mask)
    monkeypatch.delenv("AMITY_SHARE", raising=False)
    if share is not None:
        monkeypatch.setenv("AMITY_SHARE", share)
    worked(amity("compare", "separate", "fedamp", *TINY, "--out", "here/both"))
    assert modes(tmp_path / "here") == {"files": {files}, "folders": {folders}}
    worked(amity("compare", "separate", "fedamp", "--out", "here/both", "--resume", "--rounds", "3"))
    assert modes(tmp_path / "here") == {"files": {files}, "folders": {folders}}
    worked(amity("report", "here/both", "--out", "made/report.html"))
    assert modes(tmp_path / "made") == {"files": {files}, "folders": {folders}}


@pytest.mark.skipif(os.name == "nt", reason="other rights there")
def test_files_are_private_before_they_have_their_name(tmp_path: Path, umask: None) -> None:
    (tmp_path / ".a.tmp").write_text("left by somebody, for all to read")
    with record.replacing(tmp_path / "a") as temporary:
        temporary.write_text("half")
        assert modes(tmp_path)["files"] == {0o600}


@pytest.mark.skipif(os.name == "nt", reason="other rights there")
def test_a_folder_that_was_there_stays_as_it_is_and_groups_are_inherited(
    tmp_path: Path, umask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMITY_SHARE", "group")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours").chmod(0o2775)
    sharing.make_folder(tmp_path / "ours" / "new")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == 0o2775
    assert stat.S_IMODE((tmp_path / "ours" / "new").stat().st_mode) == 0o2770


def test_a_wish_that_means_nothing_is_refused(amity: Amity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMITY_SHARE", "everybody")
    refused(amity("run", "separate", *TINY, "--out", "a"), "AMITY_SHARE", "private or group", "'everybody'")
    assert not list(tmp_path.iterdir())


# What is said ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run separate", "compare separate fedavg"])
def test_resuming_where_there_is_no_run_begins_one_and_that_is_said(amity: Amity, command: str, tmp_path: Path) -> None:
    """So that a scheduler may always pass --resume."""
    said = amity(*command.split(), *TINY, "--out", "a", "--resume")
    worked(said)
    targets = ["a"] if command.startswith("run") else ["a/separate", "a/fedavg"]
    notes = [line for line in said.err.splitlines() if line.startswith("note: ")]
    assert notes == [f"note: {target} holds no run yet: this one begins at round 1" for target in targets]
    again = amity(*command.split(), *TINY, "--out", "a", "--resume")
    worked(again)
    assert "holds no run yet" not in again.err
    worked(amity(*command.split(), *TINY, "--out", "b"))
    assert [summary(tmp_path / target) for target in targets] == [
        summary(tmp_path / target.replace("a", "b", 1)) for target in targets
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [("--lr 1000", True), ("--lr 0.1", False), ("--optimizer sgd --lr 11", True), ("--optimizer sgd --lr 10", False)],
)
def test_a_rate_that_nothing_learns_with_is_said_at_the_start_and_recorded(
    amity: Amity, words: str, said: bool, tmp_path: Path
) -> None:
    told = amity("run", "separate", *TINY, *words.split(), "--out", "a")
    worked(told)
    rate = words.split()[-1]
    notes = [line for line in told.err.splitlines() if f"lr = {rate} is more than training can use" in line]
    assert len(notes) == int(said)
    recorded = record.read(tmp_path / "a").facts["notes"]
    assert [f"note: {note}" for note in recorded] == notes
    if said:
        assert told.err.splitlines().index(notes[0]) < told.err.splitlines().index(
            next(line for line in told.err.splitlines() if " round 1/" in line)
        )


def test_everybody_cannot_drop_out(amity: Amity, tmp_path: Path) -> None:
    refused(amity("run", "fedavg", *TINY, "--drop", "1", "--out", "a"), "drop", "< 1", "got 1.0")
    worked(amity("run", "fedavg", *TINY, "--drop", "0.99", "--out", "a"))
    assert [len(line["took_part"]) for line in lines(tmp_path / "a")] == [1, 1]
