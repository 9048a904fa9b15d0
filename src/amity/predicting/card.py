"""The card of a personal model: what it is, how good it is and what it is not for, on one page for people.

It is made from the record alone, and says nothing that the record does not hold. `amity export --to card` makes it
again, with what has been run beside it since.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
import torch

from amity.config.references import REFERENCES as NOBODY_JOINED
from amity.data.schema.columns import listed
from amity.errors import InputError
from amity.learn.metrics import TITLES, UNITS
from amity.logs import visible
from amity.predicting.interval import normal, wilson
from amity.predicting.markdown import code, plain
from amity.predicting.neighbours import ALONE, REFERENCES, references, told_by
from amity.predicting.table import schema_in
from amity.record import Record, file_names
from amity.record.contents import Holding, ModelFacts
from amity.record.directory import card_files
from amity.record.files import Array, replace, written_to
from amity.report.view_worth import worth_beside

SHOWN = 12  # classes or features that are named


def write_cards(record: Record) -> None:
    """Write the card of every personal model of a run beside it, and those of runs that are compared with it."""
    _write(record)
    for other in told_by(record):
        with suppress(InputError):  # what is damaged there is told when that run is read
            _write(other)


def _write(record: Record) -> None:
    beside, names = references(record), file_names(record.silos)
    verdicts = verdicts_of(record, beside)
    with written_to(record.path):
        for silo, file in zip(names, card_files(names.values()), strict=True):
            replace(record.path / file, card_of(record, silo, beside, verdicts).encode())


def verdicts_of(record: Record, beside: Mapping[str, Record]) -> dict[str, str]:
    """Return by silo whether joining was worth it, in words, where the silos have trained alone as well.

    In a run that is there to compare with nobody has joined anything.
    """
    if ALONE not in beside or record.results["method"] in NOBODY_JOINED:
        return {}
    return {one["silo"]: one["words"] for one in worth_beside(record, beside[ALONE])["silos"]}


def card_of(record: Record, silo: str, beside: Mapping[str, Record], verdicts: Mapping[str, str]) -> str:
    """Return the card of a silo's personal model.

    `beside`: runs to compare it with, by method. `verdicts`: by silo, whether joining was worth it.
    """
    facts = record.model_facts(silo)
    parts = [
        f"# Model card: {plain(silo)}",
        _about(record, facts),
        "## The data\n\n" + _data(record, silo, facts),
        "## How good it is\n\n" + _quality(record, silo),
        "## What it was compared with\n\n" + _compared(record, silo, beside, verdicts.get(silo)),
        "## What it must not be used for\n\n" + _limits(record, silo),
        "## Using it\n\n" + _use(facts),
        "## Where it comes from\n\n" + _origin(record),
    ]
    return "\n\n".join(parts) + "\n"


def _about(record: Record, facts: ModelFacts) -> str:
    labels = facts["labels"]
    says = "a quantity" if labels is None else f"one of {len(labels)} classes: {plain(listed(labels, SHOWN))}"
    kind = "a model of your own" if facts.get("own") else "the model"
    alone = facts["method"] == ALONE
    others = len(record.silos) - 1
    how = "trained by this silo alone" if alone else f"trained together with {others} other silo{'s' * (others != 1)}"
    chosen = record.results.get("chosen_by") or "last round"
    return (
        f"The personal model of the silo **{plain(facts['silo'])}**, {how}, by the method {code(facts['method'])}. "
        f"It is {kind} {code(facts['model'])}, takes examples of shape {tuple(facts['shape'])} and says {says}. It is "
        f"that of round {facts['round']} of {len(record.lines)} (chosen by: {plain(chosen)})."
    )


def _data(record: Record, silo: str, facts: ModelFacts) -> str:
    lines = []
    held = next((one for one in (record.manifest or {"silos": []})["silos"] if one["name"] == silo), None)
    if held is not None:
        lines += _sizes(held, facts)
    features = facts["features"]
    if features is not None:
        label = f"; the label is {code(name)}" if (name := facts.get("label")) else ""
        schema = schema_in(facts)
        named = features if schema is None else [column.name for column in schema.used]
        coded = "" if len(named) == len(features) else " made from the columns"
        lines.append(f"- {len(features)} features{coded or ':'} {plain(listed(named, SHOWN))}{label}")
    if facts["pixels"] and len(facts["shape"]) == 3:
        lines.append("- pixels 0 to 255 are scaled to -1 to 1")
    lines.append(f"- data {code(record.facts['data'])}, dealt by {code(record.facts['setting'])}")
    return "\n".join(lines)


def _sizes(held: Holding, facts: ModelFacts) -> list[str]:
    parts = {"training": held["train"], "validation": held["val"], "test": held["test"]}
    lines = []
    for name, counts in parts.items():
        if counts is not None:
            by_class = facts["labels"] is not None and 1 < len(counts) <= SHOWN
            pairs = zip(facts["labels"] or (), counts, strict=False)
            each = f" ({', '.join(f'{plain(label)}: {count}' for label, count in pairs)})" if by_class else ""
            lines.append(f"- {sum(counts)} {name} examples{each}")
    return lines


def _quality(record: Record, silo: str) -> str:
    each = record.predictions.get(silo, {}).get("delivered")
    if each is None or not len(each):
        return "It was not tested: the run has no test results of this silo."
    lines = [_main(each)]
    others = _metrics(record, silo)
    if others:
        lines.append("On the same examples: " + ", ".join(others) + ".")
    return "\n\n".join(lines)


def _main(each: Array) -> str:
    """The score of the delivered model with its interval."""
    count = len(each)
    if each.dtype == np.bool_:
        low, high = wilson(int(each.sum()), count)
        return (
            f"**Accuracy {100 * each.mean():.1f} %** on {count} test examples of its own silo, which no training has "
            f"seen. 95 % interval: {100 * low:.1f} to {100 * high:.1f} % (Wilson)."
        )
    errors = np.abs(each)
    low, high = normal(float(errors.mean()), float(errors.std()), count)
    return (
        f"**Mean absolute error {errors.mean():.4g}** in the label's own unit, on {count} test examples of its own "
        f"silo, which no training has seen. 95 % interval: {max(0.0, low):.4g} to {high:.4g} (normal)."
    )


def _metrics(record: Record, silo: str) -> list[str]:
    found = (record.results.get("metrics") or {}).get("delivered_per_client") or {}
    place = record.silos.index(silo)
    told = {name: values[place] for name, values in found.items() if place < len(values)}
    return [
        f"{TITLES.get(name, name)} {value:.4g}" + ("" if name in UNITS else " %")
        for name, value in told.items()
        if value is not None
    ]


def _compared(record: Record, silo: str, beside: Mapping[str, Record], verdict: str | None) -> str:
    own = _score(record, silo)
    scores = {method: _score(other, silo) for method, other in beside.items()}
    key = record.results.get("score") or "accuracy"
    share = key not in UNITS
    known = {method: score for method, score in scores.items() if score is not None}
    rows = [] if own is None else [_row(method, score, own, share) for method, score in known.items()]
    if not rows and record.facts["method"] == ALONE:
        return "It is the model that this silo trains alone: what models of silos that join are compared with."
    if not rows:
        return (
            "With nothing. Whether joining was worth it shows beside a model that the silo trains alone, which "
            "`amity run` and `amity compare` do unless they are told not to."
        )
    head = [f"| on the same test examples | {TITLES[key]}{' %' * share} | this model has |", "|---|---|---|"]
    caution = "A small difference may be chance: the report of the comparison has its interval."
    if verdict is not None:
        caution = (
            f"By joining, beside training alone: **{verdict}**. The report has the interval, and how it is reached."
        )
    return "\n".join([*head, *rows]) + f"\n\n{caution}"


def _row(method: str, score: float, own: float, share: bool) -> str:
    """Return a line of the table: percentages differ by points, others by their unit."""
    numbers = f"{score:.1f} | {own - score:+.1f} points" if share else f"{score:.4g} | {own - score:+.4g}"
    return f"| {REFERENCES[method]} | {numbers} |"


def _score(record: Record, silo: str) -> float | None:
    scores = record.results["per_client"]
    return scores[record.silos.index(silo)] if scores else None


def _limits(record: Record, silo: str) -> str:
    lines = [
        f"- For examples that are not like those of {plain(silo)}: other columns or devices, another population or "
        "time. It is fitted to one silo, and another silo's model may be better elsewhere.",
        "- As the only ground of a decision about a person. Its errors were counted on held-out examples of the same "
        "silo, not in use.",
    ]
    each = record.predictions.get(silo, {}).get("delivered")
    if each is not None and len(each) < 100:
        lines.append(f"- To promise its accuracy to anybody: {len(each)} test examples leave a wide interval.")
    if record.facts["setting"] not in ("natural", "own"):
        lines.append(
            "- As a product: this silo was made by dealing a data set, to compare methods; no organisation has it."
        )
    return "\n".join(lines)


def _use(facts: ModelFacts) -> str:
    if facts.get("own"):
        build = "amity.read_run('RUN', model=lambda: YourNetwork())"
        return f"    {build}.predict({facts['silo']!r}, 'FILE.csv')"
    name = shlex.quote(visible(facts["silo"]))
    return f"    amity predict RUN --silo {name} --data FILE.csv\n    amity export RUN --silo {name} --to onnx"


def _origin(record: Record) -> str:
    facts = record.facts
    hashed = facts.get("sha256")
    lines: Sequence[str] = [
        f"- seed {facts['seed']}, {len(record.lines)} rounds, {len(record.silos)} silos; `config.toml` runs it again",
        f"- Amity {facts['version']}; this card was written with torch {torch.__version__.partition('+')[0]} and "
        f"Python {platform.python_version()}",
        *([f"- SHA-256 of all silos' data: {code(hashed)}"] if hashed else []),
    ]
    return "\n".join(lines)
