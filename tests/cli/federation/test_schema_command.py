"""`amity federation schema`: what is refused before a silo is asked for anything."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from cli.commands import Amity, refused, tree, worked

DESCRIPTION = 'name = "hearts"\norganisation = "University Hospital"\nhost = "hub.example.org"\nport = 8443\n'
RUN = """name = "sepsis"
invited = ["north", "south"]
[run]
method = "fedamp"
[data]
schema = "schema.toml"
label = "ill"
labels = ["no", "yes"]
"""


@pytest.fixture
def here(amity: Amity, tmp_path: Path) -> Path:
    """A folder with a consortium of two silos and the file of a run."""
    (tmp_path / "consortium.toml").write_text(DESCRIPTION)
    worked(amity("federation", "init", "consortium.toml", "--hub", "hub"))
    for name in ("north", "south"):
        worked(amity("federation", "join", name, "--site", name))
        worked(amity("federation", "add", f"{name}/{name}.request", "--hub", "hub"))
    (tmp_path / "RUN.toml").write_text(RUN)
    return tmp_path


def test_what_cannot_be_asked_is_one_line_and_leaves_nothing(amity: Amity, here: Path) -> None:
    cases = {
        RUN.replace('"south"', '"west"'): ("west",),
        RUN.replace('schema = "schema.toml"\n', "shape = [3]\n"): ("schema",),
        RUN.replace('label = "ill"\n', "least_count = 1\n"): ("data.label", "data.least_count"),
        "name = [": ("RUN.toml",),
    }
    for text, words in cases.items():
        (here / "RUN.toml").write_text(text)
        before = tree(here)
        refused(amity("federation", "schema", "RUN.toml", "--hub", "hub", "--yes"), *words)
        assert tree(here) == before
    refused(amity("federation", "schema", "none.toml", "--hub", "hub"), "none.toml")
    refused(amity("federation", "schema", "RUN.toml", "--hub", "north"), "north")


def test_a_schema_that_is_there_is_not_agreed_on_again(amity: Amity, here: Path) -> None:
    (here / "schema.toml").write_text("ours")
    refused(amity("federation", "schema", "RUN.toml", "--hub", "hub", "--yes"), "schema.toml is there already")
    assert (here / "schema.toml").read_text() == "ours"


def test_it_asks_before_it_signs_and_holds_to_what_it_has_signed(
    amity: Amity, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(here)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    asked = amity("federation", "schema", "RUN.toml", "--hub", "hub", "--detach")
    assert asked.code == 1 and "ill" in asked.out and tree(here) == before
    worked(amity("federation", "schema", "RUN.toml", "--hub", "hub", "--detach", "--yes"))
    worked(amity("federation", "schema", "RUN.toml", "--hub", "hub", "--detach", "--yes"))  # the same again
    (here / "RUN.toml").write_text(RUN + "least_count = 20\n")
    refused(amity("federation", "schema", "RUN.toml", "--hub", "hub", "--yes"), "with other words", "rename the run")
