"""What a silo finds out for itself when a run is over; nothing of it is sent.

    STATE/runs/<run>/
      model.safetensors, model.json   its personal model (`model_file.py`), written whenever it was told to keep one
      alone/, alone.safetensors       the model that it trains alone, to compare: state by round, and weights
      predictions.npz                 what either model says about each of its test examples
      verdict.json, report.md         which of them is better for it, for programs and for people

`finish` may be called again at any time: it goes on where it was, and does nothing where all is there. A worker calls
it for every run that is over when there are no more messages (`finish_due`), for training alone takes as long as the
whole run did, and neither the server nor the other silos have to wait for that.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from amity.contract import Method, Model, Score, Silo
from amity.errors import InputError
from amity.federation.messages import Commit, Keep, Train
from amity.federation.plan import Plan
from amity.federation.safe_files import lock
from amity.learn.task import Task
from amity.learn.threads import one_thread
from amity.methods.ended import Ended, with_ending
from amity.methods.separate import Separate
from amity.predicting.model import outputs_of, restored
from amity.predicting.outcomes import outcome
from amity.record.contents import ModelFacts
from amity.record.files import load_json, plain, save_arrays, to_json
from amity.record.files import replace as put
from amity.site import agreement, ending
from amity.site.config import Site
from amity.site.data import prepared
from amity.site.ending import VERDICT
from amity.site.keeping import KeptSilo, writing
from amity.site.model_file import WEIGHTS, read_facts, read_weights, write_weights
from amity.site.verdict import Verdict, report
from amity.worth import paired, shares
from amity.worth.judgement import judged, with_training
from amity.worth.paired import Difference
from amity.worth.shares import Answers

REPORT, ALONE, PREDICTIONS = "report.md", "alone.safetensors", "predictions.npz"

_log = logging.getLogger("amity.site")


class Alone(NamedTuple):
    """The model that the silo has trained alone."""

    model: Model
    round: int


def finish_due(site: Site) -> list[Verdict]:
    """Finish every run that is over and has no verdict yet. What goes wrong with one is no matter for the others."""
    found = []
    for run in ending.waiting(site):
        try:
            found.append(finish(site, run))
        except Exception as error:
            _log.error("run %s cannot be finished", run, exc_info=error)
    return found


def finish(site: Site, run: str) -> Verdict:
    """Train a model alone, compare it with the personal one, and write what came of it."""
    folder = site.run(run)
    agreed = agreement.load(site, run)
    if agreed is None or not (folder / WEIGHTS).exists():
        raise InputError(f"silo {site.name} has no model of run {run!r} yet: wait until the run has one")
    with one_thread(), writing(site), lock(folder / "finish.lock"):  # another process may be at it: then it is awaited
        facts = read_facts(folder)
        if (folder / VERDICT).exists():
            known: Verdict = load_json(folder / VERDICT)
            if known["round"] == facts["round"]:
                return known
        (silo,) = prepared(site, agreed.contract.data, agreed.contract.options).silos
        plan = agreement.plan_of(site, agreed)
        end = ending.ended(folder)
        rounds = facts["round"] if end is None else end["round"]
        alone = train_alone(plan, agreed.silo, silo, rounds, folder / "alone")
        write_weights(folder / ALONE, plan.task, alone.model)
        personal = read_weights(folder / WEIGHTS, plan.task)
        ended = rounds == plan.rule.ending  # the last of these was no round of the method, but the ending
        return write_verdict(folder, facts, plan.task, silo, personal, alone, rounds - ended, ended=ended)


def train_alone(plan: Plan, client: int, silo: Silo, rounds: int, folder: Path) -> Alone:
    """Train with the silo's own data only: as `separate` does, with the run's solver, in every round.

    Its validation data choose the round, where it has some; else it is the last. In a run with an ending the model goes
    on to its own end as well, and that is the one to compare with.
    """
    method: Method = Separate()
    if isinstance(plan.method, Ended):
        method = with_ending(method, plan.method.rounds, plan.method.epochs, "auto", False)
    rule = replace(plan.rule, participation=1.0, drop=0.0)
    # Of a model that stays here nobody is told anything: it needs no noise, and all of its scores count.
    own = plan._replace(method=method, rule=rule, privacy=None, min_count=1)
    side = KeptSilo(own, client, silo, folder)
    try:
        if side.pending is not None:
            side.answer(Commit(plan.run, side.pending.round, client, "accepted"))
        metric = plan.task.metric
        best = metric.failed
        if side.kept is not None and side.data.val is not None:
            best = plan.task.evaluate(side.delivered(), side.data.val, side.unit).main
        for round in range(side.committed + 1, rounds + 1):
            down = method.download({}, torch.tensor([client]), round, lambda role, key: torch.Generator())
            side.answer(Train(plan.run, round, client, down.to(0)))
            side.answer(Commit(plan.run, round, client, "accepted"))
            if round == own.rule.ending:
                side.answer(Keep(plan.run, round, client, None))
                break
            val = None if side.data.val is None else side.measure(round, None).val
            if val is not None and metric.beats(val, best):
                best = val
                side.answer(Keep(plan.run, round, client, None))
        if side.kept is None:
            side.answer(Keep(plan.run, side.committed, client, None))
        assert side.kept is not None
        return Alone(side.delivered(), side.kept.round)
    finally:
        side.close()


def write_verdict(
    folder: Path,
    facts: ModelFacts,
    task: Task,
    silo: Silo,
    personal: Model,
    alone: Alone,
    rounds: int,
    *,
    ended: bool = False,
) -> Verdict:
    """Compare two models on the silo's test data, and write all that is known."""
    scores = {"personal": _score(task, silo, personal), "alone": _score(task, silo, alone.model)}
    score = task.metric.key
    seen, why = _difference(task, silo, personal, alone.model, scores)
    difference = with_training(seen, score)
    judgement, words = judged(difference, score, why)
    told = Verdict(
        run=facts["run"],
        silo=silo.name,
        contract=facts["contract"],
        method=facts["method"],
        rounds=rounds,
        ended=ended,
        round=facts["round"],
        alone_round=alone.round,
        examples=len(silo.test.y),
        score=score,
        personal=scores["personal"].main,
        alone=scores["alone"].main,
        difference=difference.points,
        low=difference.low,
        high=difference.high,
        level=paired.LEVEL,
        judgement=judgement,
        words=words,
        metrics={name: dict(score.metrics) for name, score in scores.items()},
    )
    verdict: Verdict = plain(told)  # as it will be read: what is undefined is null
    _write_predictions(folder / PREDICTIONS, task, silo, {"personal": personal, "alone": alone.model}, facts)
    put(folder / REPORT, report(verdict).encode())
    put(folder / VERDICT, to_json(verdict, indent=1))  # last: where it is, all is there
    return verdict


def _score(task: Task, silo: Silo, model: Model) -> Score:
    test = task.prepare(silo.test)
    outputs = outputs_of(task, model, test.x)
    return task.scores(outputs, test.y, [len(test.y)], [0.0], [silo.scale.unit])[0]


def _difference(
    task: Task, silo: Silo, personal: Model, alone: Model, scores: Mapping[str, Score]
) -> tuple[Difference, str]:
    """Return how much better the personal model is by the run's main score, or why that cannot be said."""
    first, second = (scores[name].each.numpy(force=True) for name in ("personal", "alone"))
    score = task.metric.key
    if score == "accuracy":
        return paired.of_outcomes(first, second), ""
    if score == "r2":
        return paired.of_errors(first, second, silo.test.y.numpy(force=True) * silo.scale.unit), shares.NO_R2
    said, said_alone = (Answers(**outcome(task, silo, model)) for model in (personal, alone))
    return shares.compared(score, said, said_alone)


def _write_predictions(file: Path, task: Task, silo: Silo, models: dict[str, Model], facts: ModelFacts) -> None:
    """Probabilities of every class, or quantities in the silo's own unit."""
    test, scale = task.prepare(silo.test), silo.scale
    found = {"y": (silo.test.y if task.classes else restored(silo.test.y, scale)).numpy(force=True)}
    for name, model in models.items():
        outputs = outputs_of(task, model, test.x)
        found[name] = (outputs.softmax(1) if task.classes else restored(outputs[:, 0], scale)).numpy(force=True)
    if facts["labels"] is not None:
        found["labels"] = np.array(facts["labels"])
    save_arrays(file, found)
