"""Runs that all tests of damage share: making them takes longer than damaging them."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from listening import recorded, run_ready
from record.damaged_runs import (
    CASES,
    STOPPED,
    Runs,
    ready,
    stop,
)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The runs that are copied and damaged."""
    made = {}
    for method, state in CASES:
        path = made[method, state] = tmp_path_factory.mktemp("whole") / method
        how = STOPPED[state]
        with nullcontext() if how is None else pytest.raises(how):
            run_ready(ready(method), out=path, listen=recorded(stop(how)))
    return made
