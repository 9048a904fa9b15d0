"""Trackers: a run's numbers in TensorBoard or MLflow, while it goes on.

    tensorboard     event files in the run directory: `tensorboard --logdir runs` shows them
    mlflow          a run in MLflow's own store: $MLFLOW_TRACKING_URI, else `mlflow.db` and `mlruns/` where you are

The command line has `--log NAME`. In Python, `track` gives a listener for a run that is about to begin:

    with track("runs/mine", "tensorboard") as listen:
        amity.run(run, out="runs/mine", listen=listen)

and `log_run("runs/both/fedamp", "mlflow")` logs a run that is on disk already.

What is logged is read from the run directory, so a tracker sees what the record holds and nothing else. One that fails
says so once; the run does not wait for it, and goes on.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amity.tracking.follow import log_run, track
    from amity.tracking.registry import TRACKERS

__all__ = ["TRACKERS", "log_run", "track"]

# Loaded when asked for: the command line asks which trackers there are before it loads torch.
_HOMES = {"TRACKERS": "registry", "log_run": "follow", "track": "follow"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'amity.tracking' has no attribute {name!r}")
    return getattr(importlib.import_module(f"amity.tracking.{_HOMES[name]}"), name)
