"""Runs that tests of reports share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from report.browsing import Opener
from report.reported_runs import a_run

from amity.record import Record

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    weights = torch.tensor([[0.9, 0.0, 0.1, 0.0], [float("nan")] * 4, [0.2, 0.1, 0.6, 0.1], [0.0, 0.3, 0.0, 0.7]])
    return [
        a_run(tmp_path / "one", "separate", [(5, 5, 5, 5), (6, 6, 6, 6)]),
        a_run(tmp_path / "two", "fedamp", [(9, 9, 9, 5), (8, 8, 8, 7)], weights),
        a_run(tmp_path / "three", "apple", [(7, 7, 7, 7)], -weights, finish=False),
    ]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Opens views in the browser. At the end no page may have logged, thrown or asked for anything."""
    opener = Opener(browser, tmp_path, [])
    yield opener
    opener.close()
    assert opener.problems == []
