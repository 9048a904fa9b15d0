"""Numbers for MLflow: one run there for each run here, in MLflow's own store.

The store is what MLflow itself would use: $MLFLOW_TRACKING_URI or `mlflow.set_tracking_uri`, else `mlflow.db` with
`mlruns/` in the current directory, so that `mlflow ui` shows it there. The experiment is called `amity`, or what
$MLFLOW_EXPERIMENT_NAME says. `mlflow.json` in the run directory knows the run's id there, for a run that is resumed. It
does not know the store's address, which may hold a password.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypedDict, TypeVar

from mlflow.entities import Metric, Param, RunStatus, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from mlflow.utils.validation import MAX_METRICS_PER_BATCH, MAX_PARAM_VAL_LENGTH, MAX_PARAMS_TAGS_PER_BATCH

from amity.record import replacing
from amity.tracking.tracker import Ending, Subject

NOTE = "mlflow.json"
EXPERIMENT = "amity"
LAST = "round"
"""The number that is logged last of a round: where it is, all others are."""

T = TypeVar("T")


class RunNote(TypedDict):
    """The contents of `mlflow.json`."""

    run_id: str


class MLflow:
    """One run in a store of MLflow's."""

    def __init__(self) -> None:
        for name in ("mlflow", "alembic"):  # which tell of every table that they make
            logging.getLogger(name).setLevel(logging.WARNING)
        self._client = MlflowClient()
        self._run = ""

    def begin(self, subject: Subject) -> int:
        """Begin a run, or go on with the one that `mlflow.json` names, where the store still has it."""
        known = None if subject.anew else _noted(subject.path)
        if known is not None and self._has(known):
            self._run = known
            self._client.update_run(known, status=RunStatus.to_string(RunStatus.RUNNING))
            return max((held.step for held in self._client.get_metric_history(known, LAST)), default=0)
        self._run = self._client.create_run(self._experiment(), run_name=subject.name).info.run_id
        options = [Param(key, str(value)[:MAX_PARAM_VAL_LENGTH]) for key, value in subject.parameters.items()]
        for some in _batches(options, MAX_PARAMS_TAGS_PER_BATCH):
            self._client.log_batch(self._run, params=some)
        tags = {**subject.facts, "directory": str(subject.path.absolute())}
        self._client.log_batch(self._run, tags=[RunTag(f"amity.{key}", value) for key, value in tags.items()])
        note: RunNote = {"run_id": self._run}
        with replacing(subject.path / NOTE) as temporary:
            temporary.write_text(json.dumps(note) + "\n", encoding="utf-8")
        return 0

    def add(self, round: int, when: float, values: Mapping[str, float]) -> None:
        """Log the numbers of a round, the number of the round itself as the last."""
        self._log({**values, LAST: round}, round, when)

    def end(self, ending: Ending) -> None:
        """Log what the run comes to, and its files; say how it ended."""
        self._log({f"summary/{name}": value for name, value in ending.summary.items()}, ending.round, time.time())
        for file in ending.files:
            self._client.log_artifact(self._run, str(file))
        status = RunStatus.FINISHED if ending.finished else RunStatus.KILLED
        self._client.set_terminated(self._run, RunStatus.to_string(status))

    def _log(self, values: Mapping[str, float], round: int, when: float) -> None:
        found = [Metric(_allowed(name), value, int(when * 1000), round) for name, value in values.items()]
        for some in _batches(found, MAX_METRICS_PER_BATCH):
            self._client.log_batch(self._run, metrics=some)

    def _experiment(self) -> str:
        """Return the id of the experiment, which is made where there is none."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        found = self._client.get_experiment_by_name(name)
        return self._client.create_experiment(name) if found is None else found.experiment_id

    def _has(self, run: str) -> bool:
        try:
            return self._client.get_run(run).info.lifecycle_stage == "active"
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise


def _noted(path: Path) -> str | None:
    """Return the id of the run in MLflow; None where none is noted, or nothing that can be read."""
    try:
        note: RunNote = json.loads((path / NOTE).read_bytes())
        return str(note["run_id"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _allowed(name: str) -> str:
    """Return a name that MLflow takes, with a colon for % and two for ~, which file names of silos hold."""
    return name.replace("%", ":").replace("~", "::")


def _batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
