"""docs/start.md is true: its commands are carried out, in their order, in a folder with the example tables."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "tables" / "clinics", tmp_path / "examples" / "tables" / "clinics")
    command = tmp_path / "bin" / "amity"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m amity "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"COLUMNS": "200", "PYTHONPATH": str(ROOT / "src")}
    scripts = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(scripts) == 3
    said = []
    for script in scripts:
        done = subprocess.run(
            ["bash", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        said.append(" ".join(done.stdout.split()))
    table, answer, prediction = said
    for column in re.findall(r"^    (\w+ +(?:number|category|id|date) .*)$", PAGE, re.MULTILINE):
        assert " ".join(column.split()) in table
    assert "of 3 silos" in answer and "report: runs/clinics/report.html" in answer
    silos = json.loads((tmp_path / "runs" / "clinics" / "results.json").read_text())["worth"][0]["silos"]
    shown = re.findall(r"^     (east|north|south) .* (\d+)  (\w.*)$", PAGE, re.MULTILINE)
    assert [(silo, int(count)) for silo, count, _ in shown] == [(one["silo"], one["examples"]) for one in silos]
    assert [verdict for *_, verdict in shown] == ["no clear difference"] * 3 == [one["words"] for one in silos]
    assert re.fullmatch(r"row prediction p\(ill\) p\(well\) 0 ill 0\.\d+ 0\.\d+ left out.*: patient", prediction)
    assert (tmp_path / "runs" / "clinics" / "report.html").is_file()
    assert (tmp_path / "runs" / "clinics" / "heurfedamp" / "models" / "north.md").is_file()
