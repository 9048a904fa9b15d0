"""docs/predict.md is true: its commands and its Python are carried out, in their order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from cli.commands import Amity, worked
from predicting.clinics import make_clinics

PAGE = (Path(__file__).parents[2] / "docs" / "predict.md").read_text(encoding="utf-8")


def test_the_page_can_be_followed(amity: Amity, tmp_path: Path) -> None:
    for package in ("onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    make_clinics(tmp_path / "clinics")
    (tmp_path / "new.csv").write_text("patient,sugar,pressure\np1,1,2\np2,-1,0.5\n")
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```(bash|python)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["bash", "bash", "python", "python", "bash"]
    for kind, text in blocks:
        if kind == "python":
            exec(text, names)
            continue
        for line in text.splitlines():
            worked(amity(*shlex.split(line)[1:]))
    assert names["found"].labels == ("ill", "well") and len(names["found"].values) == 2
    assert set(names["module"].state_dict()) == set(names["result"].model("north").state_dict())
    made = {path.name for path in tmp_path.glob("north.*")}
    assert made == {"north.safetensors", "north.pt2", "north.onnx", "north.md"}
    beside = {path.name for path in (tmp_path / "runs" / "clinics" / "models").glob("north.*")}
    assert beside == set(re.findall(r"north\.(?:safetensors|json|md)\b", PAGE))
