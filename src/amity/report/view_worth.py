"""Verdicts on records: was joining worth it, for each silo and for all of them together?

A silo's personal model is compared with the model of the `separate` run of the same seed, on the same test examples, by
the predictions that both runs have kept. The rules are those of `amity.worth`.

Several seeds: natural silos and a user's own are the same in every seed, so each has one verdict, over its seeds. All
others are dealt anew with every seed: a name stands for another silo each time. The rows are then those of the first
seed, and the sentences count the silos of all seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from amity.config.references import ALONE, POOLED, REFERENCES
from amity.errors import InputError
from amity.metric import METRICS
from amity.record import Record, score_of, scores_of
from amity.record.files import Array
from amity.report.contents import Judgement, SiloVerdict, WorthView
from amity.report.partners import common, partner
from amity.report.series import Series, series_of
from amity.report.view_course import finite
from amity.report.view_ending import delivered_by
from amity.report.view_recovered import recovered_of
from amity.report.worth_words import rule, unequal
from amity.worth import consortium, judgement, paired, shares
from amity.worth.contents import Score
from amity.worth.paired import UNKNOWN, Difference
from amity.worth.recovered import harmed
from amity.worth.shares import Answers

SHARED = "fedavg"
"""The method whose global model is shown beside personal ones."""

ONE_MODEL = ("fedavg", "fedprox")
"""Methods that give every silo the same model."""

NO_ALONE = (
    "No verdicts: there is no run in which each silo trains alone. `amity run` and `amity compare` make one, unless "
    "--no-alone is given; `amity run separate` with the same options makes it afterwards: report both directories."
)
ELSEWHERE = (
    "No verdicts here: the silos are organisations of their own, and their predictions never left them. Each has found "
    "out for itself whether joining was worth it: `amity federation verdict`."
)
OTHER_DATA = (
    "No verdicts: the run in which each silo trains alone is of other silos, seeds, test examples or another model. "
    "Run `separate` with the same options."
)
NOBODY_JOINED = "No verdicts: all runs are references, no silo has joined anything. Add a method that learns together."


class Compared(NamedTuple):
    """One silo in one seed: the scores of three models, and the difference of two of them, over test examples only."""

    examples: int | None
    alone: float | None
    shared: float | None
    personal: float | None
    difference: Difference
    why: str = ""  # where the difference is not known


def worth_of(series: Sequence[Series]) -> tuple[list[WorthView], str]:
    """Return the verdicts of every method, the one to lead with first, or why there are none."""
    joined = [one for one in series if one.first.results["method"] not in REFERENCES]
    alone = [one for one in series if one.first.results["method"] == ALONE]
    if not joined:
        return [], NOBODY_JOINED
    if all(run.models_elsewhere for one in joined for run in one.runs):
        return [], ELSEWHERE
    pairs = [(one, other) for one in joined if (other := partner(one, alone))]
    if not pairs:
        return [], OTHER_DATA if alone else NO_ALONE
    lead, why = _chosen([one for one, _ in pairs])
    shared = [one for one in series if one.first.results["method"] == SHARED]
    found = [_worth(one, other, partner(one, shared)) for one, other in pairs]
    pooled = [one for one in series if one.first.results["method"] == POOLED]
    for view, (one, other) in zip(found, pairs, strict=True):
        view["choice"] = why if view["method"] == lead.name else ""
        if ceiling := partner(one, pooled):
            view["recovered"] = recovered_of(one, other, ceiling)
    return sorted(found, key=lambda view: view["method"] != lead.name), ""


def worth_beside(*runs: Record | None) -> WorthView:
    """Return the verdicts on a method, from its runs and those in which every silo trained alone; None: not run."""
    found, _ = worth_of(series_of([run for run in runs if run is not None]))
    if None in runs or not found:
        raise InputError("verdicts need the models that silos train alone, got none: run it with alone=True")
    return found[0]


def _chosen(candidates: Sequence[Series]) -> tuple[Series, str]:
    """Return the method to lead with, and how it was chosen, in words.

    The only method that gives silos models of their own; of several the one that validation data find best, where all
    have some; else the one with the best test results, which is then said.
    """
    personal = [one for one in candidates if one.first.results["method"] not in ONE_MODEL] or list(candidates)
    if len(personal) == 1:
        return personal[0], ""
    metric = METRICS[score_of(personal[0].first.facts)]
    validated = [_validated(one) for one in personal]
    if all(value is not None for value in validated):
        best = max(range(len(personal)), key=lambda place: metric.rank(validated[place] or 0.0))
        return personal[best], f"{personal[best].name} has the best validation results of {len(personal)} methods."
    tested = [found.mean if (found := one.over_seeds("delivered")) else metric.failed for one in personal]
    best = max(range(len(personal)), key=lambda place: metric.rank(tested[place]))
    return personal[best], (
        f"{personal[best].name} is shown because its test results are the best of {len(personal)} methods: whoever "
        "chooses by test results is a little too well off, so expect a little less. Validation data (--val-fraction) "
        "choose without looking."
    )


def _validated(one: Series) -> float | None:
    """Return the mean validation score of the rounds that a method delivers; None where a seed has none."""
    found = []
    for run in one.runs:
        round = run.results.get("delivered_round")
        value = run.lines[round - 1].get("val") if round else None
        if value is None:
            return None
        found.append(value)
    return math.fsum(found) / len(found)


def _worth(one: Series, alone: Series, shared: Series | None) -> WorthView:
    pairs = common(one, alone)
    globals_of = {run.results["seed"]: run for run in (shared.runs if shared else ())}
    by_seed = [
        {silo: _compared(run, against, globals_of.get(run.results["seed"]), silo) for silo in run.silos}
        for run, against in pairs
    ]
    groups = [by_seed] if one.same_silos or len(by_seed) == 1 else [[seed] for seed in by_seed]
    score = score_of(one.first.facts)
    verdicts = [[_verdict(silo, [seed[silo] for seed in group], score) for silo in group[0]] for group in groups]
    for verdict in verdicts[0]:
        verdict["delivers"] = delivered_by(verdict["silo"], [run for run, _ in pairs[: len(groups[0])]])
    every = [verdict for group in verdicts for verdict in group]
    counts = consortium.counted([verdict["judgement"] for verdict in every])
    differences = [verdict["difference"] for verdict in every if verdict["difference"] is not None]
    return {
        "method": one.name,
        "alone": alone.name,
        "shared": None if shared is None else shared.name,
        "silos": _with_seeds(verdicts),
        "gain": counts.gain,
        "lose": counts.lose,
        "level": counts.level,
        "unknown": counts.unknown,
        "mean": finite(math.fsum(differences) / len(differences)) if differences else None,
        "words": _answer(counts, pairs, len(groups)),
        "chance": consortium.beyond_chance(counts, differences, judgement.unit_of(score)),
        "rule": rule(score, len(pairs), unequal(*pairs[0]), dealt_anew=len(groups) > 1),
        "score": score,
        "harmed": harmed(counts),
    }


def _compared(run: Record, against: Record, shared: Record | None, silo: str) -> Compared:
    ours, theirs = (_each(record, silo) for record in (run, against))
    others = None if shared is None else _each(shared, silo)
    alone, common, personal = (_recorded(record, silo) for record in (against, shared, run))
    if ours is None or theirs is None or len(ours) != len(theirs):
        return Compared(None, alone, common, personal, UNKNOWN)
    score = score_of(run.facts)
    if score == "accuracy":
        difference = paired.of_outcomes(ours, theirs)
        return Compared(len(ours), _share(theirs), _share(others), _share(ours), difference)
    if score == "r2":
        around = paired.around_of(theirs, alone) or paired.around_of(ours, personal)
        difference = UNKNOWN if around is None else paired.of_squares(ours, theirs, around)
        return Compared(len(ours), alone, common, personal, difference, shares.NO_R2)
    said, said_alone = (_answers(record, silo) for record in (run, against))
    if said is None or said_alone is None:
        return Compared(len(ours), alone, common, personal, UNKNOWN, "its record holds no predictions")
    return Compared(len(ours), alone, common, personal, *shares.compared(score, said, said_alone))


def _share(right: Array | None) -> float | None:
    return None if right is None or not len(right) else 100 * float(right.mean())


def _each(record: Record, silo: str) -> Array | None:
    """Return right or wrong, or the error, of each test example with the delivered model; None where it is not kept."""
    return record.predictions.get(silo, {}).get("delivered")


def _answers(record: Record, silo: str) -> Answers | None:
    """Return what the delivered model says about each test example; None where it is not kept."""
    kept = record.predictions.get(silo, {})
    if "truth" not in kept or "predicted" not in kept:
        return None
    return Answers(kept["truth"], kept["predicted"], kept.get("probabilities"))


def _recorded(record: Record | None, silo: str) -> float | None:
    """Return a silo's main score with the delivered model, or of the last round so far."""
    round = None if record is None else record.results.get("delivered_round")
    if record is None or not round or silo not in record.silos:
        return None
    scores = scores_of(record.lines[round - 1])
    return finite(scores[record.silos.index(silo)]) if scores else None


def _verdict(silo: str, seeds: Sequence[Compared], score: Score) -> SiloVerdict:
    """Return the verdict on one silo, over the seeds that compare it."""
    difference = judgement.over_seeds([one.difference for one in seeds], score)
    judged, words = judgement.judged(difference, score, next((one.why for one in seeds if one.why), ""))
    examples = [one.examples for one in seeds if one.examples is not None]
    found: SiloVerdict = {
        "silo": silo,
        "examples": examples[0] if examples else None,
        "alone": _mean([one.alone for one in seeds]),
        "shared": _mean([one.shared for one in seeds]),
        "personal": _mean([one.personal for one in seeds]),
        "difference": finite(difference.points),
        "low": finite(difference.low),
        "high": finite(difference.high),
        "judgement": judged,
        "words": words,
    }
    if len(seeds) > 1:
        each = [judgement.judged(judgement.with_training(one.difference, score))[0] for one in seeds]
        found["over_seeds"] = each
    return found


def _with_seeds(groups: Sequence[Sequence[SiloVerdict]]) -> list[SiloVerdict]:
    """Return the rows of the first group; silos that are dealt anew have the judgements of their name in every seed."""
    rows = list(groups[0])
    if len(groups) == 1:
        return rows
    named: dict[str, list[Judgement]] = {}
    for group in groups:
        for verdict in group:
            named.setdefault(verdict["silo"], []).append(verdict["judgement"])
    return [{**row, "over_seeds": named[row["silo"]]} for row in rows]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return finite(math.fsum(known) / len(known)) if known else None


def _answer(counts: consortium.Counts, pairs: Sequence[tuple[Record, Record]], seeds: int) -> str:
    if not counts.compared and any(run.summary is None for pair in pairs for run in pair):
        return "Whether joining was worth it is known when both runs are finished."
    words = consortium.answer(counts)
    return words if seeds == 1 else f"{words[:-1]} (silos of {seeds} seeds, each dealt anew)."
