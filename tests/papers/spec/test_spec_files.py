"""Experiments that are like another one, files that cannot be read, and the file that experiments/README.md shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from papers.toml_files import LIKE, SMALL, like, written

from amity.errors import InputError
from amity.papers import spec


def test_like_takes_over_everything_that_is_not_given(tmp_path: Path) -> None:
    two = like(tmp_path, "")
    one = spec.read("paper/one", tmp_path)
    assert two.id == "T2"
    assert two.title == one.title
    assert two.cells("quick") == one.cells("quick")


def test_like_merges_tables_and_replaces_the_rest(tmp_path: Path) -> None:
    two = like(tmp_path, "[run]\nepochs = 2\n[rows.fedamp]\nset.start = 'own'\n[sizes.quick]\ncolumns = ['iid']\n")
    run = two.cell("quick", "fedamp", "iid").run(0)
    assert (run.epochs, run.rounds, run.clients) == (2, 3, 5)
    assert run.settings == {"sigma": 5.0, "start": "own"}
    assert two.columns("quick") == ["iid"]
    assert two.columns("paper") == ["iid", "groups"]


@pytest.mark.parametrize(
    ("own", "fedavg", "fedamp"),
    [("", 90.5, None), ("paper_values = {}\n", None, None), ("[paper_values]\nfedamp = { iid = 1.0 }\n", None, 1.0)],
)
def test_ones_own_paper_values_replace_all_others(
    tmp_path: Path, own: str, fedavg: float | None, fedamp: float | None
) -> None:
    two = like(tmp_path, own)
    assert (two.reported("fedavg", "iid"), two.reported("fedamp", "iid")) == (fedavg, fedamp)


def test_like_is_followed_through(tmp_path: Path) -> None:
    root = written(tmp_path, one=SMALL, two=LIKE, three='id = "T3"\nlike = "paper/two"\n[run]\nrounds = 9\n')
    assert spec.read("paper/three", root).cell("quick", "fedavg", "iid").run(0).rounds == 9
    assert spec.read("paper/two", root).cell("quick", "fedavg", "iid").run(0).rounds == 3


def test_a_circle_of_likes_is_refused(tmp_path: Path) -> None:
    root = written(tmp_path, one='like = "paper/two"', two='like = "paper/three"', three='like = "paper/one"')
    for name in ("one", "two", "three"):
        with pytest.raises(InputError, match="which is like it: leave one `like` out"):
            spec.read(f"paper/{name}", root)


def test_an_experiment_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown experiment 'paper/on'.*paper/one"):
        spec.read("paper/on", written(tmp_path, one=SMALL))


def test_the_file_that_the_readme_shows_is_one(tmp_path: Path) -> None:
    lines = (Path(__file__).parents[3] / "experiments" / "README.md").read_text(encoding="utf-8").splitlines()
    shown = "\n".join(line.removeprefix("    ") for line in lines if line.startswith("    "))
    (tmp_path / "us").mkdir()
    (tmp_path / "us" / "shown.toml").write_text(shown, encoding="utf-8")
    experiment = spec.read("us/shown", tmp_path)
    cell = experiment.cell("cpu", "fedamp", "fmnist")
    assert cell.seeds == 5 and cell.run(0).epochs == 3 and cell.run(0).settings == {"self_weight": "group", "sigma": 10}
    assert experiment.cell("cpu", "scaffold", "fmnist").choice is not None and experiment.claims


def test_the_readme_names_every_kind_of_output() -> None:
    text = (Path(__file__).parents[3] / "experiments" / "README.md").read_text(encoding="utf-8")
    assert all(f"`{kind}`" in text for kind in spec.KINDS)
