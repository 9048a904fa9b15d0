"""The papers' experiments as files: all there, all readable, and the same runs shared."""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amity import methods
from amity.config import Run
from amity.data.settings import resolve
from amity.data.sources import SOURCES
from amity.errors import InputError
from amity.experiments import reproduce, spec
from amity.models import MODELS
from amity.options import fields_of

ALL = spec.names()
paper = functools.cache(spec.read)

SMALL = """
id = "T1"
title = "a table"
paper = "a paper"

[run]
data = "digits"
rounds = 3

[columns.iid]
setting = "iid"

[columns.groups]
setting = "practical"

[rows.fedavg]

[rows.fedamp]
set.sigma = 5.0

[cells.fedamp.groups]
set.self_weight = "group"

[paper_values]
fedavg = { iid = 90.5, groups = "80 ± 1" }

[sizes.quick]
clients = 5

[sizes.paper]
clients = 10
"""


def written(root: Path, **files: str) -> Path:
    """A folder of experiments of one paper."""
    (root / "paper").mkdir()
    for name, text in files.items():
        (root / "paper" / f"{name}.toml").write_text(text, encoding="utf-8")
    return root


def small(root: Path, more: str = "", old: str = "", new: str = "") -> spec.Experiment:
    assert old in SMALL
    return spec.read("paper/one", written(root, one=SMALL.replace(old, new) + more if old else SMALL + more))


def runs_of(name: str, size: str) -> Iterator[tuple[spec.Cell, Run]]:
    """Every run of an experiment, those that choose a value too, and each value that may be chosen."""
    for cell in paper(name).cells(size):
        for value in cell.choice.values if cell.choice else (None,):
            for seed in range(cell.seeds):
                yield cell, cell.run(seed, value)
        for _, run in cell.trials():
            yield cell, run


def keys(name: str, size: str, rows: tuple[str, ...] = (), columns: tuple[str, ...] = ()) -> set[str]:
    found = {
        spec.key_of(run)
        for cell, run in runs_of(name, size)
        if (not rows or cell.row in rows) and (not columns or cell.column in columns)
    }
    assert found
    return found


# What is there


def test_every_experiment_of_the_papers_is_there_once() -> None:
    ids = [paper(name).id for name in ALL]
    assert len(ids) == len(set(ids))
    assert {f"X{number}" for number in range(1, 25)} | {"heart", "resnet18"} == set(ids)


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
        run = figure.dealt(size, column)
        trained = table.cell(size, "separate", column)
        given = trained.run(0, trained.choice.values[0] if trained.choice else None)
        assert run.per_silo == 0
        assert (run.data, run.setting, run.clients) == (given.data, given.setting, given.clients)


# What is shared


@pytest.mark.parametrize("size", spec.SIZES)
def test_views_of_the_same_runs_share_them(size: str) -> None:
    table = keys("fedamp/table3", size)
    assert keys("fedamp/figure2", size) == table
    assert keys("fedamp/wilcoxon", size) == table
    assert keys("fedamp/figure4", size) < table
    cells = keys("apple/table1", size)
    assert keys("apple/figure2", size) == cells
    assert keys("apple/figure3", size) < cells
    assert keys("apple/table2", size, ("fedfomo", "apple-0")) < cells


@pytest.mark.parametrize("size", spec.SIZES)
@pytest.mark.parametrize(("ours", "theirs"), [("pfedatt/table3", "fedamp/table3"), ("pfedatt/table2", "fedamp/table1")])
def test_pfedatts_tables_share_what_fedamps_have(ours: str, theirs: str, size: str) -> None:
    both = tuple(row for row in paper(ours).rows(size) if row in paper(theirs).rows(size))
    assert {"fedavg", "apfl"} <= set(both)
    assert keys(ours, size, both) == keys(theirs, size, both)
    if theirs == "fedamp/table3":
        assert {"pfedme", "pfedatt"} <= set(both)


@pytest.mark.parametrize("size", ["quick", "paper"])
def test_the_heatmap_is_of_runs_of_the_table(size: str) -> None:
    assert keys("fedamp/figure3", size) < keys("fedamp/table3", size)


def test_with_nobody_dropped_it_is_the_table() -> None:
    whole = keys("fedamp/dropped", "paper", columns=("fmnist-0",))
    assert whole <= keys("fedamp/table3", "paper", columns=("fmnist",))
    alone = [keys("fedamp/dropped", "paper", ("separate",), (f"emnist-{share}",)) for share in (0, 10, 30, 50)]
    assert alone == [alone[0]] * 4


@pytest.mark.parametrize("size", spec.SIZES)
def test_fedacs_tables_share_their_runs(size: str) -> None:
    both = ("separate", "ditto", "perfedavg")
    column = ("fmnist",)
    assert keys("fedacs/table1", size, both, column) == keys("fedacs/figure1b", size, both, column)
    (chooses,) = (
        cell for cell in paper("fedacs/figure1b").cells(size) if (cell.row, cell.column) == ("fedacs", "fmnist")
    )
    (fixed,) = (
        cell for cell in paper("fedacs/table2").cells(size) if (cell.row, cell.column) == ("alpha-0.5", "fmnist")
    )
    p = fixed.run(0).settings["p"]
    assert keys("fedacs/table2", size, ("alpha-0.5",), column) == {
        spec.key_of(chooses.run(seed, p)) for seed in range(chooses.seeds)
    }


def test_the_p_of_fedacs_sweep_is_the_one_that_was_chosen() -> None:
    found = reproduce.recorded(paper("fedacs/figure1b"), "cpu", Path(__file__).parents[2] / "experiments" / "results")
    sweep = paper("fedacs/table2").cells("cpu")
    assert {cell.run(0).settings["p"] for cell in sweep} == {found.chosen["fedacs", "fmnist"]}


# What a run is called


RUN = Run(method="fedamp", data="mnist", setting="iid", settings={"sigma": 2.0})

FREE: Mapping[str, Any] = {
    "workers": 7,
    "engine": "loop",
    "ray_address": "auto",
    "matrix_dir": "elsewhere",
    "device": "cuda",
    "checkpoint_every": 3,
}

OTHER: Mapping[str, Any] = {
    "method": "heurfedamp",
    "data": "fmnist",
    "setting": "practical",
    "clients": 7,
    "per_silo": 9,
    "test_fraction": 0.3,
    "model": "mlp",
    "rounds": 77,
    "epochs": 7,
    "batch": 7,
    "lr": 0.7,
    "lr_decay": 0.7,
    "optimizer": "sgd",
    "val_fraction": 0.3,
    "init_from": "file",
    "seed": 7,
    "participation": 0.5,
    "drop": 0.5,
    "drop_phase": "after",
    "local_epochs_range": "1:7",
    "evaluate_every": 7,
    "train_loss": True,
    "labels": "classes",
}


@pytest.mark.parametrize("option", FREE)
def test_what_does_not_change_the_outcome_does_not_change_the_name(option: str) -> None:
    assert spec.key_of(replace(RUN, **{option: FREE[option]})) == spec.key_of(RUN)


@pytest.mark.parametrize("option", [option for option in OTHER if option in fields_of(Run)])
def test_what_changes_the_outcome_changes_the_name(option: str) -> None:
    assert spec.key_of(replace(RUN, **{option: OTHER[option]})) != spec.key_of(RUN)


def test_every_option_of_a_run_is_of_one_kind_or_the_other() -> None:
    assert set(fields_of(Run)) <= set(FREE) | set(OTHER)


def test_a_methods_options_change_the_name_whatever_their_order() -> None:
    both = replace(RUN, settings={"sigma": 2.0, "start": "own"})
    assert spec.key_of(both) != spec.key_of(RUN)
    assert spec.key_of(both) == spec.key_of(replace(RUN, settings={"start": "own", "sigma": 2.0}))
    assert spec.key_of(replace(RUN, settings={"sigma": 3.0})) != spec.key_of(RUN)


def test_the_name_says_what_it_is() -> None:
    assert spec.key_of(RUN).startswith("mnist-iid-fedamp-")
    assert spec.key_of(replace(RUN, setting="dirichlet:alpha=0.1")).startswith("mnist-dirichlet-fedamp-")


# How tables come together


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
    assert all(run.rounds == 1 and run.val_fraction == spec.VALIDATION for _, run in trials)
    assert cell.run(0, 10.0) == replace(trials[1][1], rounds=3, val_fraction="auto")


def test_an_empty_choice_is_none(tmp_path: Path) -> None:
    fixed = "\n[rows.apfl]\nchoose.lr = [0.1, 0.01]\n[sizes.cpu]\nchoose = {}\nlr = 0.5\n"
    experiment = small(tmp_path, fixed)
    assert experiment.cell("cpu", "apfl", "iid").choice is None
    assert experiment.cell("cpu", "apfl", "iid").run(0).lr == 0.5
    assert experiment.cell("quick", "apfl", "iid").choice == spec.Choice("lr", (0.1, 0.01), 3)


LIKE = 'id = "T2"\nlike = "paper/one"\n'


def like(root: Path, text: str) -> spec.Experiment:
    return spec.read("paper/two", written(root, one=SMALL, two=LIKE + text))


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


# What is refused, in one line

CLAIM = "[[claims]]\ntext = 'better'"
ABOVE = f"{CLAIM}\nabove = ['fedavg']\nbelow = ['fedamp']"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("nonsense = 1", "unknown option in paper/one, sizes.paper: 'nonsense'"),
        ("rows = ['fedavgg']", "unknown row of paper/one, size paper: 'fedavgg'"),
        ("columns = ['iidd']", "unknown column of paper/one, size paper: 'iidd'"),
        ("[sizes.paper.of.fedavgg]", "unknown row of paper/one, size paper: 'fedavgg'"),
        ("[sizes.paper.in.iidd]", "unknown column of paper/one, size paper: 'iidd'"),
        ("[sizes.paper.of.fedavg.in.iidd]", "unknown column of paper/one, size paper: 'iidd'"),
        ("[sizes.paper.of.fedavg.in.iid]\nnonsense = 1", "unknown option in paper/one, sizes.paper.of.fedavg.in.iid:"),
        ("[sizes.papers]", "unknown size of paper/one: 'papers'"),
        ("rounds = 0", "rounds"),
        ("epochs = 'many'", "epochs"),
        ("[[outputs]]\nkind = 'tables'", "unknown kind of output in paper/one: 'tables'"),
        ("[paper_values.fedamp]\nelsewhere = 1.0", "paper value for fedamp in elsewhere"),
        ("choose.lr = [0.1]\nchoose.batch = [1]", "choose takes one option, got lr, batch"),
        ("choose.set.sigma = [0.1]\nchoose.set.p = [1]", "choose takes one option, got set.sigma, set.p"),
        ("rounds = ", "cannot be read"),
        # of the wrong type
        ("columns = [['iid']]", "sizes.paper.columns to be a list of names, got [['iid']]"),
        ("columns = [5]", "sizes.paper.columns to be a list of names, got [5]"),
        ("rows = 'fedavg'", "sizes.paper.rows to be a list of names, got 'fedavg'"),
        ("choose.lr = 0.05", "sizes.paper.choose.lr to be a list of values to choose from, got 0.05"),
        ("choose.lr = []", "sizes.paper.choose.lr to be a list of values to choose from, got []"),
        ("choose.lr = ['fast']", "lr to be a number > 0 or one of auto, got 'fast'"),
        ("choose.set = 5", "sizes.paper.choose.set to be a table, got 5"),
        ("choose.set.sigma = [1979-05-27]", "every value of sizes.paper.choose.set.sigma to be text, a number"),
        ("set.sigma = 1979-05-27", "sizes.paper.set.sigma to be text, a number, true or false"),
        ("choose_rounds = 'many'", "choose_rounds to be a whole number above 0, got 'many'"),
        ("choose_rounds = 1.7", "choose_rounds to be a whole number above 0, got 1.7"),
        ("[[outputs]]\nkind = ['table']", "kind in [[outputs]] to be text, got ['table']"),
        ("[[outputs]]\nkind = 'table'\nrows = 5", "rows in [[outputs]] to be a list of names, got 5"),
        ("[[outputs]]\nkind = 'worth'\nwithout = 'fedavg'", "without in [[outputs]] to be a list of names"),
        (f"{CLAIM}\nabove = 5\nbelow = ['fedamp']", "above in [[claims]] to be a list of names, got 5"),
        (f"{ABOVE}\ncolumns = 3", "columns in [[claims]] to be a list of names, got 3"),
        (f"{ABOVE}\nwithin = 'much'", "within in [[claims]] to be a number, got 'much'"),
        (f"{ABOVE}\np = 'small'", "p in [[claims]] to be a number, got 'small'"),
        (f"{ABOVE}\nwithin = true", "within in [[claims]] to be a number, got True"),
        ("[paper_values.fedamp]\niid = [1, 2]", "paper_values.fedamp.iid to be a number or text, got [1, 2]"),
        ("[paper_values.fedamp]\niid = {b = 1}", "paper_values.fedamp.iid to be a number or text, got {'b': 1}"),
        ("[paper_values.fedamp]\niid = true", "paper_values.fedamp.iid to be a number or text, got True"),
        # where it does not belong
        ("[rows.apfl]\nnote = 'slow'", "unknown option in paper/one, rows.apfl: 'note'"),
        ("[rows.apfl]\nin.iid.epochs = 1", "unknown option in paper/one, rows.apfl: 'in'"),
        ("[rows.apfl]\nrows = []", "unknown option in paper/one, rows.apfl: 'rows'"),
        ("[cells.fedamp.iid]\nlabel = 'A'", "unknown option in paper/one, cells.fedamp.iid: 'label'"),
        ("[sizes.paper.in.iid]\nnote = 'slow'", "unknown option in paper/one, sizes.paper.in.iid: 'note'"),
        ("[sizes.paper.of.fedamp]\nnote = 'slow'", "unknown option in paper/one, sizes.paper.of.fedamp: 'note'"),
        ("[rows.apfl]\nseed = 7", "got seed in rows.apfl: say how many, seeds = 3"),
        ("choose.seed = [1]", "got seed in sizes.paper: say how many, seeds = 3"),
        ("choose.bogus = [1]", "unknown option to choose in paper/one, sizes.paper: 'bogus'"),
        ("[cells.nobody.iid]", "unknown row of cells in paper/one: 'nobody'"),
        ("[cells.fedamp.zzz]", "unknown column of cells in paper/one: 'zzz'"),
        ("[[outputs]]\nkind = 'table'\nrows = ['nobody']", "unknown row of an output in paper/one: 'nobody'"),
        ("[[outputs]]\nkind = 'table'\ncolumns = ['zzz']", "unknown column of an output in paper/one: 'zzz'"),
        ("[[outputs]]\nkind = 'gains'\nagainst = 'nobody'", "unknown row of an output in paper/one: 'nobody'"),
        ("[[outputs]]\nkind = 'worth'\nwithout = ['nobody']", "unknown row of an output in paper/one: 'nobody'"),
        ("[[outputs]]\nkind = 'curves'\nby_row = 1", "unknown key of the output one-curves in paper/one: 'by_row'"),
        ("[[outputs]]\nkind = 'table'\ny = 'loss'", "unknown key of the output one in paper/one: 'y'"),
        ("[[outputs]]\nkind = 'table'\nname = '../../../escape'", "to be a plain file name"),
        ("[[outputs]]\nkind = 'table'\nname = ''", "to be a plain file name"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        small(tmp_path, more)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense = 1", "unknown key in"),
        ("only_rows = ['fedap']", "unknown row of paper/one: 'fedap'"),
        ("only_columns = ['idd']", "unknown column of paper/one: 'idd'"),
        ("only_rows = 5", "only_rows to be a list of names, got 5"),
        ("only_columns = [['iid']]", "only_columns to be a list of names, got [['iid']]"),
        ("like = 'paper/one'", "is like paper/one, which is like it"),
        ("like = 'paper/none'", "cannot be read"),
    ],
)
def test_mistakes_at_the_top(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        small(tmp_path, old='paper = "a paper"', new=f'paper = "a paper"\n{line}')
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_circle_of_likes_is_refused(tmp_path: Path) -> None:
    root = written(tmp_path, one='like = "paper/two"', two='like = "paper/three"', three='like = "paper/one"')
    for name in ("one", "two", "three"):
        with pytest.raises(InputError, match="which is like it: leave one `like` out"):
            spec.read(f"paper/{name}", root)


@pytest.mark.parametrize("key", ["id", "title", "paper"])
def test_what_a_reader_needs_must_be_there(tmp_path: Path, key: str) -> None:
    text = "\n".join(line for line in SMALL.splitlines() if not line.startswith(f"{key} ="))
    with pytest.raises(InputError, match=f"needs {key}"):
        spec.read("paper/one", written(tmp_path, one=text))


def test_an_experiment_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown experiment 'paper/on'.*paper/one"):
        spec.read("paper/on", written(tmp_path, one=SMALL))


def test_a_size_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown size of paper/one: 'cpu'"):
        small(tmp_path).cells("cpu")


def test_the_file_that_the_readme_shows_is_one(tmp_path: Path) -> None:
    lines = (Path(__file__).parents[2] / "experiments" / "README.md").read_text(encoding="utf-8").splitlines()
    shown = "\n".join(line.removeprefix("    ") for line in lines if line.startswith("    "))
    (tmp_path / "us").mkdir()
    (tmp_path / "us" / "shown.toml").write_text(shown, encoding="utf-8")
    experiment = spec.read("us/shown", tmp_path)
    cell = experiment.cell("cpu", "fedamp", "fmnist")
    assert cell.seeds == 5 and cell.run(0).epochs == 3 and cell.run(0).settings == {"self_weight": "group", "sigma": 10}
    assert experiment.cell("cpu", "scaffold", "fmnist").choice is not None and experiment.claims


def test_the_options_of_outputs_are_those_that_are_asked_for() -> None:
    here = Path(spec.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in [*here.glob("figures/*.py"), *here.glob("tables/*.py")])
    asked = re.findall(r"""(?:view\.(?:option|one_of|whole)|output\.options\.get)\(\s*"(\w+)\"""", text)
    assert set(asked) == {option for options in spec.OPTIONS.values() for option in options}
    assert set(spec.OPTIONS) <= set(spec.KINDS)


def test_the_readme_names_every_kind_of_output() -> None:
    text = (Path(__file__).parents[2] / "experiments" / "README.md").read_text(encoding="utf-8")
    assert all(f"`{kind}`" in text for kind in spec.KINDS)


@pytest.mark.parametrize("name", spec.names())
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
