"""Notes on what users should know of their own silos before they trust a score. Nothing is refused: it may be meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from amity.contract import Silo
from amity.data.schema.columns import SHOWN, leave_out, listed

FEW = 5  # test examples: with fewer, each counts for more than a fifth of the score
MANY, RISING = 20, 10  # different whole numbers that are no accident; fewer are enough where they rise or fall
FAR = 1e3  # ratio of the deviations of two features beyond which no learning rate suits both
HEAD = 1000  # rows that are enough to rule out most columns
BLOCK = 2**20  # numbers looked at together, so that what is made of them is small

Flags = npt.NDArray[np.bool_]


def on_silos(silos: Sequence[Silo], classes: int) -> tuple[str, ...]:
    """Return notes on silos with one class, or with hardly anything to test on."""
    trained = [silo.name for silo in silos if classes and _one(silo.train.y)]
    tested = [silo.name for silo in silos if classes and _one(silo.test.y) and len(silo.test.y) >= FEW]
    few = [f"{silo.name} ({len(silo.test.y)})" for silo in silos if len(silo.test.y) < FEW]
    notes = {
        "one class to train on": (trained, "training there alone teaches nothing else"),
        "one class to test on": (tested, "a model that always says it is never wrong there"),
        f"fewer than {FEW} examples to test on": (few, "scores there say little"),
    }
    return tuple(
        f"{'1 silo has' if len(names) == 1 else f'{len(names)} silos have'} {what}: {listed(names)}; {why}"
        for what, (names, why) in notes.items()
        if names
    )


def _one(y: Tensor) -> bool:
    return len(y) > 0 and bool((y == y[0]).all())


class Look(NamedTuple):
    """Statistics of the columns of one table."""

    rows: int
    constant: Flags  # [d] the same number in all rows
    counting: Flags  # [d] a different whole number in each row
    rising: Flags  # [d] larger from row to row, or smaller
    deviation: npt.NDArray[np.float64]  # [d]


def look(x: npt.NDArray[Any]) -> Look:
    """Return the statistics of a table, computed for some columns at a time."""
    step = max(1, BLOCK // len(x))
    found = [_look(x[:, start : start + step].astype(np.float64)) for start in range(0, x.shape[1], step)]
    constant, counting, rising, deviation = (np.concatenate(several) for several in zip(*found, strict=True))
    return Look(len(x), constant, counting, rising, deviation)


def _look(x: npt.NDArray[np.float64]) -> tuple[npt.NDArray[Any], ...]:
    counting = _counting(x[:HEAD])
    if len(x) > HEAD:
        counting[counting] = _counting(x[:, counting])
    with np.errstate(over="ignore", invalid="ignore"):  # numbers of 1e200 deviate by infinity
        steps = np.diff(x, axis=0)
        rising = (steps > 0).all(0) | (steps < 0).all(0)
        return np.asarray((x == x[:1]).all(0)), counting, np.asarray(rising), np.asarray(x.std(0))


def _counting(x: npt.NDArray[np.float64]) -> Flags:
    whole = (x == np.floor(x)).all(0)
    whole[whole] = (np.diff(np.sort(x[:, whole], axis=0), axis=0) > 0).all(0)
    return np.asarray(whole)


def on_columns(silos: Mapping[str, Sequence[Look]], names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return notes on columns that are an id or constant at every silo, and on features of very different scales."""
    every = [look for own in silos.values() for look in own]
    rows = max((look.rows for look in every), default=0)
    if rows < 2:
        return ()
    constant = np.all([look.constant for look in every], axis=0)
    counting = np.all([look.counting for look in every], axis=0) & ~constant
    rising = np.all([look.rising for look in every], axis=0)
    if rows < MANY:
        counting &= rising & (rows >= RISING)
    return (
        *_said(constant, names, "the same number in all rows of a silo, whichever silo it is", "it teaches nothing"),
        *_said(counting, names, "a different whole number in each row", "if that is an id, it is no feature"),
        *_scales({name: own[0].deviation for name, own in silos.items()}, ~(counting & rising), names),
    )


def on_scales(silos: Mapping[str, Sequence[Look]], names: Sequence[str]) -> tuple[str, ...]:
    """Return a note on features of very different scales."""
    return _scales({name: own[0].deviation for name, own in silos.items()}, np.ones(len(names), dtype=bool), names)


def _said(which: Flags, names: Sequence[str], what: str, why: str) -> tuple[str, ...]:
    found = [_called(place, names) for place in which.nonzero()[0].tolist()]
    if not found:
        return ()
    column = f"the column {found[0]} is" if len(found) == 1 else f"the columns {listed(found)} are"
    remedy = leave_out(*(names[place] for place in which.nonzero()[0][:SHOWN])) if names else "leave it out"
    return (f"{column} {what}: {why}, {remedy}",)


def _scales(silos: Mapping[str, npt.NDArray[np.float64]], which: Flags, names: Sequence[str]) -> tuple[str, ...]:
    far: dict[str, tuple[float, int, int]] = {}
    for name, deviation in silos.items():
        places = (which & (deviation > 0)).nonzero()[0]
        if len(places) > 1:
            low, high = (int(places[pick(deviation[places])]) for pick in (np.argmin, np.argmax))
            if deviation[high] > FAR * deviation[low]:
                far[name] = float(deviation[high] / deviation[low]), low, high
    if not far:
        return ()
    worst = max(far, key=lambda name: far[name][0])
    both = (f"{_called(place, names)} deviates by {silos[worst][place]:.2g}" for place in far[worst][1:])
    return (
        f"features are of very different scales at {listed(far)}: at {worst}, {' and '.join(both)}; the largest drowns "
        "the others, bring all to one scale at each silo",
    )


def _called(place: int, names: Sequence[str]) -> str:
    return repr(names[place]) if names else f"x[:, {place}]"
