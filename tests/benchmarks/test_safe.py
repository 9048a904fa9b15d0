"""The benchmark of --safe: what it plants is there, and its table counts what it says."""

from __future__ import annotations

import pytest
import torch

from benchmarks import safe
from benchmarks.safe import Case


def test_the_table_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """Of two silos without harm one is sent alone and loses half a point; of three with harm two are caught."""
    safe.show(
        [
            Case("digits-mlr", 5, 0.0, True, 0.5),
            Case("digits-mlr", 5, 0.0, False, 9.0),
            *(Case("digits-mlr", 100, 10.0, caught) for caught in (True, True, False)),
        ]
    )
    said = capsys.readouterr().out
    assert "| digits-mlr | none | 50 % of 2 | – | – | – | – |" in said
    assert "| digits-mlr | 10 points | – | – | – | – | 67 % of 3 |" in said
    assert "sent alone without harm | +0.50 of 1 |" in said


def test_the_harm_that_is_planted_is_there() -> None:
    y = torch.arange(1000) % 4
    own, other = torch.eye(4)[y], torch.eye(4)[(y + 1) % 4]
    own[:200] = own[:200].roll(1, 1) * 0.8  # knows four in five
    noise = 0.3 * torch.randn(1000, 4, generator=torch.Generator().manual_seed(1))
    best = safe.points(own + noise, y, 4)
    share = safe.share_of_harm(own + noise, other, y, 4, best - 10)
    assert share is not None
    assert best - safe.points(torch.lerp(own + noise, other, share), y, 4) == pytest.approx(10, abs=0.5)
    assert safe.share_of_harm(own, own, y, 4, best - 10) is None


def test_a_silo_without_harm_and_with_harm() -> None:
    cases = list(safe.pairs("digits-mlr", 20, 0))
    assert [case.harm for case in cases] == [0.0, *safe.HARMS]
    assert abs(cases[0].lost) < 5 and cases[-1].lost == pytest.approx(-20, abs=0.5)
