"""What a run has brought to one silo: its personal model against one that it trained alone, on its own test data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

from amity.learn.metrics import TITLES, UNITS
from amity.worth.contents import Judgement, Score
from amity.worth.judgement import unit_of
from amity.worth.paired import LEVEL


class Verdict(TypedDict):
    """What `verdict.json` holds.

    Scores are in percent, the difference and its interval in points; RMSE and MAE are in the label's own unit, and
    differ by percent of the model alone's.
    """

    run: str
    silo: str
    contract: str  # its hash
    method: str
    rounds: int  # that either model was trained for
    ended: NotRequired[bool]  # whether both then went on alone, each to its own end
    round: int  # whose personal model is delivered
    alone_round: int  # whose model it is compared with
    examples: int  # to test on
    score: Score  # the main score of the run
    personal: float | None
    alone: float | None
    difference: float | None
    low: float | None
    high: float | None
    level: float
    judgement: Judgement
    words: str
    metrics: dict[str, dict[str, float | None]]  # of either model, by name


def report(verdict: Verdict) -> str:
    """The verdict as a page of text (Markdown), for people."""
    title = TITLES[verdict["score"]]
    run, silo, examples = verdict["run"], verdict["silo"], verdict["examples"]
    chance = f"{100 * LEVEL:.0f} %"
    lines = [
        f"# Silo {silo}, run {run}: {verdict['words']}",
        "",
        f"| on {examples:,} test examples of its own | {title} |",
        "|---|---|",
        f"| its own model, trained alone | {_metric(verdict['score'], verdict['alone'])} |",
        f"| its personal model, by {verdict['method']} | {_metric(verdict['score'], verdict['personal'])} |",
        f"| difference, with its {chance} interval | {_interval(verdict)} |",
        "",
        _explained(verdict),
        "",
        f"Both models were trained for {verdict['rounds']} rounds from the same first weights, by the same solver, "
        f"{_on(verdict)}, and tested on the same examples, which no training has seen. The model alone was "
        "trained here, after the run; nothing of it was sent. The interval counts both how few examples there are and "
        "how much two trainings differ anyway.",
        "",
        "## More about either model",
        "",
        "| | personal | alone |",
        "|---|---|---|",
        *_metric_rows(verdict["metrics"]),
        "",
        "## Files beside this one",
        "",
        f"- `model.safetensors`, `model.json`: the personal model of round {verdict['round']}; "
        f"`amity federation predict` uses it",
        f"- `alone.safetensors`: the model alone, of round {verdict['alone_round']}",
        "- `predictions.npz`: what either model says about each test example",
        "- `verdict.json`: the numbers of this page, for programs",
    ]
    return "\n".join(lines) + "\n"


def _on(verdict: Verdict) -> str:
    on = "on the same training examples"
    return f"{on}, then each to its own end" if verdict.get("ended") else on


def _explained(verdict: Verdict) -> str:
    said = {
        "gains": "The interval lies above zero: taking part has paid off for this silo.",
        "better alone": "The interval lies below zero: this silo does better with the model that it trained alone.",
        "no clear difference": "The interval includes zero: so many test examples do not show that either is better.",
        "cannot be compared": "There is nothing to compare: no test examples, a score that is undefined on them, or a "
        "model whose numbers are not finite.",
    }
    return said[verdict["judgement"]]


def _interval(verdict: Verdict) -> str:
    if verdict["difference"] is None:
        return "–"
    unit = unit_of(verdict["score"])
    return f"{verdict['difference']:+.2f} {unit} ({verdict['low']:+.2f} to {verdict['high']:+.2f})"


def _metric_rows(metrics: Mapping[str, Mapping[str, float | None]]) -> list[str]:
    personal, alone = metrics["personal"], metrics["alone"]
    return [
        f"| {TITLES[name]} | {_metric(name, personal[name])} | {_metric(name, alone.get(name))} |" for name in personal
    ]


def _metric(name: str, value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}" if name in UNITS else f"{value:.2f} %"
