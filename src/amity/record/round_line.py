"""The line of `rounds.jsonl` that an engine's report of a round becomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from amity import statistics
from amity.federation.messages import Measured
from amity.federation.reports import Round
from amity.metric import METRICS
from amity.record.contents import Line, MainScore, Scored
from amity.record.files import plain
from amity.record.summary import evaluated

WITHHELD = "is withheld by"
"""Part of the warning about silos that keep their scores to themselves, by which the report knows it."""

NAMED = 5  # silos with a warning of their own, if their models have failed


def line_of(round: Round, silos: Sequence[str], main: MainScore) -> Line:
    """Return what is recorded of a round. `main`: the score that rounds are compared by."""
    number = math.nan
    if round.weights is not None:
        numbers = statistics.collaborators(round.weights.detach().cpu().numpy())
        number = statistics.mean(numbers.tolist())
    line: Line = {
        "round": round.round,
        **_scored(round.scores, main),  # type: ignore[typeddict-item]  # it has no "holds", which comes last
        "bytes_up": round.bytes_up,
        "bytes_down": round.bytes_down,
        "bytes_eval": round.bytes_eval,
        "seconds": dict(round.seconds),
        "executed": round.executed,
        "took_part": [silos[client] for client in round.took_part],
        "dropped": {silos[client]: why for client, why in round.dropped.items()},
        "epochs": {silos[client]: epochs for client, epochs in round.epochs.items()},
        "collaborators": number,
        "warnings": [*round.warnings, *_failures(round.scores, silos)],
    }
    if round.bytes_spared:
        line["bytes_spared"] = round.bytes_spared
    if round.spent is not None:
        line["spent"] = {silos[i]: {**use._asdict(), "delta": delta} for i, (use, delta) in round.spent.items()}  # type: ignore[typeddict-item]
    if round.holds is not None:
        line["holds"] = dict(zip(silos, round.holds, strict=True))
    if round.ending:  # and the model has learnt from all examples, those that were held out too
        line["ending"], line["val"] = True, None
    return cast(Line, plain(line))


def about_scores(round: Round, silos: Sequence[str], main: MainScore, earlier: Sequence[Line]) -> list[str]:
    """Return warnings about silos without a main score. Either is said once: it is much the same in every round."""
    found = [] if evaluated(earlier) else left_out(round, silos, main)
    return found + ([] if any("withheld" in line for line in earlier) else kept_back(round, silos, main))


def left_out(round: Round, silos: Sequence[str], main: MainScore) -> list[str]:
    """Return a warning about silos that have test data but no main score, as one class has no AUROC; else nothing."""
    pairs = zip(silos, round.scores or (), strict=False)
    found = [silo for silo, score in pairs if score.examples and math.isnan(score.main) and not score.withheld]
    if not found:
        return []
    named = _named(found)
    title, why = METRICS[main].title, "one class" if METRICS[main].labels == "classes" else "one value"
    return [
        f"{title} is undefined at {len(found)} of {len(silos)} silos, whose test labels are of {why} only, "
        f"and no mean counts them: {named}"
    ]


def kept_back(round: Round, silos: Sequence[str], main: MainScore) -> list[str]:
    """Return a warning about silos that do not tell their main score, since it rests on too few examples."""
    pairs = zip(silos, round.scores or (), strict=False)
    found = [silo for silo, score in pairs if _withholds(score)]
    if not found:
        return []
    told = f"{METRICS[main].title} {WITHHELD} {len(found)} of {len(silos)} silos, where it rests on too few examples"
    return [f"{told} (min_count), and no mean counts them: {_named(found)}"]


def _withholds(score: Measured) -> bool:
    return score.withheld and math.isnan(score.main)


def _named(silos: Sequence[str]) -> str:
    return ", ".join(silos[:NAMED]) + (f" and {len(silos) - NAMED} more" if len(silos) > NAMED else "")


def _failures(scores: Sequence[Measured] | None, silos: Sequence[str]) -> list[str]:
    """Return warnings about silos that are left with a model that says nothing. Finite outputs have a finite loss."""
    if scores is None:
        return []
    failed = [silo for silo, score in zip(silos, scores, strict=True) if score.failed]
    advice = "it counts as failed; training diverges, try a smaller rate"
    if len(failed) > NAMED:
        return [f"{len(failed)} silos' models are not finite, silo {failed[0]}'s among them: each {advice[3:]}"]
    return [f"silo {silo}'s model is not finite: {advice}" for silo in failed]


def _scored(scores: Sequence[Measured] | None, main: MainScore) -> Scored:
    """Return what a line says of the silos' models. The order of the keys is part of the format."""
    if scores is None:
        nothing: Scored = {"mean": None, "worst": None, "val": None, "metrics": None}
        nothing[main] = None
        nothing |= {"loss": None, "train_loss": None, "per_silo": None}
        return nothing
    counts = [score.examples for score in scores]
    values: list[float | None] = [score.main for score in scores]
    known = [score.main for score in scores]
    per_silo = {name: [score.metrics[name] for score in scores] for name in scores[0].metrics if name != main}
    scored: Scored = {
        "mean": statistics.mean(known),
        "worst": statistics.worst(known, METRICS[main]),
        "val": statistics.mean([math.nan if score.val is None else score.val for score in scores]),
        "metrics": {name: statistics.mean(values) for name, values in per_silo.items()},
    }
    scored[main] = values
    scored["loss"] = [s.loss / n if n else math.nan for s, n in zip(scores, counts, strict=True)]
    scored["train_loss"] = None if scores[0].train_loss is None else [score.train_loss for score in scores]
    scored["per_silo"] = {name: [float(f"{value:.6g}") for value in values] for name, values in per_silo.items()}
    if any(map(_withholds, scores)):
        scored["withheld"] = [_withholds(score) for score in scores]
    return scored
