"""Conducting a run, over a network in this process: the simulator's models, whatever happens on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from networks import trial_of

from amity.methods import METHODS


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk is waited for: what ends here is the server, never the machine."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "pooled"])
def test_every_method_has_the_simulators_models(method: str, tmp_path: Path) -> None:
    trial = trial_of(tmp_path, method)
    with trial.network() as network:
        trial.conduct(network)
    assert trial.status["phase"] == "ended", trial.status["words"]
    trial.check_models()
