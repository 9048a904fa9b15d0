"""Checks of what is read from JSON: a file that somebody has edited must not end in a traceback.

The types of contents.py are turned into shapes once, and values are held against these. A shape is a type; a set of
types; None; a tuple of alternatives; a list with the shape of every item; a dict with the shapes of some keys, those
that begin with "?" being optional; `Each`, of a dict with any keys; `OneOf` some words; or `Anything`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    TypeGuard,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from amity.learn.metrics import TITLES
from amity.metric import METRICS
from amity.record.contents import CheckpointFile, EventLine, FactsFile, Line, Manifest, ModelFacts, Summary, SumsFile


class Each(NamedTuple):
    """A dict whose values all have one shape."""

    of: Any


class Anything(NamedTuple):
    """A value that somebody else knows how to read."""


class OneOf(NamedTuple):
    """A text that is one of these words."""

    words: tuple[str, ...]


NUMBER = frozenset({int, float})
MAYBE = frozenset({int, float, NoneType})  # JSON has no NaN


def shape_of(hint: Any) -> Any:
    """Return the shape of what a type describes: of a TypedDict, a list, a dict, a union of these, or one value."""
    if is_typeddict(hint):
        hints = get_type_hints(hint, include_extras=True)
        return dict(_entry(key, of_key) for key, of_key in hints.items())
    origin, inner = get_origin(hint), get_args(hint)
    if origin is list:
        return [shape_of(inner[0])]
    if origin is dict:
        return Each(shape_of(inner[1]))
    if origin in (Union, UnionType):
        return _any_of([shape_of(alternative) for alternative in inner])
    if origin is Literal:
        return OneOf(inner)
    if hint is Any:
        return Anything()
    if hint is float:
        return NUMBER  # 1.0 may stand in a file as 1
    if hint in (int, str, bool, NoneType):
        return hint
    raise TypeError(f"no shape is known for {hint}: describe files with TypedDict, list, dict, union and plain values")


def _entry(key: str, hint: Any) -> tuple[str, Any]:
    if get_origin(hint) is NotRequired:
        return f"?{key}", shape_of(get_args(hint)[0])
    return key, shape_of(hint)


def _any_of(shapes: Sequence[Any]) -> Any:
    """Return one set of types where all alternatives are plain values, which is checked fastest; else a tuple."""
    types: set[type] = set()
    for shape in shapes:
        if isinstance(shape, frozenset):
            types |= shape
        elif isinstance(shape, type):
            types.add(shape)
        else:
            return tuple(shapes)
    return frozenset(types)


def fits(value: Any, shape: Any) -> bool:
    """Return whether a value has a shape."""
    if isinstance(shape, Each):
        return isinstance(value, dict) and all(fits(item, shape.of) for item in value.values())
    if isinstance(shape, Anything):
        return True
    if isinstance(shape, OneOf):
        return isinstance(value, str) and value in shape.words
    if isinstance(shape, tuple):
        return any(fits(value, alternative) for alternative in shape)
    if isinstance(shape, list):
        (inner,) = shape
        if isinstance(inner, frozenset):  # thousands of numbers, at once
            return isinstance(value, list) and inner.issuperset(map(type, value))
        return isinstance(value, list) and all(fits(item, inner) for item in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(_has(value, key, inner) for key, inner in shape.items())
    if isinstance(shape, frozenset):
        return type(value) in shape
    return value is None if shape is None else type(value) is shape  # true is no number, though Python has it so


def _has(value: Mapping[str, Any], key: str, shape: Any) -> bool:
    name = key.removeprefix("?")
    return fits(value[name], shape) if name in value else key.startswith("?")


_LINE = shape_of(Line)
_FACTS = shape_of(FactsFile)
_SUMMARY = shape_of(Summary)
_MANIFEST = shape_of(Manifest)
_EVENT = shape_of(EventLine)
_CHECKPOINT = shape_of(CheckpointFile)
_SUMS = shape_of(SumsFile)
_MODEL = shape_of(ModelFacts)


def is_line(line: object, silos: int) -> TypeGuard[Line]:
    """Return whether this is a round's line, of so many silos."""
    if not isinstance(line, dict) or not fits(line, _LINE) or not any(key in line for key in METRICS):
        return False
    scores = line[next(key for key in METRICS if key in line)]
    return all(each is None or len(each) == silos for each in (scores, line.get("withheld")))


def are_facts(facts: object) -> TypeGuard[FactsFile]:
    """Return whether these are a run's facts, of silos with different names."""
    if not isinstance(facts, dict) or not fits(facts, _FACTS):
        return False
    silos, groups = facts["silos"], facts.get("groups")
    if not silos or len(set(silos)) < len(silos):
        return False
    return groups is None or len(groups) == len(silos)


def is_summary(summary: object, silos: int) -> TypeGuard[Summary]:
    """Return whether these are the results of a run with so many silos, with metrics that have a title."""
    if not isinstance(summary, dict) or not fits(summary, _SUMMARY) or len(summary["per_client"]) not in (0, silos):
        return False
    metrics = summary.get("metrics") or {}
    return all(name in TITLES for which in ("delivered", "last") for name in metrics.get(which) or {})


def is_manifest(manifest: object) -> TypeGuard[Manifest]:
    """Return whether this says what each silo holds, class by class."""
    if not isinstance(manifest, dict) or not fits(manifest, _MANIFEST) or not manifest["silos"]:
        return False
    parts: list[Sequence[int] | None] = [silo[part] for silo in manifest["silos"] for part in ("train", "val", "test")]
    counts = [held for held in parts if held is not None]
    classes = max(1, manifest["classes"])
    return all(len(held) == classes and min(held) >= 0 for held in counts)


def are_model_facts(facts: object) -> TypeGuard[ModelFacts]:
    """Return whether these say what a personal model takes and gives."""
    if not isinstance(facts, dict) or not fits(facts, _MODEL) or len(facts["scale"]) != 2:
        return False
    return bool(facts["shape"]) and min(facts["shape"]) > 0 and facts["labels"] != []


def is_event(event: object) -> TypeGuard[EventLine]:
    """Return whether this is a line of `events.jsonl`."""
    return fits(event, _EVENT)


def is_checkpoint(progress: object) -> TypeGuard[CheckpointFile]:
    """Return whether this says how far a checkpoint has come."""
    return fits(progress, _CHECKPOINT)


def are_sums(sums: object) -> TypeGuard[SumsFile]:
    """Return whether these are the checksums of a folder."""
    return fits(sums, _SUMS)
