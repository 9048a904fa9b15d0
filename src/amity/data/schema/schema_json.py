"""A schema out of JSON or TOML, checked: all that is wrong with it is said at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from amity.data.schema.cells import category_of
from amity.data.schema.column_schema import ColumnSchema, DatePart, Kind
from amity.data.schema.dates import ORDERS
from amity.data.schema.table_schema import VERSION, SchemaJson, TableSchema, check_features
from amity.errors import several
from amity.finite import is_finite


def schema_of(content: Mapping[str, Any]) -> TableSchema:
    """Return the schema that a file holds. All that is wrong with it is said at once."""
    problems: list[str] = []
    if content.get("version") != VERSION:
        problems.append(f"version must be {VERSION}, got {content.get('version')!r:.60}: write it anew")
    label, columns = content.get("label"), content.get("columns")
    if not isinstance(label, str) or not label:
        problems.append(f"label must name the column of the labels, got {label!r:.60}: name it")
    for key in content.keys() - SchemaJson.__annotations__.keys():
        problems.append(f"unknown key {key!r:.60}: a schema has version, label and columns")
    if not isinstance(columns, list) or not columns:
        problems.append(f"columns must be a list of columns, got {columns!r:.60}: add some")
        columns = []
    found = [_column_of(one, place, problems) for place, one in enumerate(columns)]
    names = Counter(column.name for column in found if column is not None)
    for name in (name for name, count in names.items() if count > 1 or name == label):
        problems.append(f"column {name!r} must stand there once, and not be the label: remove one")
    if problems:
        raise several(problems)
    schema = TableSchema(str(label), tuple(column for column in found if column is not None))
    check_features(schema)
    return schema


class _Rule(NamedTuple):
    words: str
    allows: Callable[[Any], bool]


_RULES = {
    "centre": _Rule("a finite number", is_finite),
    "scale": _Rule("a number > 0", lambda value: is_finite(value) and value > 0),
    "fill": _Rule("a finite number", is_finite),
    "missing": _Rule("true or false", lambda value: isinstance(value, bool)),
    "categories": _Rule("a list of different words", lambda value: _are_words(value)),
    "other": _Rule("true or false", lambda value: isinstance(value, bool)),
    "order": _Rule("ymd, dmy or mdy", lambda value: value in ORDERS),
    "parts": _Rule(
        "a list of days, month, weekday", lambda value: _are_words(value) and set(value) <= {*get_args(DatePart)}
    ),
    "marks": _Rule("a list of words", lambda value: _are_words(value)),
    "why": _Rule("text", lambda value: isinstance(value, str)),
}


def _column_of(content: Any, place: int, problems: list[str]) -> ColumnSchema | None:
    name = content.get("name") if isinstance(content, Mapping) else None
    if not isinstance(name, str) or not name:
        problems.append(f"column number {place + 1} must have a name, got {content!r:.60}: name it")
        return None
    before, kind = len(problems), content.get("kind")
    if kind not in get_args(Kind):
        kinds = ", ".join(get_args(Kind))
        problems.append(f"column {name!r}: kind must be one of {kinds}, got {kind!r:.60}: choose one")
    given: dict[str, Any] = {}
    for key, value in content.items():
        if key in ("name", "kind"):
            continue
        if key not in _RULES:
            problems.append(f"column {name!r}: unknown key {key!r:.60}: one of {', '.join(_RULES)}")
        elif not _RULES[key].allows(value):
            problems.append(f"column {name!r}: {key} must be {_RULES[key].words}, got {value!r:.60}: change it")
        else:
            given[key] = tuple(value) if isinstance(value, list) else value
    if kind == "category" and "categories" not in content:
        problems.append(f"column {name!r}: a category needs categories = [words], got none: list them")
    if len(problems) > before:
        return None
    for key in ("categories", "marks"):
        if key in given:
            given[key] = tuple(dict.fromkeys(map(category_of, given[key])))
    for key in ("centre", "scale", "fill"):
        if key in given:
            given[key] = float(given[key])
    given.setdefault("fill", given.get("centre", 0.0))
    return ColumnSchema(name, kind, **given)


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
