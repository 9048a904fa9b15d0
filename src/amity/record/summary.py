"""What a round's line says, and what the summary says of all lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amity import evaluate
from amity.contract import Round, Score
from amity.record.files import Array, plain

TOLD = ("method", "data", "setting", "model", "clients", "seed", "engine", "version")
"""Facts that the summary repeats; `Recorder.create` needs them all. "groups" is used where it is given."""

SUMMED = (
    "rounds",
    "bmta",
    "last",
    "worst",
    "per_client",
    "seconds",
    "bytes_up",
    "bytes_down",
    "bytes_eval",
    "block_score",
)
"""What every summary has beside them, also one of an earlier version."""

NAMED = 5  # silos with a warning of their own, if their models have failed


def line_of(round: Round, silos: Sequence[str], main: str) -> dict[str, Any]:
    number = math.nan
    if round.weights is not None:
        numbers = evaluate.collaborators(round.weights.detach().cpu().numpy())
        number = evaluate.mean(numbers.tolist())
    line = {
        "round": round.round,
        **_scored(round.scores, main),
        "bytes_up": round.bytes_up,
        "bytes_down": round.bytes_down,
        "bytes_eval": round.bytes_eval,
        "seconds": round.seconds,
        "executed": round.executed,
        "took_part": [silos[client] for client in round.took_part],
        "dropped": {silos[client]: why for client, why in round.dropped.items()},
        "epochs": {silos[client]: epochs for client, epochs in round.epochs.items()},
        "collaborators": number,
        "warnings": [*round.warnings, *_failures(round.scores, silos)],
    }
    if round.holds is not None:
        line["holds"] = dict(zip(silos, round.holds, strict=True))
    return {key: plain(value) for key, value in line.items()}


def _failures(scores: Sequence[Score] | None, silos: Sequence[str]) -> list[str]:
    """Who is left with a model that says nothing. Finite outputs have a finite loss."""
    if scores is None:
        return []
    failed = [silo for silo, score in zip(silos, scores, strict=True) if len(score.each) and _failed(score)]
    advice = "it counts as failed; training diverges, try a smaller rate"
    if len(failed) > NAMED:
        return [f"{len(failed)} silos' models are not finite, silo {failed[0]}'s among them: each {advice[3:]}"]
    return [f"silo {silo}'s model is not finite: {advice}" for silo in failed]


def _failed(score: Score) -> bool:
    return not math.isfinite(score.loss) or (score.each.is_floating_point() and not bool(score.each.isfinite().all()))


def _scored(scores: Sequence[Score] | None, main: str) -> dict[str, Any]:
    """What a line says about the silos' models; null all over in a round without evaluation."""
    if scores is None:
        return dict.fromkeys(("mean", "worst", "val", "metrics", main, "loss", "train_loss", "per_silo"))
    counts = [len(score.each) for score in scores]
    values = [score.main for score in scores]
    per_silo = {name: [score.metrics[name] for score in scores] for name in scores[0].metrics if name != main}
    return {
        "mean": evaluate.mean(values),
        "worst": evaluate.worst(values),
        "val": evaluate.mean([math.nan if score.val is None else score.val for score in scores]),
        "metrics": {name: evaluate.mean(values) for name, values in per_silo.items()},
        main: values,
        "loss": [s.loss / n if n else math.nan for s, n in zip(scores, counts, strict=True)],
        "train_loss": None if scores[0].train_loss is None else [score.train_loss for score in scores],
        "per_silo": {name: [float(f"{value:.6g}") for value in values] for name, values in per_silo.items()},
    }


def evaluated(lines: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rounds that were evaluated; with `evaluate_every` not all are."""
    return [line for line in lines if _per_client(line) is not None]


def _per_client(line: Mapping[str, Any]) -> list[float | None] | None:
    """Every silo's main score in a round: accuracy, or R2 where labels are quantities."""
    found: list[float | None] | None = line["r2"] if "r2" in line else line["accuracy"]
    return found


def values_of(line: Mapping[str, Any]) -> list[float]:
    """Every silo's main score. A mean is null only if a silo has failed, or if there is nothing to measure at all."""
    missing = -math.inf if line["mean"] is None else math.nan
    return [missing if value is None else value for value in _per_client(line) or ()]


def best_of(lines: Iterable[Mapping[str, Any]]) -> evaluate.Best | None:
    best = None
    for line in evaluated(lines):
        best = evaluate.better(best, line["round"], values_of(line))
    return best


def score_of(facts: Mapping[str, Any]) -> str:
    """The name of the main score: "accuracy", or "r2" where labels are quantities."""
    return str(facts.get("score", "accuracy"))


def _validated(lines: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The round that silos would choose by their validation data: the first with the best mean score on them."""
    known = [line for line in lines if line.get("val") is not None]
    return max(known, key=lambda line: line["val"], default=None)


def summarise(
    facts: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], weights: Array | None, seconds: float
) -> dict[str, Any]:
    """The results of the rounds so far. The order of the keys is part of the format."""
    best, measured, validated = best_of(lines), evaluated(lines), _validated(lines)
    told = {key: facts[key] for key in TOLD}
    main = score_of(facts)
    summary = {
        **{key: told[key] for key in ("method", "data", "setting", "model", "clients")},
        "rounds": len(lines),
        "seed": told["seed"],
        "score": main,
        "best": best.mean if best else None,
        "bmta": best.mean if best and main == "accuracy" else None,
        "best_round": best.round if best else None,
        "last": measured[-1]["mean"] if measured else None,
        "worst": evaluate.worst(best.accuracies) if best else None,
        "per_client": best.accuracies if best else [],
        "validated": validated["mean"] if validated else None,
        "validated_round": validated["round"] if validated else None,
        "validated_per_client": validated[main] if validated else None,
        "metrics": {
            "best": lines[best.round - 1].get("metrics") if best else None,
            "validated": validated["metrics"] if validated else None,
            "last": measured[-1].get("metrics") if measured else None,
            "last_per_client": measured[-1].get("per_silo") if measured else None,
        },
        "seconds": seconds,
        **{key: sum(line[key] for line in lines) for key in ("bytes_up", "bytes_down", "bytes_eval")},
        "block_score": None if weights is None else evaluate.block_score(weights, facts.get("groups")),
        "engine": told["engine"],
        "version": told["version"],
    }
    return {key: plain(value) for key, value in summary.items()}


def latest(weights: Mapping[int, Array]) -> Array | None:
    return weights[max(weights)] if weights else None
