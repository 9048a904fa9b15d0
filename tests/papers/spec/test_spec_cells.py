"""The tables of a file, merged into the options of runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from papers.toml_files import small, written

from amity.config.run import Run
from amity.papers import spec


def test_later_tables_win(tmp_path: Path) -> None:
    levels = [
        ("[run]", "epochs = 1"),
        ("[columns.iid]", "epochs = 2"),
        ("[rows.fedamp]", "epochs = 3"),
        ("[cells.fedamp.iid]", "epochs = 4"),
        ("[sizes.quick]", "epochs = 5"),
        ("[sizes.quick.in.iid]", "epochs = 6"),
        ("[sizes.quick.of.fedamp]", "epochs = 7"),
        ("[sizes.quick.of.fedamp.in.iid]", "epochs = 8"),
    ]
    text = 'id = "T"\ntitle = "t"\npaper = "p"\n[columns.other]\n[rows.other]\nmethod = "fedavg"\n'
    files = {f"upto{count}": text + "\n".join(f"{a}\n{b}" for a, b in levels[:count]) for count in range(4, 9)}
    empty = "\n[sizes.quick]\n"
    files["upto4"] += empty
    root = written(tmp_path, **files)
    for count in range(4, 9):
        experiment = spec.read(f"paper/upto{count}", root)
        assert experiment.cell("quick", "fedamp", "iid").run(0).epochs == count
    last = spec.read("paper/upto8", root)
    assert last.cell("quick", "other", "iid").run(0).epochs == 6
    assert last.cell("quick", "fedamp", "other").run(0).epochs == 7
    assert last.cell("quick", "other", "other").run(0).epochs == 5


def test_a_methods_options_add_up(tmp_path: Path) -> None:
    experiment = small(tmp_path)
    assert experiment.cell("quick", "fedamp", "groups").run(0).settings == {"sigma": 5.0, "self_weight": "group"}
    assert experiment.cell("quick", "fedamp", "iid").run(0).settings == {"sigma": 5.0}
    assert experiment.cell("quick", "fedavg", "iid").run(4) == Run(
        method="fedavg", data="digits", setting="iid", clients=5, rounds=3, seed=4
    )


def test_what_the_paper_reports(tmp_path: Path) -> None:
    experiment = small(tmp_path)
    assert experiment.reported("fedavg", "iid") == 90.5
    assert experiment.reported("fedavg", "groups") == "80 ± 1"
    assert experiment.reported("fedamp", "iid") is None


def test_a_choice_has_short_trials_on_validation_data(tmp_path: Path) -> None:
    more = "\n[sizes.quick.of.fedamp]\nchoose_rounds = 1\nchoose.set.sigma = [1.0, 10.0]\n"
    cell = small(tmp_path, more).cell("quick", "fedamp", "iid")
    trials = cell.trials()
    assert [value for value, _ in trials] == [1.0, 10.0]
    assert [run.settings["sigma"] for _, run in trials] == [1.0, 10.0]
    assert all(run.rounds == 1 and run.val_fraction == spec.VALIDATION_SHARE for _, run in trials)
    assert cell.run(0, 10.0) == replace(trials[1][1], rounds=3, val_fraction="auto")


def test_an_empty_choice_is_none(tmp_path: Path) -> None:
    fixed = "\n[rows.apfl]\nchoose.lr = [0.1, 0.01]\n[sizes.cpu]\nchoose = {}\nlr = 0.5\n"
    experiment = small(tmp_path, fixed)
    assert experiment.cell("cpu", "apfl", "iid").choice is None
    assert experiment.cell("cpu", "apfl", "iid").run(0).lr == 0.5
    assert experiment.cell("quick", "apfl", "iid").choice == spec.Choice("lr", (0.1, 0.01), 3)
