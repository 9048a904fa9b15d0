"""Options declared as data: one place for a value's type, range, symbol and help.

A dataclass field made by `option` carries its constraint. `check` enforces it when an instance is made, `parse`
reads it from text, `describe` lists it for help pages and programs.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from amity.errors import InputError


def option(
    default: Any,
    help: str,
    *,
    symbol: str = "",
    key: str = "",
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Any:
    """A dataclass field with its help line, the paper's symbol and the range of its numbers.

    `key` is what users type where that cannot be the field's name (a method already has a function `local`).
    """
    bounds = {"above": above, "at_least": at_least, "below": below, "at_most": at_most}
    bounds = {name: bound for name, bound in bounds.items() if bound is not None}
    metadata = {"help": help, "symbol": symbol, "key": key, "bounds": bounds}
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
    """The options of a dataclass, by the key that users type: its fields that carry a help line."""
    found = {f.metadata["key"] or f.name: f for f in dataclasses.fields(cls) if "help" in f.metadata}
    return types.MappingProxyType(found)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _hint(cls: type, key: str) -> Any:
    return _hints(cls)[fields_of(cls)[key].name]


@functools.cache  # by field: hints that differ in the order of their words only are equal
def _admitted(cls: type, name: str) -> tuple[Any, ...]:
    """The types and literal values that a field admits."""
    return _alternatives(_hint(cls, name))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return tuple(alt for arg in typing.get_args(hint) for alt in _alternatives(arg))
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    return (hint,)


def _rule(cls: type, name: str) -> str:
    """What a field admits, in words: "a number > 0 or softmax, group"."""
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
    """What a field takes, in a word for a help page: "N|auto"."""
    words = {float: "X", int: "N", bool: "true|false", str: "TEXT"}
    return "|".join(
        words[alternative] if isinstance(alternative, type) else str(alternative)
        for alternative in _admitted(cls, name)
    )


def _kinds(cls: type, name: str) -> list[str]:
    """The types a field admits, for programs; words from a list are "choice"."""
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
    for name, field in fields_of(cls).items():
        value = getattr(record, field.name)
        ok = any(_admits(alternative, value) for alternative in _admitted(cls, name))
        if ok and isinstance(value, (int, float)) and not isinstance(value, bool):
            bounds = field.metadata["bounds"]
            ok = (isinstance(value, int) or math.isfinite(value)) and all(
                _TESTS[key](value, bound) for key, bound in bounds.items()
            )
        if not ok:
            raise _refusal(cls, name, value)


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


def _refusal(cls: type, name: str, value: Any) -> InputError:
    default = fields_of(cls)[name].default
    rule = f"{getattr(cls, 'called', cls.__name__.lower())} needs {name} to be {_rule(cls, name)}"
    return InputError(f"{rule}, got {value!r}: try {name}={default} (the default)")


def nearest(word: str, words: Iterable[str]) -> str:
    """The valid words, nearest first: the tail of every "unknown ..." message."""
    known = sorted(words)
    close = difflib.get_close_matches(word.lower(), known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}? (known: {', '.join(known)})"
    return f"known: {', '.join(known)}"


def unknown(what: str, word: str, words: Iterable[str]) -> InputError:
    """The error for a name that is not in a table."""
    return InputError(f"unknown {what} {word!r}: {nearest(word, words)}")


def describe(cls: type) -> list[Mapping[str, Any]]:
    """Every option with its type, default, range, symbol and help, for help pages and programs."""
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
