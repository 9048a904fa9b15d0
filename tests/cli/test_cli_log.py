"""`--log` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.commands import Amity, config, refused, with_tiny, worked

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]  # noqa: E402


def steps(path: Path) -> list[int]:
    return [event.step for event in EventAccumulator(str(path / "tensorboard")).Reload().Scalars("mean")]


def test_each_run_of_a_comparison_is_logged_and_its_configuration_does_not_know(amity: Amity) -> None:
    worked(amity(*with_tiny("compare separate fedavg --seeds 0,1 --log tensorboard --out c")))
    for place in ("separate/seed-0", "separate/seed-1", "fedavg/seed-0", "fedavg/seed-1"):
        assert steps(Path("c") / place) == [1, 2]
        assert "log" not in config(Path("c") / place)


def test_a_resumed_run_may_be_logged_or_not(amity: Amity) -> None:
    worked(amity(*with_tiny("run fedavg --log tensorboard --out r")))
    worked(amity(*with_tiny("run fedavg --out r --resume --rounds 3")))
    worked(amity(*with_tiny("run fedavg --out r --resume --rounds 4 --log tensorboard")))
    assert steps(Path("r")) == [1, 2, 3, 4]


def test_a_tracker_that_nobody_knows_is_refused_and_nothing_is_written(amity: Amity) -> None:
    refused(amity(*with_tiny("run fedavg --log tensorbord --out r")), "--log takes tensorboard or mlflow")
    assert not Path("r").exists()
