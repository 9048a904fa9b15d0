"""The benchmark of verdicts: what it plants is there, and its tables count what they say."""

from __future__ import annotations

import numpy as np
import pytest

from amity.worth.paired import Difference
from amity.worth.shares import Answers
from benchmarks import verdicts
from benchmarks.verdict_tables import Case, judged, seen, show


def case(kind: str, method: str, won: int, lost: int, points: float) -> Case:
    first, second = np.zeros(50, dtype=bool), np.zeros(50, dtype=bool)
    first[:won], second[won : won + lost] = True, True
    one, other = (Answers(np.ones(50), right.astype(float)) for right in (first, second))
    return Case(kind, "digits", 0, method, seen(one, other, "accuracy"), points)


def test_tables_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Of two comparisons in which joining does nothing one is called a gain; of two harms one is flagged."""
    show(
        [
            case("again", "separate", 25, 0, 0.0),
            case("copies", "fedavg", 2, 2, 0.0),
            case("mixture", "10", 0, 25, -10.0),
            case("mixture", "10", 1, 2, -10.0),
        ]
    )
    said = capsys.readouterr().out
    assert "| digits | again | separate | 100.0 % of 1 | 100.0 % of 1 |" in said
    assert "| digits | copies | fedavg | 0.0 % of 1 | 0.0 % of 1 |" in said
    assert "| 10 points | 50.0 % of 2 | 50.0 % of 2 |" in said and "| of all points of harm | 50.0 % | 50.0 % |" in said


def test_widths_are_tried_one_by_one() -> None:
    one = case("again", "separate", 25, 0, 0.0)._replace(seen={50: Difference(5.0, 1.0, 9.0)})
    assert judged(one, 50, 0.0) == "gains" and judged(one, 50) == "no clear difference"
    assert judged(one._replace(score="r2"), 50, 1.0) == "gains"  # 3 and 4: the low end is at 5 - sqrt(16 + 3.84)


def test_what_is_planted_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "HARMS", (5.0, 10.0))
    metrics = len(verdicts.SCORES[True])
    nothing = list(verdicts.nothing("digits", 0))
    assert len(nothing) == 5 * verdicts.SILOS * metrics and {one.kind for one in nothing} == {"again", "copies"}
    assert np.mean([abs(one.points) for one in nothing]) < 5
    harm = list(verdicts.mixtures("digits", 0))
    assert len(harm) == len(verdicts.HARMS) * verdicts.SILOS * metrics
    for one in harm:  # as large as was asked for, on a hold-out of 1,000
        assert -one.points == pytest.approx(float(one.method), abs=0.5)
