"""The small experiment that tests of running use."""

from __future__ import annotations

from pathlib import Path

import pytest
from papers.small_experiment import SMALL


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one experiment, us/small."""
    (tmp_path / "from" / "us").mkdir(parents=True)
    (tmp_path / "from" / "us" / "small.toml").write_text(SMALL)
    return tmp_path / "from"
