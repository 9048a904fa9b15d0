"""The numbers that tables and figures take from a finished run."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from amity import methods
from amity.errors import InputError
from amity.metric import METRICS, Metric
from amity.papers.outcome.content import OutcomeContent, RecordedRound, RoundValues, Score
from amity.papers.outcome.tested import SiloTested, unpacked
from amity.trials import DIVERGES

Array = npt.NDArray[Any]


class AtRound(NamedTuple):
    """A run at one of its rounds."""

    round: int
    mean: float
    accuracies: list[float] | None  # the silos'; None where they were not kept


@dataclass(frozen=True, eq=False)
class Outcome:
    """The results of a run. Accuracies (of quantities: R2) are in percent, NaN where there is nothing to measure."""

    path: Path  # of the JSON file
    content: OutcomeContent

    @property
    def method(self) -> str:
        return str(self.content["asked"]["method"])

    @property
    def seed(self) -> int:
        return int(self.content["resolved"]["seed"])

    @property
    def score(self) -> str:
        """The name of its main score: "accuracy", or "r2" where labels are quantities."""
        return str(self.content.get("score", "accuracy"))

    @property
    def metric(self) -> Metric:
        """Its main score, and which way that is better."""
        return METRICS[self.score]

    @property
    def natural(self) -> bool:
        """True where silos are the same in every seed."""
        return str(self.content["resolved"].get("setting")) == "natural"

    def each(self, silo: int) -> Array | None:
        """Return right or wrong, or the error, of a silo's test examples with its delivered model; None: not kept."""
        tested = self._tested(silo)
        return None if tested is None else unpacked(tested)

    def r2(self, silo: int) -> float | None:
        """Return a silo's R2 with its delivered model, where labels are quantities; None where it was not kept."""
        tested = self._tested(silo)
        return None if tested is None else tested["r2"]

    def _tested(self, silo: int) -> SiloTested | None:
        kept = self.content.get("tested") or []
        return kept[silo] if silo < len(kept) else None

    @property
    def silos(self) -> list[str]:
        return list(self.content["silos"])

    @property
    def groups(self) -> list[int | None] | None:
        return self.content["groups"]

    @property
    def rounds(self) -> RoundValues:
        """Values of all rounds by name, one per round; None where nothing was measured."""
        return self.content["rounds"]

    def series(self, name: str) -> list[Score]:
        """Return the values of all rounds that have this name: "mean", "worst", "pooled", "loss" or "train_loss"."""
        return cast("dict[str, list[Score]]", self.content["rounds"])[name]

    @property
    def last_round(self) -> int:
        """The number of the last round."""
        return self.content["rounds"]["round"][-1]

    @property
    def clients(self) -> list[list[Score]] | None:
        """Accuracies [round][silo], where there are few silos."""
        return self.content["clients"]

    @property
    def bmta(self) -> float:
        """The best mean test accuracy over rounds."""
        return _or_nan(self.content["best"]["mean"])

    @property
    def last(self) -> float:
        """The mean test accuracy of the last round."""
        return _or_nan(self.content["last"]["mean"])

    @property
    def validated(self) -> float:
        """The mean test accuracy of the round that validation data chose; NaN without such data."""
        chosen = self.content["validated"]
        return math.nan if chosen is None else _or_nan(chosen["mean"])

    @property
    def validation(self) -> float:
        """The best mean score on validation data; NaN without such data."""
        return _or_nan(self.content["validation"])

    @property
    def worst_at_best(self) -> float:
        """The worst silo's test accuracy at the best round."""
        return _or_nan(self.content["best"]["worst"])

    @property
    def spread_at_best(self) -> float:
        """The spread of the silos' test accuracies at the best round."""
        return _or_nan(self.content["best"]["spread"])

    @property
    def accuracies(self) -> list[float]:
        """The silos' test accuracies at the best round."""
        return _all_or_nan(self.content["best"]["accuracy"])

    @property
    def delivered(self) -> list[float]:
        """The silos' test accuracies with the models that the run delivers."""
        return _all_or_nan(self._delivered_round["accuracy"])

    def delivered_before(self, trainings: float) -> list[float] | None:
        """Return what it delivers with so many local trainings fewer, as many rounds earlier; None if not kept."""
        round = self._delivered_round["round"] - trainings
        return self._accuracies_of(int(round)) if round in self.rounds["round"] else None

    @property
    def _delivered_round(self) -> RecordedRound:
        """The round that validation data chose, else the last one."""
        return self.content["validated"] or self.content["last"]

    @property
    def at_best(self) -> AtRound:
        """The run at the round with the best mean test accuracy."""
        return AtRound(int(self.content["best"]["round"]), self.bmta, self.accuracies)

    def best_until(self, last: float) -> AtRound | None:
        """Return the run at its best round up to this one; None if this one was not evaluated: it may be the best."""
        pairs = zip(self.rounds["round"], self.rounds["mean"], strict=True)
        means = {round: mean for round, mean in pairs if mean is not None and round <= last}
        if last not in means:
            return None
        best = max(means, key=lambda round: self.metric.rank(means[round]))
        return AtRound(best, float(means[best]), self._accuracies_of(best))

    def _accuracies_of(self, round: int) -> list[float] | None:
        """Return the silos' test accuracies of a round; None where they were not kept."""
        kept = (self.content.get("best"), self.content.get("earlier"), self.content.get("last"))
        found = next((at["accuracy"] for at in kept if at is not None and at["round"] == round), None)
        clients = self.content.get("clients")
        if found is None and clients:
            found = clients[self.rounds["round"].index(round)]
        return None if found is None else _all_or_nan(found)

    @property
    def trainings_ahead(self) -> float:
        """The number of local trainings that its evaluated models have had beyond one per round.

        None where silos go on to their own end: they stop where they want to.
        """
        if self.content.get("ending"):
            return 0.0
        asked = self.content["asked"]
        return methods.trainings_ahead(asked["method"], asked.get("set", {}), int(self.content["resolved"]["epochs"]))

    @property
    def diverged(self) -> str:
        """The words "diverged in round 3", without the round where it is not known; empty if it did not diverge."""
        said = [warning for warning in self.content["warnings"] if DIVERGES in warning]
        if not said:
            return ""
        known = self.content.get("warned", {})
        first = min((known[warning] for warning in said if warning in known), default=self._first_refused())
        return "diverged" if first is None else f"diverged in round {first}"

    def _first_refused(self) -> int | None:
        """Return the first round in which a silo was missing, for records that do not say when a warning came first.

        None where silos were missing for other reasons: they were sampled, or dropped out.
        """
        options, counts = self.content["resolved"], self.rounds.get("took_part", [])
        if options.get("drop") or options.get("participation", 1.0) != 1.0:
            return None
        return next((r for r, n in zip(self.rounds["round"], counts, strict=False) if n < len(self.silos)), None)

    @property
    def trouble(self) -> str:
        """The reasons why this run is no fair example of its method; empty if it is one.

        It diverged, or its attention became another method's.
        """
        words = {"collapsed to self": "attention collapsed to self", "attention is uniform": "uniform attention"}
        said = [told for sign, told in words.items() if any(sign in warning for warning in self.content["warnings"])]
        return " and ".join([*([self.diverged] if self.diverged else []), *said])

    @property
    def block_score(self) -> float | None:
        return self.content["block_score"]

    @property
    def seconds(self) -> float:
        return float(self.content["seconds"])

    @cached_property
    def weights(self) -> dict[int, Array]:
        """Collaboration weights [m, m] by round: of all rounds with few silos, else of the last."""
        file = self.path.with_suffix(".npz")
        if not file.exists():
            return {}
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {int(round): archive[round].astype(np.float32) for round in archive.files}
        except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
            again = f"remove it and {self.path.name} to run it again"
            raise InputError(f"{file} cannot be read ({error}): {again}") from error


def _or_nan(value: Score) -> float:
    return math.nan if value is None else float(value)


def _all_or_nan(values: Sequence[Score]) -> list[float]:
    return [_or_nan(value) for value in values]
