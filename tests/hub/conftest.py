"""For runs over a network in this process: nothing waits for a disk or a clock, and turns are counted."""

from __future__ import annotations

import time
from collections import Counter
from types import SimpleNamespace

import pytest
from networks import Pauses

from amity.contract import State
from amity.federation.silo import SiloSide


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk is waited for: what ends in these tests is a process, never the machine."""
    monkeypatch.setattr("os.fsync", lambda handle: None)
    monkeypatch.setattr("amity.hub.gathering.GRACE", 0.0)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, int]]:
    """How often each silo has trained each round."""
    seen: Counter[tuple[str, int]] = Counter()
    train = SiloSide.train

    def counted(side: SiloSide, round: int, down: State) -> State:
        seen[side.name, round] += 1
        return train(side, round, down)

    monkeypatch.setattr(SiloSide, "train", counted)
    return seen


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """The server's pauses take no time."""
    pauses = Pauses()
    clock = SimpleNamespace(sleep=pauses.sleep, monotonic=lambda: time.monotonic() + pauses.now, time=time.time)
    monkeypatch.setattr("amity.hub.conduct.time", clock)
    monkeypatch.setattr("amity.hub.gathering.time", clock)
    monkeypatch.setattr("amity.hub.agreeing.time", clock)
    return pauses
