"""Some of an experiment's rows and columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from papers.papers_files import paper
from papers.toml_files import like, small

from amity.errors import InputError
from amity.papers import spec


def test_only_some_rows_and_columns(tmp_path: Path) -> None:
    two = like(tmp_path, 'only_rows = ["fedamp"]\nonly_columns = ["groups"]\n[sizes.paper]\ncolumns = ["iid"]\n')
    assert [(cell.row, cell.column) for cell in two.cells("quick")] == [("fedamp", "groups")]
    assert two.cells("paper") == []


def test_some_rows_by_name(tmp_path: Path) -> None:
    experiment = spec.only(small(tmp_path), ["fedamp"], [])
    assert experiment.rows("paper") == ["fedamp"]
    assert experiment.columns("paper") == ["iid", "groups"]
    with pytest.raises(InputError, match="unknown row of paper/one: 'fedap'"):
        spec.only(experiment, ["fedap"], [])


def test_what_a_size_does_not_run_cannot_be_asked_for(tmp_path: Path) -> None:
    experiment = small(tmp_path, 'rows = ["fedavg"]\n')
    assert spec.only(experiment, ["fedamp"], [], size="quick").rows("quick") == ["fedamp"]
    assert spec.only(experiment, ["fedavg"], ["iid"], size="paper").cells("paper") != []
    told = "size paper of paper/one does not run fedamp, it runs fedavg: choose among these or another size"
    with pytest.raises(InputError, match=told):
        spec.only(experiment, ["fedamp"], [], size="paper")
    with pytest.raises(InputError, match="unknown size of paper/one: 'cpu'"):
        spec.only(experiment, [], [], size="cpu")


def test_rows_of_an_experiment_without_rows() -> None:
    with pytest.raises(InputError, match="apple/figure5 has no rows, got 'apple': leave rows out"):
        spec.only(paper("apple/figure5"), ["apple"], [])


def test_a_row_that_was_left_out_cannot_be_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown row of paper/two: 'fedavg'"):
        spec.only(like(tmp_path, 'only_rows = ["fedamp"]\n'), ["fedavg"], [])
