"""Runs that tests of reports share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from report.reported_runs import a_run

from amity.record import Record


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    weights = torch.tensor([[0.9, 0.0, 0.1, 0.0], [float("nan")] * 4, [0.2, 0.1, 0.6, 0.1], [0.0, 0.3, 0.0, 0.7]])
    return [
        a_run(tmp_path / "one", "separate", [(5, 5, 5, 5), (6, 6, 6, 6)]),
        a_run(tmp_path / "two", "fedamp", [(9, 9, 9, 5), (8, 8, 8, 7)], weights),
        a_run(tmp_path / "three", "apple", [(7, 7, 7, 7)], -weights, finish=False),
    ]
