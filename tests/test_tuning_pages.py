"""The Python of the pages about trackers and tuning runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def python_of(page: str) -> str:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    return "\n".join(blocks)


def test_the_page_about_trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    exec(python_of("tracking.md"), {})
    logged = sorted(str(path.parent) for path in Path("runs").rglob("events.out.tfevents.*"))
    assert logged == [f"runs/{place}/tensorboard" for place in ("both/fedamp", "both/separate", "tracked")]


def test_the_page_about_tuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(python_of("tune.md"), names)
    assert set(names["tuned"].best.values) == {"lr", "set.sigma"}
    assert names["result"].summary["chosen_by"] == "validation"
