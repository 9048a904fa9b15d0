"""Outcomes as they are written: the numbers are those of the run's record."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from papers.small_experiment import DIVERGES

from amity.config.run import Run
from amity.papers import outcome, reproduce, spec
from amity.papers.outcome import OutcomeContent
from amity.record import read


def test_the_recorded_outcome_is_the_runs_own(root: Path, tmp_path: Path) -> None:
    experiment = spec.read("us/small", root)
    runner = reproduce.Runner(tmp_path / "out", keep_runs=True)
    run = experiment.cell("cpu", "heurfedamp", "a").run(0)
    kept = runner.run(run)
    again = outcome.read(tmp_path / "out", run)
    assert again is not None and again.content == json.loads(kept.path.read_text())
    assert list(again.content) == list(OutcomeContent.__annotations__)
    record = read(tmp_path / "out" / reproduce.UNDER_WAY / spec.key_of(run))
    assert again.bmta == pytest.approx(record.results["bmta"], abs=1e-4)
    assert again.accuracies == pytest.approx(record.results["per_client"], abs=1e-4)
    for round, matrix in record.weights.items():
        np.testing.assert_allclose(again.weights[round], matrix, atol=1e-3)
    assert again.rounds["round"] == [1, 2]
    assert record.manifest is not None
    counts = [sum(silo["test"]) for silo in record.manifest["silos"]]
    pooled = np.average(np.array(record.lines[-1]["accuracy"], dtype=float), weights=counts)
    assert again.rounds["pooled"][-1] == pytest.approx(pooled, abs=1e-4)


def test_a_record_says_when_a_warning_began_and_keeps_the_best_round_before_the_last(
    root: Path, tmp_path: Path
) -> None:
    (root / "us" / "small.toml").write_text(DIVERGES)
    run = spec.read("us/small", root).cell("cpu", "scaffold", "a").run(0, 100.0)
    kept = reproduce.Runner(tmp_path, keep_runs=True).run(run)
    lines = read(tmp_path / reproduce.UNDER_WAY / spec.key_of(run)).lines
    first = {warning: line["round"] for line in reversed(lines) for warning in line["warnings"]}
    assert kept.content["warned"] == first and set(first) == set(kept.content["warnings"]) != set()
    means = [line["mean"] for line in lines[:-1]]
    earlier = kept.content["earlier"]
    assert earlier is not None
    assert earlier["round"] == 1 + means.index(max(mean for mean in means if mean is not None))


def test_values_are_chosen_by_what_was_held_out_before_an_ending(tmp_path: Path) -> None:
    """After it nothing is: the silos have learnt from those examples too."""
    run = Run("fedavg", data="digits", clients=4, rounds=3, epochs=1, model="mlr", val_fraction=0.2, ending=2)
    kept = reproduce.Runner(tmp_path, keep_runs=True).run(run)
    lines = read(tmp_path / reproduce.UNDER_WAY / spec.key_of(run)).lines
    held_out = [line["val"] for line in lines]
    assert held_out[-1] is None and kept.content["validated"] is None
    assert kept.validation == pytest.approx(max(value for value in held_out if value is not None), abs=1e-4)


def test_a_run_that_measured_nothing_is_recorded(tmp_path: Path) -> None:
    """Quantities on which training diverges at once: the next rows of the table must still be run."""
    (tmp_path / "own").mkdir()
    for name in ("north", "south"):
        rows = "".join(f"{i / 7},{i % 4 + 0.5}\n" for i in range(30))
        (tmp_path / "own" / f"{name}.csv").write_text(f"dose,target\n{rows}")
    run = Run(
        method="separate", data=f"folder:{tmp_path / 'own'}", model="mlr", rounds=2, epochs=1, optimizer="sgd", lr=1e30
    )
    kept = reproduce.Runner(tmp_path / "out").run(run)
    assert math.isnan(kept.bmta) and math.isnan(kept.last)
