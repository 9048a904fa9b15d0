"""Finished runs that tests of predictions look at and do not change."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.conftest import amity as amity
from predicting.clinics import run_clinics


@pytest.fixture(scope="session")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on tables with classes."""
    return run_clinics(tmp_path_factory.mktemp("clinics"))


@pytest.fixture(scope="session")
def quantities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on tables with quantities around 40."""
    return run_clinics(tmp_path_factory.mktemp("quantities"), quantity=True)
