"""Sweeps over the value of an option: points stand where their values are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.drawing import COLUMNS, figure, panels
from papers.synthetic import results


def sweep_lines(rows: Mapping[str, Any], tmp_path: Path) -> tuple[Any, Any]:
    (axes,) = panels(figure("sweep", results(tmp_path, rows, {"left": {}}, seeds=2), xlabel="sigma"))
    return axes, axes.lines[0]


def test_a_sweep_stands_at_its_values(tmp_path: Path) -> None:
    rows = {f"row{place}": {"value": value} for place, value in enumerate((10, 1, 1000))}
    axes, line = sweep_lines(rows, tmp_path)
    found = results(tmp_path, rows, {"left": {}}, seeds=2)
    expected = [np.mean([seed.bmta for seed in found.seeds(row, "left")]) for row in ("row1", "row0", "row2")]
    assert list(line.get_xdata()) == [1, 10, 1000] and line.get_ydata() == pytest.approx(expected)
    assert axes.get_xscale() == "log" and axes.get_xlabel() == "sigma"


@pytest.mark.parametrize(
    ("values", "scale"),
    [((1, 2, 5), "linear"), ((0, 0.1, 100), "symlog"), ((-1, 1, 1000), "linear"), (("cos", "exp", 1), "linear")],
)
def test_the_axis_of_a_sweep(values: tuple[Any, ...], scale: str, tmp_path: Path) -> None:
    axes, line = sweep_lines({f"row{place}": {"value": value} for place, value in enumerate(values)}, tmp_path)
    assert axes.get_xscale() == scale
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(value) for value in values]
    assert len(line.get_xdata()) == 3


def test_series_of_a_sweep_are_lines_in_a_panel_per_column(tmp_path: Path) -> None:
    rows = {f"{name}{value}": {"value": value, "series": name} for name in ("a", "b") for value in (1, 2, 3)}
    drawn = figure("sweep", results(tmp_path, rows, COLUMNS))
    assert [axes.get_title() for axes in panels(drawn)] == ["LEFT", "right"]
    assert [list(line.get_xdata()) for line in panels(drawn)[0].lines] == [[1, 2, 3], [1, 2, 3]]
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["a", "b"]
