"""Every example runs, says something sensible, and leaves nothing behind."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def percentages(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"(\d+(?:\.\d+)?) %", text)]


def own_method(out: str, names: dict[str, Any]) -> None:
    assert [line.split()[0] for line in out.splitlines()] == ["alone", "halfway", "together"]
    found = percentages(out)
    assert len(found) == 3
    assert all(50 < value <= 100 for value in found)  # ten classes, two of them in most examples of a silo
    assert len(set(found)) > 1  # the share matters


def own_model(out: str, names: dict[str, Any]) -> None:
    together, alone = percentages(out)
    assert together > alone > 50  # two classes; that is what the example is there to show
    weights = names["result"].weights[20]  # [north, south, east, west] both ways
    assert weights.sum(1) == pytest.approx([1] * 4, abs=1e-6)
    for silo, friend, strangers in ((0, 1, (2, 3)), (1, 0, (2, 3)), (2, 3, (0, 1)), (3, 2, (0, 1))):
        assert all(weights[silo, friend] > weights[silo, stranger] for stranger in strangers)
    assert not names["model"].training


def own_silos(out: str, names: dict[str, Any]) -> None:
    assert all(value > 70 for value in percentages(out))  # two classes
    assert [(silo.name, len(silo.train.y), len(silo.test.y)) for silo in names["silos"].silos] == [
        ("east", 160, 40),
        ("north", 150, 50),
        ("south", 160, 40),
        ("west", 160, 40),
    ]
    assert names["silos"].labels == names["own"].labels == ("ill", "well")
    assert names["own"].sizes == (150,) * 4


SENSIBLE = {"own_method.py": own_method, "own_model.py": own_model, "own_silos.py": own_silos}


def test_there_are_examples() -> None:
    assert SENSIBLE.keys() <= {path.name for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr()
    found = percentages(said.out)
    assert found and all(0 < value <= 100 for value in found)
    assert said.err == ""
    if path.name in SENSIBLE:
        SENSIBLE[path.name](said.out, names)
    assert list(tmp_path.iterdir()) == []
