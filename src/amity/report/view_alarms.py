"""Alarms: what a reader should know of a run before trusting it.

Those about who learns from whom look at the last rounds that have weights, and count a weight by its size, as a share
of all that its silo takes (a row is made to sum to 1). A state of the attention is told when it has lasted for
`SEVERAL` rounds, or for as many as there are: in one round it may be an accident.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from amity.config.ending import all_rounds
from amity.metric import METRICS
from amity.record import Record, delivered, score_of
from amity.record.files import Array
from amity.record.round_line import WITHHELD
from amity.report.contents import Alarm, Level
from amity.report.view_course import REFUSED
from amity.statistics import SEVERAL

Floats = npt.NDArray[np.float64]

SELF = 0.99
"""The share of its own model from which on a silo is alone: what a hundredth brings is less than a seed does."""

ALIKE = 0.05
"""The part of a silo's mixture that may be its own choice where all get the same: a twentieth moves no model."""

UNHEARD = 0.1
"""Of an equal share: a silo that nobody gives more than a tenth of that is not listened to."""

DOMINATES = 0.5
"""The share of all that others take from others, from which on one silo decides more than all the rest together..."""

TIMES_EQUAL = 2.0
"""... if that is also twice an equal share: of three silos each gives the others half."""

NEGATIVE = -0.01
"""The own weight below which a silo learns against itself. Learnt weights tremble around zero by less."""

OFTEN = 1 / 3
"""The share of its rounds in which a silo was missing, from which on its model is that of another federation."""

FEWEST = 3
"""Rounds that a silo must have missed for that: one of two is no habit."""

NAMED = 8
"""Silos that are named in a sentence; the others are counted."""

TOO_FEW = "fewer uploads than"
"""How the reason begins where a round came to nothing because it was below its quorum."""

ATTENTION_WARNINGS = ("attention has collapsed", "attention is uniform")
"""Warnings of rounds that are told as alarms about the matrix."""


class Shares(NamedTuple):
    """The weights of some rounds as shares."""

    rounds: list[int]
    own: Floats  # of the silo's own model; NaN: not asked  # [rounds, m]
    others: Floats  # of all other models, 0 on the diagonal  # [rounds, m, m]


def shares_of(weights: Mapping[int, Array]) -> Shares:
    """Return the weights of the last rounds as shares of what each silo takes."""
    rounds = sorted(weights)[-SEVERAL:]
    sizes = np.abs(np.stack([np.asarray(weights[round], dtype=np.float64) for round in rounds]))
    total = sizes.sum(2, keepdims=True)
    total[~(np.isfinite(total) & (total > 0))] = np.nan
    share = sizes / total  # [rounds, m, m]
    own = np.diagonal(share, axis1=1, axis2=2).copy()
    others = share.copy()
    others[:, np.arange(share.shape[1]), np.arange(share.shape[1])] = 0.0
    return Shares(rounds, own, others)


def attention_alarms(weights: Mapping[int, Array], silos: Sequence[str]) -> list[Alarm]:
    """Return what is strange about who learns from whom."""
    if not weights or len(silos) < 2:
        return []
    shares = shares_of(weights)
    asked = ~np.isnan(shares.own)  # [rounds, m]
    found: list[Alarm] = []
    if asked.any(1).all() and (shares.own[asked] >= SELF).all():
        found.append(
            _alarm(
                "warning",
                "collapsed to self",
                f"every silo keeps at least {SELF:.0%} of its own model: this is separate training",
                rounds=shares.rounds,
            )
        )
    elif (asked.sum(1) >= 2).all() and _alike(shares):
        found.append(
            _alarm(
                "warning",
                "uniform attention",
                f"all silos get the same mixture but for {ALIKE:.0%}: this is one average for everybody, "
                "whatever the colours of the map",
                rounds=shares.rounds,
            )
        )
    elif asked.any():
        parts = _parts(shares)
        found += _unheard(parts, silos, shares.rounds)
        found += _dominant(parts, silos, shares.rounds)
    return found + _negative(weights, silos)


def _alike(shares: Shares) -> bool:
    """Return whether no silo's mixture differs from the mean one by more than `ALIKE`, in any of the rounds."""
    for own, others in zip(shares.own, shares.others, strict=True):
        rows = others[~np.isnan(own)] + np.diag(own)[~np.isnan(own)]
        rows = np.nan_to_num(rows)
        if (np.abs(rows - rows.mean(0)).sum(1) / 2).max() > ALIKE:
            return False
    return True


def _parts(shares: Shares) -> Floats:
    """Return each giver's part of what a silo takes from others; NaN on the diagonal and for who takes nothing."""
    taken = shares.others.sum(2, keepdims=True)  # [rounds, m, 1]
    taken[~(taken > 1 - SELF)] = np.nan
    parts: Floats = shares.others / taken
    parts[:, np.arange(parts.shape[1]), np.arange(parts.shape[1])] = np.nan
    return parts  # [rounds, m, m]


def _unheard(parts: Floats, silos: Sequence[str], rounds: Sequence[int]) -> list[Alarm]:
    """Return the silos that nobody else listens to, where silos listen to others at all."""
    known = ~np.isnan(parts)
    most = np.where(known, parts, 0.0).max(axis=(0, 1))  # [m]
    unheard: list[bool] = (known.any(axis=(0, 1)) & (most < UNHEARD / (len(silos) - 1))).tolist()
    found = [silo for silo, alone in zip(silos, unheard, strict=True) if alone]
    if not found:
        return []
    words = f"nobody listens to {_named(found)}: their data help no other silo"
    return [_alarm("remark", "nobody listens", words, found, rounds)]


def _dominant(parts: Floats, silos: Sequence[str], rounds: Sequence[int]) -> list[Alarm]:
    """Return the silo that gives others more than all the rest together, in every one of the rounds."""
    known = ~np.isnan(parts)
    if len(silos) < 3 or not known.any(1).all():
        return []
    mean = (np.where(known, parts, 0.0).sum(1) / known.sum(1)).min(0)  # of the round where it gives least  # [m]
    first = int(mean.argmax())
    if mean[first] < max(DOMINATES, min(0.99, TIMES_EQUAL / (len(silos) - 1))):
        return []
    words = f"{silos[first]} gives {mean[first]:.0%} of what silos take from others: all are drawn to its data"
    return [_alarm("warning", "one silo dominates", words, [silos[first]], rounds)]


def _negative(weights: Mapping[int, Array], silos: Sequence[str]) -> list[Alarm]:
    """Return the silos whose own model counts against them, in any round."""
    own = {round: np.diagonal(np.asarray(matrix, dtype=np.float64)) for round, matrix in sorted(weights.items())}
    rounds = [round for round, values in own.items() if (values < NEGATIVE).any()]
    if not rounds:
        return []
    found = [silo for place, silo in enumerate(silos) if any(values[place] < NEGATIVE for values in own.values())]
    words = f"{_named(found)} gave the own model a negative weight: what was learnt at home is subtracted"
    return [_alarm("warning", "negative self weight", words, found, rounds)]


def course_alarms(record: Record) -> list[Alarm]:
    """Return what happened in a run's rounds that a reader should know: warnings, absences, refusals, an early end."""
    return [
        *_unfinished(record),
        *_below_agreement(record),
        *_below_quorum(record),
        *_warned(record),
        *_withheld(record),
        *_refused(record),
        *_often_gone(record),
    ]


def _unfinished(record: Record) -> list[Alarm]:
    done, asked = len(record.lines), all_rounds(record.config)
    if done >= asked and record.summary is not None:
        return []
    words = f"{done} of {asked} rounds are on record: numbers are those of the rounds so far"
    return [_alarm("warning", "unfinished", words)]


def _below_agreement(record: Record) -> list[Alarm]:
    """Return what a run between organisations has not kept of its contract; its last event says it."""
    ends = [event.words for event in record.events if event.what == "ended" and event.words]
    return [_alarm("warning", "less than was agreed", ends[-1])] if ends else []


def _below_quorum(record: Record) -> list[Alarm]:
    """Return the rounds in which uploads came, but fewer than were agreed to be enough."""
    rounds = [
        line["round"] for line in record.lines if any(w.startswith(TOO_FEW) for w in line.get("dropped", {}).values())
    ]
    if not rounds:
        return []
    words = f"{len(rounds)} of {len(record.lines)} rounds had fewer uploads than a round needs, and came to nothing"
    return [_alarm("warning", "below quorum", words, rounds=rounds)]


def _warned(record: Record) -> list[Alarm]:
    """Return the warnings of rounds, each once."""
    rounds: dict[str, list[int]] = {}
    for line in record.lines:
        for warning in line["warnings"]:
            if not warning.startswith(ATTENTION_WARNINGS) and WITHHELD not in warning:
                rounds.setdefault(warning, []).append(line["round"])
    return [_alarm("warning", "warning", words, rounds=said) for words, said in rounds.items()]


def _withheld(record: Record) -> list[Alarm]:
    """Return the silos that keep their scores to themselves in the round that is delivered."""
    given = delivered(record.lines)
    kept = [] if given is None else given.get("withheld", [])
    found = [silo for silo, alone in zip(record.silos, kept, strict=False) if alone]
    if given is None or not found:
        return []
    title = METRICS[score_of(record.facts)].title
    words = (
        f"{title} {WITHHELD} {_named(found)}, where it rests on too few examples (min_count): means are over the other "
        f"{len(record.silos) - len(found)} silos"
    )
    return [_alarm("remark", "withheld scores", words, found, [given["round"]])]


def _refused(record: Record) -> list[Alarm]:
    """Return the silos whose uploads came and were not taken, by reason."""
    found: dict[str, dict[str, list[int]]] = {}
    for line in record.lines:
        for silo, why in line.get("dropped", {}).items():
            if why.startswith(REFUSED):
                found.setdefault(why, {}).setdefault(silo, []).append(line["round"])
    return [
        _alarm(
            "warning",
            "refused uploads",
            f"{_named(list(silos))}: {why}",
            list(silos),
            sorted({round for rounds in silos.values() for round in rounds}),
        )
        for why, silos in found.items()
    ]


def _often_gone(record: Record) -> list[Alarm]:
    """Return the silos that were missing in many of the rounds that they were asked for."""
    gone: dict[str, list[int]] = {}
    asked: dict[str, int] = {}
    for line in record.lines:
        missing = line.get("dropped", {})
        for silo in {*missing, *line.get("took_part", ())}:
            asked[silo] = asked.get(silo, 0) + 1
        for silo in missing:
            gone.setdefault(silo, []).append(line["round"])
    found = {
        silo: rounds
        for silo in record.silos
        if len(rounds := gone.get(silo, [])) >= max(FEWEST, OFTEN * asked.get(silo, 1))
    }
    if not found:
        return []
    counts = [f"{silo} in {len(rounds)} of {asked[silo]} rounds" for silo, rounds in found.items()]
    rest = f" and {len(counts) - NAMED} others" if len(counts) > NAMED else ""
    words = f"missing often: {', '.join(counts[:NAMED])}{rest}"
    return [
        _alarm("remark", "often absent", words, list(found), sorted({r for rounds in found.values() for r in rounds}))
    ]


def _named(silos: Sequence[str]) -> str:
    rest = f" and {len(silos) - NAMED} others" if len(silos) > NAMED else ""
    return ", ".join(silos[:NAMED]) + rest


def _alarm(level: Level, title: str, words: str, silos: Iterable[str] = (), rounds: Iterable[int] = ()) -> Alarm:
    return {"level": level, "title": title, "words": words, "silos": list(silos), "rounds": list(rounds)}
