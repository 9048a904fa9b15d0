"""Messages: all that ever crosses between the server's side and a silo's side.

    server -> silo                          silo -> server
    Summarise(document)                     Summarised(summary)       | Declined
    Describe(document)                      Described(member)         | Declined
    Propose(document)                       Standing(committed, pending, layout) | Declined
    Hello(round, verdict)                   Standing
    Train(down)                             Upload(values)            | Failed
    Ask(down)                               Told(values)              | Failed
    Commit(verdict)                         Done
    Measure(down?)                          Measured(count, main, ...) | Failed
    Keep(down?)                             Done
    Joined(name, size, group)               Done
    Finish                                  Done

A silo that leaves answers with Left once what it has trained is settled, and to all that comes afterwards. One that is
referred to tensors of an earlier letter (`held.py`), and does not hold them any more, answers with Forgotten.

Each is a value that names its run, its round and its silo, and each has one encoding, the same for every engine
(`encoding.py`). What is not in a message's type cannot cross: no example, no prediction, no label scale, no
client state, no personal model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from amity.contract import Score, State
from amity.errors import AmityError, NoSpace

Verdict = Literal["accepted", "lost", "refused"]
"""What became of a silo's upload: it is part of the new server state, it never arrived, or it was not taken."""

Blame = Literal["input", "code", "upload", "room", "absent"]
"""What a failure is put down to: something that was given, code, an upload that is none, a disk or memory that is full,
or a silo that is away.

The last is said by a carrier about a silo that does not answer, never by the silo.
"""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class Summarise(NamedTuple):
    """The question what a silo's columns are; the document is the contract about a schema that it is asked for."""

    run: str
    round: int
    silo: int
    document: str  # JSON


class Summarised(NamedTuple):
    """A silo's summary of its own columns, of its training rows alone: see data/schema/summary.py."""

    run: str
    round: int
    silo: int
    summary: str  # JSON


class Describe(NamedTuple):
    """The question who a silo is; the document is the run that it is asked for, so that it can make its data ready."""

    run: str
    round: int
    silo: int
    document: str  # JSON


class Described(NamedTuple):
    """All that others will know of a silo before round 1: its line of the roster."""

    run: str
    round: int
    silo: int
    member: str  # JSON


class Propose(NamedTuple):
    """The run and the whole roster: what each side needs to come to the plan by itself."""

    run: str
    round: int
    silo: int
    document: str  # JSON


class Hello(NamedTuple):
    """The server begins or comes back: the last round that it has saved, and what became of the silo's last upload."""

    run: str
    round: int
    silo: int
    asked: int = 0  # the last round in which the silo was asked, as far as the server knows
    verdict: Verdict | None = None  # on that round


class Standing(NamedTuple):
    """Where a silo stands: the last round that it has committed, and the one that it has trained since, if any."""

    run: str
    round: int  # committed
    silo: int
    pending: int | None = None
    layout: str = ""  # a hash of the model's layout: both sides must have come to the same


class Train(NamedTuple):
    """The silo's turn in a round."""

    run: str
    round: int
    silo: int
    down: State


class Upload(NamedTuple):
    """What a silo sends back after its turn."""

    run: str
    round: int
    silo: int
    values: State
    seconds: float = 0.0  # of the turn


class Ask(NamedTuple):
    """A question of the method beside the silo's turns: before round 1, or about the uploads of a round."""

    run: str
    round: int
    silo: int
    down: State


class Told(NamedTuple):
    """A silo's answer to its method's question."""

    run: str
    round: int
    silo: int
    values: State


class Commit(NamedTuple):
    """What became of the silo's upload, said after the server has made its new state."""

    run: str
    round: int
    silo: int
    verdict: Verdict


class Measure(NamedTuple):
    """Evaluate the personal model after this round; `down` goes to methods that evaluate what the server has now."""

    run: str
    round: int
    silo: int
    down: State | None


class Measured(NamedTuple):
    """How a silo's personal model does on its own test data: a few numbers, and nothing about any one example."""

    run: str
    round: int
    silo: int
    examples: int  # that it was tested on
    main: float  # the run's main score, accuracy in percent, say; NaN where undefined
    loss: float  # summed over the examples
    metrics: Mapping[str, float]  # the others by name, NaN where undefined: see metric.py
    val: float | None = None  # the main score on its validation data, where it has some
    train_loss: float | None = None  # the mean loss on its training data, where that was asked for
    failed: bool = False  # the model gives numbers that are not finite
    withheld: bool = False  # some of these numbers rest on too few examples to be told (`small_counts.py`)


class Keep(NamedTuple):
    """Keep the personal model after this round: it is the one to deliver, unless a later one is better."""

    run: str
    round: int
    silo: int
    down: State | None


class Joined(NamedTuple):
    """One more silo is in the federation, at the end of the roster: all that the others get to know of it."""

    run: str
    round: int  # after which it joins
    silo: int  # that is told
    name: str
    size: int  # its training examples
    group: int | None = None  # the distribution it was drawn from, where that is known (simulation)


class Finish(NamedTuple):
    """The run is over: no message comes after it. The silo has its model, and compares it for itself."""

    run: str
    round: int  # the last one
    silo: int


class Done(NamedTuple):
    """The silo has done what it was asked."""

    run: str
    round: int
    silo: int


class Declined(NamedTuple):
    """The silo does not take part, or not yet: nobody there has approved the contract. Its data were not touched."""

    run: str
    round: int
    silo: int
    words: str


class Left(NamedTuple):
    """The silo has left the run, after the last round that it committed, with the personal model that it had then."""

    run: str
    round: int  # committed
    silo: int


class Forgotten(NamedTuple):
    """The silo does not hold the tensors that a message refers to: it has to be sent them."""

    run: str
    round: int
    silo: int


class Failed(NamedTuple):
    """The silo could not do what it was asked, and why: something given to it, its code, or an upload that is none."""

    run: str
    round: int
    silo: int
    blame: Blame
    words: str


Message = Summarise | Describe | Propose | Hello | Train | Ask | Commit | Measure | Keep | Joined | Finish
Answer = Summarised | Described | Declined | Standing | Upload | Told | Measured | Done | Left | Forgotten | Failed


def measured(run: str, round: int, silo: int, score: Score) -> Measured:
    """The message about a score, which leaves out what is known of single examples."""
    each = score.each
    broken = each.is_floating_point() and not bool(each.isfinite().all())
    failed = bool(len(each)) and (not math.isfinite(score.loss) or broken)
    numbers = score.main, score.loss, dict(score.metrics), score.val, score.train_loss
    return Measured(run, round, silo, len(each), *numbers, failed)


def absent(run: str, round: int, silo: int) -> Measured:
    """The line of a silo that has left, and measures nothing any more."""
    return Measured(run, round, silo, 0, math.nan, math.nan, {})


class Place(str):
    """A note that an error carries about where it was raised: silo, round and method."""


def blame_of(error: AmityError) -> Blame:
    """What an error that Amity raises on purpose is put down to."""
    return "room" if isinstance(error, NoSpace) else "input"


def failure(message: Message, error: Exception) -> Failed:
    """The message about what went wrong at a silo.

    Errors that Amity raises on purpose are told as they are. Of any other, only its kind and its place cross: its text
    is written by code that has seen the silo's data, and may quote them. The silo's own log has all of it.
    """
    if isinstance(error, AmityError):
        return Failed(*message[:3], blame_of(error), str(error))
    places = [note for note in getattr(error, "__notes__", ()) if isinstance(note, Place)]  # other notes may quote data
    where = "; ".join(places) or f"silo {message.silo}, round {message.round}"
    return Failed(*message[:3], "code", f"{where}: {type(error).__name__}, the silo's own log says more")
