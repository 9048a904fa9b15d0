"""The look of figures: a pen for every method, and settings that are the same on every machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from papers.drawing import COLUMNS, ROWS
from papers.synthetic import results

from amity.papers.figures import draw, style
from amity.papers.spec import Output


def test_a_method_has_the_same_pen_everywhere() -> None:
    assert style.pens(["fedamp", "mine", "fedavg"])["fedamp"] == style.pens(["other", "x", "fedamp"])["fedamp"]


def test_every_method_has_a_pen_of_its_own() -> None:
    from amity.methods import METHODS

    assert set(METHODS) <= set(style._PLACES)
    pens = style.pens(METHODS)
    assert len({(pen.marker, pen.dash) for pen in pens.values()}) == len(METHODS)


@given(st.lists(st.sampled_from([*style._PLACES[:6], *"abcdefghijklmnopqrstuvwxyz"]), unique=True))
def test_pens_differ_also_in_grey(names: list[str]) -> None:
    pens = style.pens(names)
    assert list(pens) == names
    assert len({(pen.marker, pen.dash) for pen in pens.values()}) == len(names)


def test_settings_of_the_user_neither_change_the_figures_nor_are_changed(tmp_path: Path) -> None:
    import matplotlib

    found = results(tmp_path, ROWS, COLUMNS)
    plain = draw(Output("curves", "it"), found, tmp_path / "a")
    with matplotlib.rc_context({"axes.facecolor": "yellow", "font.size": 30}):
        odd = draw(Output("curves", "it"), found, tmp_path / "b")
        assert matplotlib.rcParams["font.size"] == 30
    assert [path.read_bytes() for path in plain] == [path.read_bytes() for path in odd]


def test_without_matplotlib_everything_but_drawing_works(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["matplotlib"] = None
from pathlib import Path
from amity.errors import InputError
from amity.papers.figures import draw
from amity.papers.results import Results
from amity.papers.spec import Experiment, Output
plan = Experiment("a/b", {{"rows": {{}}, "columns": {{}}, "sizes": {{"cpu": {{}}}}}})
try:
    draw(Output("curves", "it"), Results(plan, "cpu", {{}}, {{}}), Path({str(tmp_path / "out")!r}))
except InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "figures need matplotlib, which is not there: pip install 'amity[figures]'\n", done.stderr
    assert not (tmp_path / "out").exists()
