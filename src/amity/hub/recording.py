"""The record of a run between silos elsewhere: the run directory of a simulation, without anything that stays at silos.

It lies in HUB/runs/<run>/record. Every silo that is invited has its place in it from the first round on, whether it has
come yet or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from amity import record
from amity.config.run import Run
from amity.errors import AmityError, DamagedFile
from amity.federation.events import Event, Listener, silent
from amity.federation.messages import Measured, absent
from amity.federation.reports import Progress, Round
from amity.federation.resume import Saved
from amity.federation.run_contract import RunContract
from amity.methods import trainings_ahead
from amity.metric import main_metric


class Journal:
    """Writes the record of a run, round by round; every round can be gone on from."""

    def __init__(self, folder: Path, contract: RunContract, run: Run, done: int) -> None:
        """`run`: the run as it was resolved, without any `auto`. `done`: the round that its server goes on from."""
        self.path = folder / "record"
        self._contract = contract
        config, facts = run.table(), _facts(contract, run)
        if record.begun(self.path):
            record.go_back(self.path, done)
            self._recorder, _ = record.Recorder.resume(self.path, config)
        else:
            self._recorder = record.Recorder.create(self.path, config, contract.invited, facts, force=True)
        if len(self.lines) not in (done, done - 1):
            self._recorder.close()
            raise DamagedFile(
                f"{self.path} has {len(self.lines)} rounds, the server goes on from round {done}: bring back a copy"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave a directory that can be read and gone on from, whatever has happened."""
        if isinstance(error, Exception):
            with suppress(AmityError):  # what has happened first is what is told
                self._recorder.interrupted()
        self._recorder.close()

    @property
    def lines(self) -> Sequence[record.Line]:
        """Rounds that are on record."""
        return self._recorder.lines

    @property
    def chosen_now(self) -> bool:
        """Whether validation data have chosen the round that was recorded last, in this process or before it."""
        last = self.lines[-1] if self.lines else None
        return last is not None and last["val"] is not None and record.delivered(self.lines) is last

    @property
    def chosen(self) -> bool:
        """Whether validation data choose the round to deliver."""
        given = record.delivered(self.lines)
        return given is not None and given.get("val") is not None

    def listen(self, event: Event) -> None:
        """Record an event."""
        self._recorder.listen(event)

    def add(self, report: Round, names: Sequence[str], tell: Listener = silent) -> record.Line:
        """Record a round, and make it one to go on from.

        That it is on record is told first: a run that goes on keeps what was told until its round was one.
        """
        line = self._recorder.add(placed(report, names, self._contract))
        tell(Event("recorded", report.round, words=record.in_words(line, ["mean"])))
        self._recorder.checkpoint(Saved(Progress(report.round, {}), ()))
        return line

    def finish(self) -> None:
        """Write the results."""
        if not self._recorder.finished:
            self._recorder.finish(())


def placed(report: Round, names: Sequence[str], contract: RunContract) -> Round:
    """A report in which every silo that was invited has its place, in the order of the invitation."""
    invited = contract.invited
    places = [invited.index(name) for name in names]
    scores = report.scores
    if scores is not None:
        by_place = {place: score._replace(silo=place) for place, score in zip(places, scores, strict=False)}
        scores = [
            _agreed(by_place.get(i) or absent(contract.name, report.round, i), contract) for i in range(len(invited))
        ]
    weights = report.weights
    if weights is not None:
        wide = torch.full((len(invited), len(invited)), torch.nan, dtype=weights.dtype)
        at = torch.tensor(places[: len(weights)])
        wide[at[:, None], at[None, :]] = weights
        weights = wide
    return report._replace(
        scores=scores,
        weights=weights,
        took_part=sorted(places[client] for client in report.took_part),
        dropped=_moved(report.dropped, places),
        epochs=_moved(report.epochs, places),
        spent=None if report.spent is None else _moved(report.spent, places),
    )


_BESIDE = ("loss", "val", "train_loss")  # what a silo measures that has a place of its own, as the main score has


def _agreed(score: Measured, contract: RunContract) -> Measured:
    """A score with the metrics that the contract announces, and no others; those that are not there are undefined."""
    beside = (main_metric(contract.options.metric, contract.data.classes).key, *_BESIDE)
    names = [one.name for one in contract.leaves if one.kind == "metric" and one.name not in beside]
    loss = None
    if contract.options.train_loss:
        loss = math.nan if score.train_loss is None else score.train_loss
    return score._replace(metrics={name: score.metrics.get(name, math.nan) for name in names}, train_loss=loss)


def _moved(numbered: Mapping[int, Any], places: Sequence[int]) -> dict[int, Any]:
    return {places[client]: value for client, value in numbered.items()}


def _facts(contract: RunContract, run: Run) -> dict[str, Any]:
    """What the record says beside the configuration: nothing that the contract does not say."""
    form = contract.data
    return {
        "method": run.method,
        "data": contract.consortium,
        "setting": "natural",
        "model": run.model,
        "clients": len(contract.invited),
        "seed": run.seed,
        "engine": "flare",
        "version": version("amity"),
        "groups": None,
        "notes": [],
        "labels": list(form.labels or ()),
        "label": None,
        "features": list(form.features or ()),
        "score": main_metric(run.metric, form.classes).key,
        "scales": None,
        "sha256": contract.hash(),
        "test_sha256": None,
        "trainings_ahead": trainings_ahead(run.method, run.settings, run.epochs),
    }
