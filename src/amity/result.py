"""What a run gives back to Python users."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from amity.config.options import nearest
from amity.contract import InputError, Model, Scale
from amity.learn.task import Task
from amity.metric import METRICS, Metric
from amity.record import Line, Record, Summary, scores_of
from amity.report.view_worth import worth_beside
from amity.worth.contents import WorthView


@dataclass(frozen=True, eq=False)
class Result:
    """What came out of a run.

    >>> result = amity.run(amity.Run("separate", data="digits", clients=2, rounds=1, epochs=1))
    >>> list(result.scores), len(result.lines)
    (['silo-00', 'silo-01'], 1)
    >>> result.model("silo-01")(torch.zeros(1, 1, 8, 8)).shape  # an ordinary nn.Module
    torch.Size([1, 10])
    """

    record: Record  # all that was recorded of it
    path: Path | None  # its run directory, where it has one
    _task: Task
    _models: dict[str, Model]
    _clouds: dict[str, Model]
    _scales: dict[str, Scale]
    alone: Result | None = None  # what every silo reached alone, where that was asked for

    @property
    def summary(self) -> Summary:
        """The numbers of the run, as in summary.json."""
        return self.record.results

    @property
    def lines(self) -> list[Line]:
        """What was recorded of each round, as in rounds.jsonl."""
        return self.record.lines

    @property
    def weights(self) -> dict[int, npt.NDArray[np.float32]]:
        """Collaboration weights [m, m] by round."""
        return self.record.weights

    @property
    def metric(self) -> Metric:
        """The metric that the run is scored by: its title, its unit, and which way is better."""
        return METRICS[self.summary["score"]]

    @property
    def bmta(self) -> float:
        """The best mean test accuracy over rounds, in percent, as papers report it: it chooses the round on test data.

        What one can expect of the models that come back is `best`.
        """
        if self.metric.labels == "quantities":
            raise InputError("quantities have no accuracy: see best and scores of this result")
        if self.metric.key != "accuracy":
            raise InputError(f"the BMTA is of accuracies, this run has {self.metric.title}: see best and scores")
        return _number(self.summary["bmta"])

    @property
    def best(self) -> float:
        """The mean test score of the delivered models, by the run's metric: of accuracies, in percent.

        NaN where it is undefined. Delivered are the models of the round that validation data chose, where there are
        some, else of the last.
        """
        return _number(self.summary["delivered"])

    @property
    def round(self) -> int:
        """The round whose models are delivered."""
        return self.summary["delivered_round"] or 0

    @property
    def accuracy(self) -> dict[str, float]:
        """Each silo's test accuracy with the model that is delivered, in percent."""
        if self.metric.labels == "quantities":
            raise InputError("quantities have no accuracy: see best and scores of this result")
        found = scores_of(self.lines[self.round - 1], "accuracy")
        return dict(zip(self._models, map(_number, found or ()), strict=True))

    @property
    def scores(self) -> dict[str, float]:
        """Each silo's score with the model that is delivered, by the run's metric: of accuracies, in percent.

        NaN where it is undefined. A model that has failed has the accuracy 0, and no R2 or RMSE (NaN).
        """
        found = scores_of(self.lines[self.round - 1])
        return dict(zip(self._models, map(_number, found or ()), strict=True))

    @property
    def worth(self) -> WorthView:
        """Whether joining was worth it, for each silo and for all together; needs a run with `alone=True`."""
        return worth_beside(self.record, None if self.alone is None else self.alone.record)

    def __str__(self) -> str:
        told, metric = self.summary, self.metric
        found = {silo: value for silo, value in self.scores.items() if not math.isnan(value)}
        lines = [
            f"{told['method']} on {told['data']}, {told['setting']}: {told['clients']} silos, {told['rounds']} rounds",
            f"  mean test {metric.title} {metric.text(self.best)} with the models of round {self.round} "
            f"({told['chosen_by']})",
        ]
        if found:
            ranks = {silo: metric.rank(value) for silo, value in found.items()}
            low, high = min(ranks, key=ranks.__getitem__), max(ranks, key=ranks.__getitem__)
            lines.append(f"  worst {low} {metric.text(found[low])}, best {high} {metric.text(found[high])}")
        return "\n".join([*lines, f"  record in {self.path}" if self.path else "  not on disk: give out=DIRECTORY"])

    __repr__ = __str__

    def model(self, silo: str) -> nn.Module:
        """The silo's personal model that is delivered, ready to predict; of quantities, in the silo's own unit."""
        self._know(silo)
        return self._module(silo, self._models[silo])

    def cloud(self, silo: str) -> nn.Module:
        """The silo's cloud model, ready to predict: what the server mixed for it in the round that is delivered.

        It is the second output of the attention methods: u_i of FedAMP's last round, from which the silo's own model
        was trained.
        """
        self._know(silo)
        if not self._clouds:
            raise InputError(
                f"{self.summary['method']} has no cloud models, or they were too large to keep: use model({silo!r})"
            )
        if silo not in self._clouds:
            raise InputError(f"{silo!r} was sent no cloud model in round {self.round}, it did not take part: use model")
        return self._module(silo, self._clouds[silo])

    def _know(self, silo: str) -> None:
        if silo not in self._models:
            raise InputError(f"no silo is called {silo!r}: {nearest(silo, self._models)}")

    def _module(self, silo: str, model: Model) -> nn.Module:
        module = self._task.module(model)
        return module if self._task.classes else nn.Sequential(module, _Restored(self._scales[silo])).eval()


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


class _Restored(nn.Module):
    """Quantities as they were before they were standardised."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, value: Tensor) -> Tensor:
        return value * self.scale.unit + self.scale.zero
