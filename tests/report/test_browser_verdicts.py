"""Verdicts that people see, against what an independent computation makes of the files in `predictions/`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from report.browsing import Opener
from scipy.optimize import brentq, minimize_scalar

import amity
from amity.worth.judgement import TRAINING

Z = 1.959964
Array = npt.NDArray[np.bool_]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small comparison: fedamp and separate on four silos of digits."""
    folder = tmp_path_factory.mktemp("compared")
    methods = ("fedamp", "separate")
    runs = [
        amity.Run(method, data="digits", setting="practical", clients=4, rounds=2, epochs=1, model="mlr")
        for method in methods
    ]
    amity.compare(runs, out=folder)
    return folder


def statistic(won: int, lost: int, n: int, difference: float) -> float:
    """Tango's score: the chance of `lost` that fits best is searched, not solved for."""

    def unlikelihood(chance: float) -> float:
        parts = ((won, chance + difference), (lost, chance), (n - won - lost, 1 - 2 * chance - difference))
        return -sum(count * math.log(max(value, 1e-300)) for count, value in parts if count)

    bounds = (max(0.0, -difference), (1 - difference) / 2)
    chance = minimize_scalar(unlikelihood, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
    return float((won - lost - n * difference) / math.sqrt(n * (2 * chance + difference - difference**2)))


def expected(first: Array, second: Array) -> tuple[float, float, float]:
    """Difference and interval in points, widened by what training varies by."""
    n, won, lost = len(first), int((first & ~second).sum()), int((~first & second).sum())
    middle = (won - lost) / n
    low = brentq(lambda at: statistic(won, lost, n, at) - Z, -1 + 1e-9, middle - 1e-9)
    high = brentq(lambda at: statistic(won, lost, n, at) + Z, middle + 1e-9, 1 - 1e-9)
    noise = (Z * TRAINING["accuracy"]) ** 2
    points = 100 * middle
    return (
        points,
        points - math.sqrt((points - 100 * low) ** 2 + noise),
        points + math.sqrt((100 * high - points) ** 2 + noise),
    )


def test_verdicts_are_those_of_the_predictions(compared: Path, opened: Opener) -> None:
    page = opened.file(compared / "report.html")
    rows = page.locator("#verdicts tbody tr").evaluate_all(
        """list => list.map((row) =>
          [row.querySelector("th span").title, ...[...row.cells].slice(1).map((cell) => cell.innerText)])"""
    )
    assert len(rows) == 4
    counts = {"gains": 0, "better alone": 0, "no clear difference": 0}
    for name, verdict, difference, alone, *middle, personal, examples in rows:
        files = [compared / run / "predictions" / f"{name}.npz" for run in ("fedamp", "separate")]
        first, second = (np.load(file)["delivered"] for file in files)
        points, low, high = expected(first, second)
        assert int(examples) == len(first) and not middle
        assert float(alone) == pytest.approx(100 * second.mean(), abs=0.051)
        assert float(personal) == pytest.approx(100 * first.mean(), abs=0.051)
        told = [float(text) for text in difference.replace("\u2212", "-").replace("to", "").split()]
        assert told == pytest.approx([points, low, high], abs=0.06)
        kind = "gains" if low > 0 else "better alone" if high < 0 else "no clear difference"
        counts[kind] += 1
        assert kind in verdict
    shown = [int(text) for text in page.locator(".counts b").all_inner_texts()]
    assert shown == [counts["gains"], counts["no clear difference"], counts["better alone"]]
