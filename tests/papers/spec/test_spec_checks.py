"""Mistakes in an experiment's file: each is refused in one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from papers.toml_files import SMALL, small, written

from amity.errors import InputError
from amity.papers import spec

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
        ("[sizes.paper.in.iid]\nlabel = 'A'", "unknown option in paper/one, sizes.paper.in.iid: 'label'"),
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


@pytest.mark.parametrize("key", ["id", "title", "paper"])
def test_what_a_reader_needs_must_be_there(tmp_path: Path, key: str) -> None:
    text = "\n".join(line for line in SMALL.splitlines() if not line.startswith(f"{key} ="))
    with pytest.raises(InputError, match=f"needs {key}"):
        spec.read("paper/one", written(tmp_path, one=text))


def test_a_size_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown size of paper/one: 'cpu'"):
        small(tmp_path).cells("cpu")


def test_the_options_of_outputs_are_those_that_are_asked_for() -> None:
    here = Path(spec.__file__).parents[1]
    text = "".join(path.read_text(encoding="utf-8") for path in [*here.glob("figures/*.py"), *here.glob("tables/*.py")])
    asked = re.findall(r"""(?:view\.(?:option|one_of|whole_number)|output\.options\.get)\(\s*"(\w+)\"""", text)
    assert set(asked) == {option for options in spec.OPTIONS.values() for option in options}
    assert set(spec.OPTIONS) <= set(spec.KINDS)
