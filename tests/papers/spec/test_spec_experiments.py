"""The papers' experiments as files: all there, all readable, and what they claim is what the papers report."""

from __future__ import annotations

import re

import pytest
from papers.papers_files import ALL, paper, runs_of

from amity import methods
from amity.data import SOURCES
from amity.data.settings.registry import resolve
from amity.models import MODELS
from amity.papers import spec

OURS = {"apple-long", "fedamp-long", "heart", "privacy", "resnet18", "worth"}


def test_every_experiment_of_the_papers_is_there_once() -> None:
    ids = [paper(name).id for name in ALL]
    assert len(ids) == len(set(ids))
    assert {f"X{number}" for number in range(1, 25)} | OURS == set(ids)


@pytest.mark.parametrize("size", spec.SIZES)
@pytest.mark.parametrize("name", ALL)
def test_every_run_can_be_built(name: str, size: str) -> None:
    experiment = paper(name)
    if experiment.rows(size):
        assert experiment.note(size)
    for cell, run in runs_of(name, size):
        methods.build(run.method, run.settings)
        resolve(run.setting, run.data)
        assert run.data in SOURCES
        assert run.model in MODELS
        if size == "quick":
            assert run.clients == "auto" or run.clients <= 20
            assert run.rounds <= 3
        if size != "paper":
            assert run.data != "pathmnist", "is not at hand everywhere"
        assert cell.row in experiment.rows(size)
        assert cell.column in experiment.columns(size)


@pytest.mark.parametrize("size", spec.SIZES)
@pytest.mark.parametrize("name", ALL)
def test_a_note_speaks_of_methods_that_are_run(name: str, size: str) -> None:
    """Files that are like another take its notes over too, where nothing better is said."""
    experiment = spec.read(name)
    rows = experiment.content.get("rows", {})
    for row in (row for row in rows if row not in experiment.rows(size) and "value" not in rows[row]):
        label = re.escape(experiment.label("rows", row))
        assert not re.search(rf"(?<![\w-]){label}(?![\w-])", experiment.note(size)), (row, experiment.note(size))


@pytest.mark.parametrize("name", [name for name in ALL if not name.startswith("own/")])
def test_at_size_quick_a_small_cnn_takes_the_place_of_resnet18_and_the_note_says_so(name: str) -> None:
    experiment = spec.read(name)
    columns = experiment.content.get("columns", {})
    large = [cell for cell in experiment.cells("quick") if columns[cell.column].get("model") == "resnet18"]
    assert all(cell.options["model"] == "cnn-apple" for cell in large)
    assert ("the smaller network of APPLE in place of ResNet18" in experiment.note("quick")) == bool(large)


@pytest.mark.parametrize("name", ALL)
def test_outputs_show_rows_and_columns_that_are_run(name: str) -> None:
    experiment = paper(name)
    assert experiment.outputs
    assert len({output.name for output in experiment.outputs}) == len(experiment.outputs), "they are names of files"
    for output in experiment.outputs:
        assert set(output.rows) <= set(experiment.rows("paper"))
        assert set(output.columns) <= set(experiment.columns("paper"))


@pytest.mark.parametrize("name", ["fedamp/table1", "fedamp/table2", "fedamp/table3", "apple/table1", "apple/table2"])
def test_the_papers_numbers_stand_beside_all_the_papers_methods(name: str) -> None:
    experiment = paper(name)
    ours = {"ditto", "pfedme", "pfedatt", "fedacs", "twin", "pooled"}
    for row in set(experiment.rows("paper")) - ours:
        for column in experiment.columns("paper"):
            assert isinstance(experiment.reported(row, column), float)


@pytest.mark.parametrize("name", ["apple/figure4", "apple/figure5"])
@pytest.mark.parametrize("size", spec.SIZES)
def test_figures_of_formulas_and_of_data_run_nothing(name: str, size: str) -> None:
    assert paper(name).cells(size) == []


def test_the_figure_of_the_data_shows_both_settings() -> None:
    columns = paper("apple/figure5").columns("quick")
    assert {column.partition("-")[0] for column in columns} == {"pathological", "practical"}


@pytest.mark.parametrize("size", spec.SIZES)
def test_columns_without_rows_say_how_data_are_dealt(size: str) -> None:
    figure, table = paper("apple/figure5"), paper("apple/table1")
    for column in figure.columns(size):
        run = figure.run_for_data(size, column)
        trained = table.cell(size, "separate", column)
        given = trained.run(0, trained.choice.values[0] if trained.choice else None)
        assert run.per_silo == 0
        assert (run.data, run.setting, run.clients) == (given.data, given.setting, given.clients)


@pytest.mark.parametrize("name", ALL)
def test_what_is_said_to_be_a_papers_claim_holds_for_the_papers_own_numbers(name: str) -> None:
    experiment = spec.read(name)

    def reported(row: str, column: str) -> float | None:
        value = experiment.reported(row, column)
        return None if value is None else float(str(value).partition("±")[0])

    for claim in experiment.claims:
        for column in claim.columns or experiment.content["columns"]:
            for above, below in ((a, b) for a in claim.above for b in claim.below):
                better, worse = reported(above, column), reported(below, claim.than or column)
                if better is not None and worse is not None:
                    assert better - worse > -claim.within, (claim.text, above, below, column)
