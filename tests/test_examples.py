"""Every example runs, says something sensible, and leaves nothing behind."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def played(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """Run an example as a program in an empty directory; gives back its variables."""
    monkeypatch.chdir(folder)
    names = runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert list(folder.iterdir()) == []
    return names


def percentages(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"(\d+(?:\.\d+)?) %", text)]


def test_there_are_examples() -> None:
    assert {"own_method.py", "own_model.py"} <= {path.name for path in EXAMPLES}


@pytest.mark.parametrize("name", [p.name for p in EXAMPLES if p.name not in ("own_method.py", "own_model.py")])
def test_the_other_examples_report_accuracies(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played(name, monkeypatch, tmp_path)
    found = percentages(capsys.readouterr().out)
    assert found and all(0 < value <= 100 for value in found)


def test_own_method(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played("own_method.py", monkeypatch, tmp_path)
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == ["alone", "halfway", "together"]
    found = percentages(out)
    assert len(found) == 3
    assert all(50 < value <= 100 for value in found)  # ten classes, two of them in most examples of a silo
    assert len(set(found)) > 1  # the share matters


def test_own_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = played("own_model.py", monkeypatch, tmp_path)
    out = capsys.readouterr().out
    (mean,) = percentages(out)
    assert 60 < mean <= 100  # two classes
    assert all(f"'{silo}': " in out for silo in ("north", "south", "east"))
    weights = names["result"].weights[10]  # [north, south, east] both ways
    assert weights.sum(1) == pytest.approx([1, 1, 1], abs=1e-6)
    assert weights[0, 1] > weights[0, 2] and weights[1, 0] > weights[1, 2]  # those that agree help each other
    assert not names["model"].training
