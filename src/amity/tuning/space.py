"""Search spaces: which options are searched, and where.

A text says `KEY=LOW:HIGH`, `KEY=LOW:HIGH:log`, or `KEY=a,b,c`. Inside, an option of the run has its own name, and one
of its method is called as in "set.sigma". Where nobody says anything, the space is what options declare (`search=` of
`amity.config.options.option`), and a rate within a factor of ten of the method's own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from amity import methods
from amity.config.options import describe, fields_of, names_of, nearest, parse, unknown
from amity.config.run import Run
from amity.errors import InputError
from amity.models import MODELS
from amity.resolve import solver_of
from amity.trials import with_option

RATE_FACTOR = 10.0
"""The rate is searched from the method's own over this to the method's own times this."""

_PRIVATE = {"dp_epsilon", "dp_noise", "dp_clip", "dp_delta"}

NOT_SEARCHED = {
    *("method", "rounds", "val_fraction", "evaluate_every", "init_from", "train_loss", "metric", "min_count"),
    *("per_silo", *_PRIVATE),
    *names_of(Run, lambda role: role.deals or role.neutral),
}
"""Options of a run whose values cannot be compared by validation data, or that change no result."""


class Range(NamedTuple):
    """Numbers from `low` to `high`, both among them; `log`: equal ratios are equally likely."""

    low: float
    high: float
    log: bool = False
    whole: bool = False  # whole numbers only


class Choices(NamedTuple):
    """A few values."""

    values: tuple[Any, ...]


Space = Mapping[str, Range | Choices]
"""Where to search, by option: "lr", or "set.sigma" for one of the method's own."""


def searchable(method: str) -> dict[str, str]:
    """Return the options that may be searched: from what users type to what they are called inside."""
    of_run = {key: key for key in fields_of(Run) if key not in NOT_SEARCHED}
    return {**{key: f"set.{key}" for key in methods.known_options(method)}, **of_run}


def default_space(run: Run, fixed: Collection[str] = ()) -> dict[str, Range | Choices]:
    """Return where to search a method's options, with rate and epochs, as far as they are at their defaults.

    `fixed`: options that somebody has set, to whatever value.
    """
    space: dict[str, Range | Choices] = {}
    if run.lr == "auto" and "lr" not in fixed:
        rate = solver_of(run, run.method, methods.build(run.method, run.settings), sizes=[1]).rate
        space["lr"] = Range(rate / RATE_FACTOR, rate * RATE_FACTOR, log=True)
    declared: dict[str, tuple[type, str]] = {
        key: (Run, key) for key in ("epochs",) if getattr(run, key) == fields_of(Run)[key].default
    }
    declared |= {f"set.{key}": (cls, key) for key, cls in methods.known_options(run.method).items()}
    for name, (cls, key) in declared.items():
        text = fields_of(cls)[key].metadata["search"]
        if text and key not in fixed and key not in run.settings:
            space[name] = _dimension(cls, key, text)
    return space


def parse_space(texts: Sequence[str], run: Run) -> dict[str, Range | Choices]:
    """Read a space as the command line takes it; what is wrong with any of the texts is said all at once."""
    space: dict[str, Range | Choices] = {}
    wrong: list[str] = []
    for text in texts:
        try:
            name, dimension = _read(text, run.method)
            if name in space:
                raise InputError(f"{text.partition('=')[0].strip()} is given more than once")
            check_dimension(run, name, dimension)
            space[name] = dimension
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        raise InputError(f"--search cannot be used: {'; '.join(wrong)}")
    return space


def check_dimension(run: Run, name: str, dimension: Range | Choices) -> None:
    """Refuse a range or values that the option would refuse."""
    if name in NOT_SEARCHED:
        raise InputError(f"{name} cannot be searched: {_why_not(name)}")
    values = (dimension.low, dimension.high) if isinstance(dimension, Range) else dimension.values
    for value in values:
        if name == "model" and value not in ("auto", *MODELS):
            raise unknown("model", str(value), ["auto", *MODELS])
        one = with_values(run, {name: int(value) if isinstance(dimension, Range) and dimension.whole else value})
        method = methods.build(one.method, one.settings)
        solver_of(one, one.method, method, sizes=[1])


def _why_not(key: str) -> str:
    """Return why an option of a run is not searched, and what to do."""
    if key in _PRIVATE:
        return "trials train many times on the same examples, which the epsilon of one run does not cover: leave it out"
    return "it is the same in all trials, or their scores could not be compared: leave it out of --search"


def with_values(run: Run, values: Mapping[str, Any]) -> Run:
    """Return a run with these options in place of its own."""
    table: dict[str, Any] = run.table()
    for name, value in values.items():
        table = with_option(table, name, value)
    own = table.pop("set")
    return dataclasses.replace(run, **table, settings=own)


def _read(text: str, method: str) -> tuple[str, Range | Choices]:
    key, equals, words = text.partition("=")
    key, words = key.strip(), words.strip()
    if not equals or not key or not words:
        raise InputError(f"{text!r} is not KEY=LOW:HIGH, KEY=LOW:HIGH:log or KEY=a,b,c: try lr=0.001:0.1:log")
    known = searchable(method)
    if key not in known and key in fields_of(Run):
        raise InputError(f"{key} cannot be searched: {_why_not(key)}")
    if key not in known:
        raise InputError(f"{key} is no option of {method}: {nearest(key, known)}")
    name = known[key]
    owner = Run if name == key else methods.known_options(method)[key]
    return name, _dimension(owner, key, words)


def _dimension(cls: type, key: str, words: str) -> Range | Choices:
    """Read where to search one option of a dataclass."""
    if ":" in words:
        return _range(cls, key, words)
    values = tuple(parse(cls, key, word) for word in words.split(","))
    if len(set(map(repr, values))) < len(values):
        raise InputError(f"{key}={words} has a value twice")
    return Choices(values)


def _range(cls: type, key: str, words: str) -> Range:
    (entry,) = (entry for entry in describe(cls) if entry["name"] == key)
    if not {"int", "float"} & set(entry["type"]):
        raise InputError(f"{key} is no number: list its values, {key}=a,b,c")
    low, high, *rest = [part.strip() for part in words.split(":")]
    try:
        ends = float(low), float(high)
    except ValueError:
        raise InputError(f"{key}={words} needs two numbers, LOW:HIGH") from None
    whole = "float" not in entry["type"]
    if rest not in ([], ["log"]):
        raise InputError(f"{key}={words} may end in :log, and in nothing else")
    if not (ends[0] < ends[1] and all(map(math.isfinite, ends))):
        raise InputError(f"{key}={words} needs LOW < HIGH, two finite numbers")
    if whole and not all(end.is_integer() for end in ends):
        raise InputError(f"{key}={words} needs whole numbers")
    if rest and ends[0] <= 0:
        raise InputError(f"{key}={words} needs LOW > 0, as it is :log")
    return Range(*ends, log=bool(rest), whole=whole)
