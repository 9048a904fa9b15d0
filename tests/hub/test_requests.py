"""What is asked of a run: seen once, between two rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from amity.hub import requests


def test_nothing_is_asked_for_at_first(tmp_path: Path) -> None:
    requests.check(tmp_path)
    requests.clear(tmp_path, "stop")
    assert not requests.asked(tmp_path, "stop") and not requests.asked(tmp_path, "regroup")


def test_a_stop_stays_asked_for(tmp_path: Path) -> None:
    requests.ask(tmp_path, "stop")
    requests.ask(tmp_path, "stop")
    for _ in range(2):  # a process that ends before it has said so is followed by one that stops, too
        with pytest.raises(requests.Stop):
            requests.check(tmp_path)
    requests.clear(tmp_path, "stop")
    requests.check(tmp_path)


def test_a_regrouping_is_asked_for_once_and_a_stop_comes_first(tmp_path: Path) -> None:
    requests.ask(tmp_path, "regroup")
    with pytest.raises(requests.Regroup):
        requests.check(tmp_path)
    requests.check(tmp_path)
    requests.ask(tmp_path, "regroup")
    requests.ask(tmp_path, "stop")
    with pytest.raises(requests.Stop):
        requests.check(tmp_path)
    assert requests.asked(tmp_path, "regroup")
