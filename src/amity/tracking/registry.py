"""The trackers by name, and which package each of them needs. Nothing of theirs is loaded here."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amity.config.options import nearest
from amity.errors import InputError

if TYPE_CHECKING:
    from amity.tracking.tracker import Tracker

TRACKERS = ("tensorboard", "mlflow")
"""What `--log` takes; each is also the name of the package that it needs."""

LOCAL_STORE = ("sqlalchemy", "alembic")
"""The packages that MLflow needs for a store of its own on this machine, and that its small edition does not bring."""

EXTRA = "track"
"""The extra of Amity that brings these packages."""


def check_trackers(names: Sequence[str]) -> list[str]:
    """Return these names, each once; refuse those that mean nothing and those whose package is not installed."""
    wanted = list(dict.fromkeys(names))
    if strange := [name for name in wanted if name not in TRACKERS]:
        raise InputError(
            f"--log takes {' or '.join(TRACKERS)}, got {', '.join(strange)}: {nearest(strange[0], TRACKERS)}"
        )
    local = LOCAL_STORE if "mlflow" in wanted and not os.environ.get("MLFLOW_TRACKING_URI") else ()
    if missing := [name for name in (*wanted, *local) if importlib.util.find_spec(name) is None]:
        packages = " and ".join(missing)
        raise InputError(f"--log needs {packages}, not installed: pip install 'amity[{EXTRA}]', or leave --log out")
    return wanted


def open_tracker(name: str) -> Tracker:
    """Return a tracker by its name. Its package is loaded now."""
    if name == "tensorboard":
        from amity.tracking.to_tensorboard import TensorBoard

        return TensorBoard()
    from amity.tracking.to_mlflow import MLflow

    return MLflow()
