"""Options declared as data: one place for a value's type, range, symbol and help.

A dataclass field made by `option` carries its constraint. `check` enforces it when an instance is made, `parse`
reads it from text, `describe` lists it for help pages and programs. It also carries its `Role`: whether it may change
on resume, whether results depend on it, and so on; `names_of` lists the options with a given role.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from amity.errors import InputError
from amity.finite import LARGEST

_SHOWN = 120  # letters of a wrong value that are told

OnResume = Literal["fixed", "free", "grow"]


@dataclasses.dataclass(frozen=True)
class Role:
    """What an option means to those parts of Amity that treat some options differently from others."""

    on_resume: OnResume = "fixed"  # a resumed run needs the same value, takes any, or takes one that is no smaller
    neutral: bool = False  # the results do not depend on it
    deals: bool = False  # it decides which silos there are and which examples each of them holds
    per_method: bool = False  # a comparison may set it for one method alone
    follows_method: bool = False  # `auto` becomes what the method's own protocol says
    repeatable: bool = False  # a comma list: its flag may be given several times


def option(
    default: Any,
    help: str,
    *,
    symbol: str = "",
    key: str = "",
    search: str = "",
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    on_resume: OnResume = "fixed",
    neutral: bool = False,
    deals: bool = False,
    per_method: bool = False,
    follows_method: bool = False,
    repeatable: bool = False,
) -> Any:
    """A dataclass field with its help line, the paper's symbol, the range of its numbers and its role.

    `key` is what users type where that cannot be the field's name (a method already has a function `local`). `search`
    is where `amity tune` looks for a good value unless it is told otherwise: "0.1:100:log", or "a,b,c". What follows
    the bounds is explained at `Role`.
    """
    bounds = {"above": above, "at_least": at_least, "below": below, "at_most": at_most}
    bounds = {name: bound for name, bound in bounds.items() if bound is not None}
    role = Role(on_resume, neutral, deals, per_method, follows_method, repeatable)
    metadata = {"help": help, "symbol": symbol, "key": key, "search": search, "bounds": bounds, "role": role}
    return dataclasses.field(default=default, metadata=metadata)


_SIGNS = {"above": ">", "at_least": ">=", "below": "<", "at_most": "<="}
_TESTS = {
    "above": lambda value, bound: value > bound,
    "at_least": lambda value, bound: value >= bound,
    "below": lambda value, bound: value < bound,
    "at_most": lambda value, bound: value <= bound,
}


@functools.cache
def fields_of(cls: type) -> Mapping[str, dataclasses.Field[Any]]:
    """Return the options of a dataclass by the key that users type: all fields that carry a help line."""
    found = {f.metadata["key"] or f.name: f for f in dataclasses.fields(cls) if "help" in f.metadata}
    return types.MappingProxyType(found)


def names_of(cls: type, chosen: Callable[[Role], bool]) -> tuple[str, ...]:
    """List the options whose role is chosen, in the order of the class: `names_of(Run, lambda role: role.neutral)`."""
    return tuple(name for name, field in fields_of(cls).items() if chosen(field.metadata["role"]))


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _hint(cls: type, key: str) -> Any:
    return _hints(cls)[fields_of(cls)[key].name]


@functools.cache  # by field: hints that differ in the order of their words only are equal
def _admitted(cls: type, name: str) -> tuple[Any, ...]:
    """Return the types and literal values that a field admits."""
    return _alternatives(_hint(cls, name))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return tuple(alt for arg in typing.get_args(hint) for alt in _alternatives(arg))
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    return (hint,)


def _rule(cls: type, name: str) -> str:
    """Return the rule of a field in words: "a number > 0 or one of softmax, group"."""
    bounds = fields_of(cls)[name].metadata["bounds"]
    span = " and ".join(f"{_SIGNS[key]} {bound:g}" for key, bound in bounds.items())
    words: list[str] = []
    literals: list[str] = []
    for alternative in _admitted(cls, name):
        if alternative is float:
            words.append(f"a number {span}".rstrip())
        elif alternative is int:
            words.append(f"a whole number {span}".rstrip())
        elif alternative is bool:
            words.append("true or false")
        elif alternative is str:
            words.append("text")
        else:
            literals.append(str(alternative))
    if literals:
        words.append("one of " + ", ".join(literals))
    return " or ".join(words)


def _takes(cls: type, name: str) -> str:
    """Return what a field takes as one word for a help page: "N|auto"."""
    words = {float: "X", int: "N", bool: "true|false", str: "TEXT"}
    return "|".join(
        words[alternative] if isinstance(alternative, type) else str(alternative)
        for alternative in _admitted(cls, name)
    )


def _kinds(cls: type, name: str) -> list[str]:
    """Return the types that a field admits, for programs; words from a list are "choice"."""
    kinds = [value.__name__ if isinstance(value, type) else "choice" for value in _admitted(cls, name)]
    return list(dict.fromkeys(kinds))


def _admits(alternative: Any, value: Any) -> bool:
    if alternative is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if alternative is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(alternative, type):
        return isinstance(value, alternative)
    return type(value) is type(alternative) and value == alternative


def check(record: Any) -> None:
    """Refuse an instance whose options are of the wrong type or outside their range."""
    cls: type = type(record)
    for name, attribute, default in _usual(cls):
        value = getattr(record, attribute)
        if value is default:  # most options are left alone
            continue
        if not _takes_value(cls, name, value):
            raise _refusal(cls, name, value)
        if isinstance(value, str) and not _is_text(value):
            raise InputError(
                f"{_called(cls)} needs {name} to be text that UTF-8 has, got {value!r}: it could not be written down"
            )


_NONE = object()


@functools.cache
def _usual(cls: type) -> tuple[tuple[str, str, Any], ...]:
    """Return each option, the attribute that holds it, and its default: no value at all where that is not admitted."""
    fields = fields_of(cls).items()
    return tuple((name, f.name, f.default if _takes_value(cls, name, f.default) else _NONE) for name, f in fields)


def _takes_value(cls: type, name: str, value: Any) -> bool:
    """Return whether a value is of a type that a field admits, and within its range."""
    if not any(_admits(alternative, value) for alternative in _admitted(cls, name)):
        return False
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return True
    bounds = fields_of(cls)[name].metadata["bounds"]
    finite = abs(value) <= LARGEST if isinstance(value, int) else math.isfinite(value)  # larger ones cannot be read
    return finite and all(_TESTS[key](value, bound) for key, bound in bounds.items())


def parse(cls: type, name: str, text: str) -> Any:
    """Read one option from text. Range errors are left to `check`, which sees the whole instance."""
    alternatives = _admitted(cls, name)
    word = text.strip()
    for alternative in alternatives:
        if not isinstance(alternative, type) and word.lower() == str(alternative).lower():
            return alternative
    for kind in (bool, int, float, str):
        if kind not in alternatives:
            continue
        try:
            if kind is bool:
                return {"true": True, "false": False}[word.lower()]
            return kind(word)
        except (KeyError, ValueError):
            continue
    raise _refusal(cls, name, text)


def _called(cls: type) -> str:
    """Return what users call the owner of options."""
    return str(getattr(cls, "called", cls.__name__.lower()))


def _is_text(value: str) -> bool:
    """Return whether a text can be written to a file: names of files may hold bytes that are none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refusal(cls: type, name: str, value: Any) -> InputError:
    default = fields_of(cls)[name].default
    endless = isinstance(value, int) and abs(value) > LARGEST
    kind = f"a number of at most {len(str(LARGEST))} digits" if endless else _rule(cls, name)
    rule = f"{_called(cls)} needs {name} to be {kind}"
    got = repr(value)
    got = got if len(got) <= _SHOWN else f"{got[:_SHOWN]}..."
    return InputError(f"{rule}, got {got}: try {name}={default} (the default)")


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the end of every "unknown ..." message: the words that come nearest, then all that are known."""
    known = sorted(words)
    close = difflib.get_close_matches(word.lower(), known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}? (known: {', '.join(known)})"
    return f"known: {', '.join(known)}"


def unknown(what: str, word: str, words: Iterable[str]) -> InputError:
    """Return the error for a name that is not in a table."""
    return InputError(f"unknown {what} {word!r}: {nearest(word, words)}")


def describe(cls: type) -> list[Mapping[str, Any]]:
    """List every option with its type, default, range, symbol and help, for help pages and programs."""
    return [
        {
            "name": name,
            "type": _kinds(cls, name),
            "choices": [value for value in _admitted(cls, name) if not isinstance(value, type)],
            "range": dict(field.metadata["bounds"]),
            "takes": _takes(cls, name),
            "rule": _rule(cls, name),
            "default": field.default,
            "symbol": field.metadata["symbol"],
            "help": field.metadata["help"],
        }
        for name, field in fields_of(cls).items()
    ]
