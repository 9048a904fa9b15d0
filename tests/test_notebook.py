"""The notebook of the examples runs from top to bottom, says something sensible, and is kept without outputs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples" / "first_steps.ipynb"


def said(cell: Any) -> str:
    """What a cell has printed, and its value."""
    return "".join(out.get("text") or out["data"]["text/plain"] for out in cell.outputs)


def test_it_is_kept_without_outputs() -> None:
    notebook = nbformat.read(FILE, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.filterwarnings("ignore")  # of Jupyter's own libraries, about event loops
def test_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a kernel of this Python, whatever kernels the machine has beside it."""
    kernel = tmp_path / "kernels" / "python3"
    kernel.mkdir(parents=True)
    command = f'["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"]'
    (kernel / "kernel.json").write_text(f'{{"argv": {command}, "display_name": "Python 3", "language": "python"}}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    work = tmp_path / "work"
    work.mkdir()
    notebook = nbformat.read(FILE, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(work)}}
    )
    client.execute()
    sizes, scores, worth, weights, compared, new = (said(cell) for cell in notebook.cells if cell.cell_type == "code")
    assert "'north': (40, 400)" in sizes
    assert all(float(score) > 70 for score in re.findall(r": ([\d.]+)", scores))  # two classes
    assert re.findall(r"^(\w+) +[+-]", worth, re.MULTILINE) == ["north", "south", "east", "west"]
    rows = [[float(number) for number in re.findall(r"[\d.]+", line)] for line in weights.splitlines()[1:]]
    assert len(rows) == 4
    for me, row in enumerate(rows):
        friend = me ^ 1  # north and south, east and west
        strangers = [row[silo] for silo in range(4) if silo not in (me, friend)]
        assert sum(row) == pytest.approx(1, abs=0.03) and row[friend] > max(strangers)
    found = {name: float(score) for name, score in re.findall(r"'([\w-]+)': ([\d.]+)", compared)}
    assert found["fedavg"] < min(found["pfedatt"], found["separate"])
    north, east = re.findall(r"class (\d)", new)
    assert north != east
    assert list(work.iterdir()) == []
