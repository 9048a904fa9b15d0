"""Silos that answer with what their messages allow and no honest silo says: nobody else's run ends or changes by it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from networks import Trial, trial_of

from amity.federation.distant import LONGEST
from amity.federation.encoding import decode, encode
from amity.federation.messages import (
    Answer,
    Declined,
    Describe,
    Failed,
    Hello,
    Keep,
    Measure,
    Measured,
    Message,
    Propose,
    Standing,
    Train,
)
from amity.report import write_report

LIAR = 1
HUGE = 10**400  # JSON has such numbers, floats have not
WORDS = "\x1b[31m<script>alert(1)</script>\u202e" * 5000

Lie = Callable[[Message, Any], Answer]


def with_fields(**fields: Any) -> Lie:
    return lambda message, answer: answer._replace(**fields)


def with_member(**fields: Any) -> Lie:
    return lambda message, answer: answer._replace(member=json.dumps({**json.loads(answer.member), **fields}))


def failed(blame: Any) -> Lie:
    return lambda message, answer: Failed(message.run, message.round, LIAR, blame, WORDS)


def declined(message: Message, answer: Any) -> Answer:
    return Declined(message.run, message.round, LIAR, WORDS)


def with_measured(**fields: Any) -> tuple[type[Message], Lie]:
    return Measure, with_fields(**fields)


SCORES: dict[str, tuple[type[Message], Lie]] = {
    "an accuracy of 10^400": with_measured(main=HUGE),
    "an accuracy of -10^400": with_measured(main=-HUGE),
    "an accuracy of 10^308": with_measured(main=1e308),
    "an accuracy of 101": with_measured(main=101.0),
    "an accuracy below zero": with_measured(main=-5.0),
    "an endless accuracy": with_measured(main=math.inf),
    "a choice of 10^308": with_measured(val=1e308),
    "an endless choice": with_measured(val=math.inf),
    "a loss of 10^400": with_measured(loss=HUGE),
    "a loss of 10^308": with_measured(loss=1e308),
    "10^400 examples": with_measured(examples=HUGE),
    "examples below zero": with_measured(examples=-5),
    "metrics of 10^400": with_measured(metrics={"balanced_accuracy": HUGE, "macro_f1": 1.0, "auroc": 1.0}),
    "endless metrics": with_measured(metrics={"balanced_accuracy": math.inf, "macro_f1": 1.0, "auroc": 1.0}),
}
OTHERS: dict[str, tuple[type[Message], Lie]] = {
    "10^400 seconds": (Train, with_fields(seconds=HUGE)),
    "seconds below zero": (Train, with_fields(seconds=-1.0)),
    "a standing of 10^400": (Hello, with_fields(round=HUGE)),
    "a layout of markup": (Hello, with_fields(layout=WORDS)),
    "10^400 training examples": (Describe, with_member(size=HUGE)),
    "2^62 training examples": (Describe, with_member(size=2**62)),
    "a shape of floats": (Describe, with_member(shape=[1.0, 8.0, 8.0])),
    "a hash as long as a book": (Describe, with_member(data="a" * 1_000_000)),
    "a hash of markup": (Describe, with_member(data="<script>")),
    "markup for its description": (Describe, failed("code")),
    "a full disk in markup": (Propose, failed("room")),
    "markup for an upload": (Train, failed("upload")),
    "markup for a model kept": (Keep, failed("input")),
    "declined in markup": (Describe, declined),
    "declined in markup, later": (Propose, declined),
}


def conducted(folder: Path, name: str, kind: type[Message], lie: Lie) -> Trial:
    """A run of three silos, two of which are enough, in which the second lies whenever it is asked this."""
    trial = trial_of(folder, "fedavg", terms={"policy": "quorum", "quorum": 2})
    with trial.network() as network:

        def after(silo: str, message: Message, answer: bytes) -> bytes:
            lies = silo == "silo-01" and isinstance(message, kind)
            return encode(lie(message, decode(answer))) if lies else answer

        network.after = after
        trial.conduct(network)
    return trial


def check_others(trial: Trial, folder: Path) -> None:
    """The others come to the end, and what is told of the liar is short and does nothing to a page."""
    assert trial.phase in ("ended", "incomplete"), trial.status["words"]
    assert trial.steps["silo-00"] == trial.steps["silo-02"] == "finished" and len(trial.record.lines) == 3
    assert len(trial.status["silos"]["silo-01"]["words"]) <= LONGEST
    files = [file for file in trial.folder.rglob("*") if file.is_file() and file.suffix in (".json", ".jsonl")]
    assert all(file.stat().st_size < 100_000 and "\\u001b" not in file.read_text() for file in files)
    assert "<script>alert(1)" not in write_report([trial.record], folder / "report.html").read_text()


def some(names: Collection[str], *quick: str) -> list[Any]:
    """All of these, of which all but a few are tried in the slow suite alone."""
    assert not set(quick) - set(names)
    return [pytest.param(name, marks=[] if name in quick else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", some(SCORES, "an accuracy of -10^400", "a choice of 10^308", "10^400 examples"))
def test_a_score_that_no_model_can_have_is_none(name: str, tmp_path: Path) -> None:
    kind, lie = SCORES[name]
    trial = conducted(tmp_path, name, kind, lie)
    check_others(trial, tmp_path)
    for line in trial.record.lines:
        assert line["accuracy"] is not None and line["accuracy"][1] is None and line["val"] is None
        assert line["mean"] is not None and 0 <= line["mean"] <= 100
    refused = [event.words for event in trial.record.events if event.what == "refused"]
    assert len(refused) == 3 and all("score refused: its " in words or "cannot be read" in words for words in refused)


@pytest.mark.parametrize(
    "name",
    some(OTHERS, "10^400 seconds", "10^400 training examples", "markup for its description", "declined in markup"),
)
def test_what_no_honest_silo_says_ends_nobody_elses_run(name: str, tmp_path: Path) -> None:
    kind, lie = OTHERS[name]
    check_others(conducted(tmp_path, name, kind, lie), tmp_path)


def test_the_lies_are_told() -> None:
    """What a message cannot carry would prove nothing about its reader."""
    told = encode(Measured("trial", 1, LIAR, 5, HUGE, 1.0, {}))
    assert str(HUGE).encode() in told
    assert str(HUGE).encode() in encode(Standing("trial", HUGE, LIAR))
