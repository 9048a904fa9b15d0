"""What a run gives back to Python users: when it is over, and later from its directory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from amity.config.options import nearest
from amity.config.references import ALONE_FOLDER
from amity.contract import InputError, Model, Scale, Split
from amity.data.own.tensors import Array
from amity.learn.task import Task
from amity.metric import METRICS, Metric
from amity.predicting.examples import Examples, examples_of_arrays, read_examples
from amity.predicting.model import Builds, Restored, outputs_of, task_of
from amity.predicting.predictions import Predictions, predictions_of
from amity.record import Line, ModelFacts, Record, Summary, holds_run, read, scores_of
from amity.record.directory import FACTS
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
    >>> result.predict("silo-01", torch.zeros(1, 1, 8, 8)).probabilities.shape
    (1, 10)
    """

    record: Record  # all that was recorded of it
    path: Path | None  # its run directory, where it has one
    _held: Held
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
        return self._by_silo(scores_of(self._delivered, "accuracy"))

    @property
    def scores(self) -> dict[str, float]:
        """Each silo's score with the model that is delivered, by the run's metric: of accuracies, in percent.

        NaN where it is undefined. A model that has failed has the accuracy 0, and no R2 or RMSE (NaN).
        """
        return self._by_silo(scores_of(self._delivered))

    @property
    def _delivered(self) -> Line:
        if not self.round:
            raise InputError(f"{self.record.path} has no round with scores yet: finish the run with --resume")
        return self.lines[self.round - 1]

    def _by_silo(self, values: Sequence[float | None] | None) -> dict[str, float]:
        return dict(zip(self.record.silos, map(_number, values or ()), strict=True))

    @property
    def worth(self) -> WorthView:
        """Whether joining was worth it, for each silo and for all together; needs a run with `alone=True`."""
        return worth_beside(self.record, None if self.alone is None else self.alone.record)

    def __str__(self) -> str:
        told, metric = self.summary, self.metric
        found = {silo: value for silo, value in self.scores.items() if not math.isnan(value)}
        over = "" if len(found) in (0, len(self.scores)) else f" over {len(found)} of {len(self.scores)} silos"
        lines = [
            f"{told['method']} on {told['data']}, {told['setting']}: {told['clients']} silos, {told['rounds']} rounds",
            f"  mean test {metric.title} {metric.text(self.best)}{over} with the models of round {self.round} "
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
        return self._module(silo, self._held.model(silo))

    def predict(self, silo: str, data: str | Path | Array, *, keep: Sequence[str] = ()) -> Predictions:
        """What the silo's personal model says about new examples, and its probabilities.

        `data`: a file as `amity predict` takes it (csv, parquet, npz, images), or an array or tensor [n, ...] in the
        form of the training data. `keep`: columns of a table that are to stand beside the predictions. The names of the
        classes are `labels` of what comes back, the predictions `values`, and with known labels it has an `agreement`.
        """
        self._know(silo)
        facts, task = self._held.facts(silo), self._held.task(silo)
        found = self._examples(silo, data, keep)
        x = task.prepare(Split(found.x, found.x.new_zeros(len(found.x)))).x
        outputs = outputs_of(task, self._held.model(silo), x)
        return predictions_of(facts, outputs, found.labels, found.kept, found.notes)

    def inputs(self, silo: str, data: str | Path | Array) -> Tensor:
        """New examples as the silo's model takes them, for use with `model(silo)` or an exported one.  # [n, ...]

        Columns are in the model's order and coded as in training, pixels scaled. `data` is as in `predict`.
        """
        return self._examples(silo, data, ()).x

    def _examples(self, silo: str, data: str | Path | Array, keep: Sequence[str]) -> Examples:
        self._know(silo)
        facts = self._held.facts(silo)
        if isinstance(data, (str, Path)):
            return read_examples(Path(data), facts, keep)
        return examples_of_arrays(data, facts)

    def cloud(self, silo: str) -> nn.Module:
        """The silo's cloud model, ready to predict: what the server mixed for it in the round that is delivered.

        It is the second output of the attention methods: u_i of FedAMP's last round, from which the silo's own model
        was trained.
        """
        self._know(silo)
        clouds = self._held.clouds(silo)
        if not clouds:
            raise InputError(
                f"{self.summary['method']} has no cloud models, or they were too large to keep: use model({silo!r})"
            )
        if silo not in clouds:
            raise InputError(f"{silo!r} was sent no cloud model in round {self.round}, it did not take part: use model")
        return self._module(silo, clouds[silo])

    def held(self, silo: str) -> Held:
        """Where the models are, of a silo that there is."""
        self._know(silo)
        return self._held

    def _know(self, silo: str) -> None:
        if silo not in self.record.silos:
            raise InputError(f"no silo is called {silo!r}: {nearest(silo, self.record.silos)}")

    def _module(self, silo: str, model: Model) -> nn.Module:
        task = self._held.task(silo)
        module = task.module(model)
        scale = Scale(*self._held.facts(silo)["scale"])
        return module if task.classes else nn.Sequential(module, Restored(scale)).eval()


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


class Held(Protocol):
    """Where a result has its models: in memory, or in a run directory."""

    def task(self, silo: str) -> Task: ...
    def model(self, silo: str) -> Model: ...
    def clouds(self, silo: str) -> Mapping[str, Model]: ...
    def facts(self, silo: str) -> ModelFacts: ...


class InMemory(NamedTuple):
    """The models of a run that has just come to its end."""

    of_all: Task
    models: Mapping[str, Model]
    sent: Mapping[str, Model]  # the cloud models
    known: Mapping[str, ModelFacts]

    def task(self, silo: str) -> Task:
        return self.of_all

    def model(self, silo: str) -> Model:
        return self.models[silo]

    def clouds(self, silo: str) -> Mapping[str, Model]:
        return self.sent

    def facts(self, silo: str) -> ModelFacts:
        return self.known[silo]


@dataclass(frozen=True, eq=False)
class OnDisk:
    """The models of a run directory, each read when it is asked for."""

    record: Record
    build: Builds | None  # the user's own model
    tasks: dict[str, Task] = field(default_factory=dict)  # by silo: making one builds a module

    def task(self, silo: str) -> Task:
        if silo not in self.tasks:
            remedy = f"in Python, amity.read_run({str(self.record.path)!r}, model=lambda: YourNetwork())"
            self.tasks[silo] = task_of(self.facts(silo), self.build, remedy)
        return self.tasks[silo]

    def model(self, silo: str) -> Model:
        return self._imported(silo, self.record.model(silo))

    def clouds(self, silo: str) -> Mapping[str, Model]:
        return {name: self._imported(silo, state) for name, state in self.record.clouds.items()}

    def facts(self, silo: str) -> ModelFacts:
        return self.record.model_facts(silo)

    def _imported(self, silo: str, state: Mapping[str, Tensor]) -> Model:
        # Clones: a memory-mapped tensor may be aligned otherwise, and sums of it then differ in the last bit.
        return self.task(silo).import_state({key: value.clone() for key, value in state.items()})


def read_run(path: str | Path, *, model: Builds | None = None) -> Result:
    """Return the result of a run from its directory, as `amity.run` gave it back when the run was over.

    `model`: the function that builds your nn.Module, or such a module, where the run had a model of your own. Without
    it all but the models can be looked at.

    >>> import tempfile
    >>> run, x = amity.Run("separate", data="digits", clients=2, rounds=1, epochs=1), torch.zeros(1, 1, 8, 8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     now = amity.run(run, out=f"{folder}/mine")
    ...     later = amity.read_run(f"{folder}/mine")
    ...     later.scores == now.scores, torch.equal(later.model("silo-00")(x), now.model("silo-00")(x))
    (True, True)
    """
    path = Path(path)
    if not holds_run(path):
        inside = sorted(str(file.parent) for depth in ("*", "*/*") for file in path.glob(f"{depth}/{FACTS}"))
        if inside:
            raise InputError(f"{path} holds {len(inside)} runs: name one of them, such as {inside[0]}")
    found = read(path)
    own = path.parent / ALONE_FOLDER / path.name if path.name.startswith("seed-") else path / ALONE_FOLDER
    alone = read_run(own, model=model) if holds_run(own) else None
    return Result(found, path, OnDisk(found, model), alone)
