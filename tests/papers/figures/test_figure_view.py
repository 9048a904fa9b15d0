"""The rows and columns that a figure is asked to show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from papers.drawing import COLUMNS, ROWS, panels
from papers.synthetic import results

from amity.errors import InputError
from amity.papers.figures import DRAWINGS, draw, style
from amity.papers.figures.view import View
from amity.papers.spec import Output


def test_an_output_shows_the_rows_and_columns_that_it_names(tmp_path: Path) -> None:
    found = results(tmp_path, ROWS, COLUMNS)
    with style.look():
        drawn: Any = DRAWINGS["curves"](View(Output("curves", "it", ("fedamp",), ("right",)), found))
    (axes,) = panels(drawn)
    assert len(axes.lines) == 1 and axes.get_title() == ""


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_a_row_or_column_that_is_not_there(axis: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nobody"):
        named: dict[str, Any] = {axis: ("nobody",)}
        draw(Output("curves", "it", **named), results(tmp_path, ROWS, COLUMNS), tmp_path)
