"""`amity federation schema`: what is refused before a silo is asked for anything, and what becomes of the agreement."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from cli.commands import Amity, refused, tree, worked

from amity.hub.board import FILE, Phase
from amity.record.files import replace, to_json

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


def came_out(here: Path, phase: Phase, words: str = "", schema: str | None = None) -> None:
    """Put the agreement's end into the hub, as the server leaves it."""
    from amity.hub.runs import run_of

    run = run_of(here / "hub", "sepsis-schema")
    replace(run.folder / FILE, to_json({**run.status, "phase": phase, "words": words}))
    if schema is not None:
        (run.folder / "schema.toml").write_text(schema)


def test_the_schema_is_put_beside_the_run_once_silos_have_agreed(amity: Amity, here: Path) -> None:
    worked(amity("federation", "schema", "RUN.toml", "--hub", "hub", "--detach", "--yes"))
    came_out(here, "failed", "south has declined")
    said = amity("federation", "schema", "RUN.toml", "--hub", "hub", "--yes")
    assert said.code == 2 and said.err == "amity: sepsis-schema is failed: south has declined\n"
    assert not (here / "schema.toml").exists()
    came_out(here, "incomplete", "columns that people have to decide about, in schema.toml: ward", "of ours")
    said = amity("federation", "schema", "RUN.toml", "--hub", "hub", "--yes")
    assert said.code == 2 and "wrote schema.toml: look at it" in said.out
    assert said.err.startswith("amity: columns that people") and "ward: choose a kind for each" in said.err
    (here / "schema.toml").unlink()
    came_out(here, "ended", schema="of ours")
    worked(amity("federation", "schema", "RUN.toml", "--hub", "hub", "--yes"))
    assert (here / "schema.toml").read_text() == "of ours"


def test_a_place_where_no_schema_can_be_written_is_one_line(amity: Amity, here: Path) -> None:
    (here / "RUN.toml").write_text(RUN.replace('"schema.toml"', '"no/such/schema.toml"'))
    worked(amity("federation", "schema", "RUN.toml", "--hub", "hub", "--detach", "--yes"))
    came_out(here, "ended", schema="of ours")
    said = amity("federation", "schema", "RUN.toml", "--hub", "hub", "--yes")
    assert said.code == 2 and "cannot write no/such/schema.toml (No such file or directory)" in said.err
    assert len(said.err.splitlines()) == 1
