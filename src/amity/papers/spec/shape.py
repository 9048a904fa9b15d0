"""The types of what an experiment's file holds: tables are tables, lists are lists and numbers are numbers.

All other code takes these types for granted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amity.errors import InputError
from amity.finite import is_finite
from amity.papers.spec.cells import flat_choices
from amity.papers.spec.vocabulary import BEST_OF, DISPLAY_KEYS, SIZE_KEYS


def option_tables(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Sequence[str]]]:
    """Yield every table of options in an experiment's file: where it stands, the table, and its other keys."""
    yield "run", content.get("run", {}), ()
    for axis in ("columns", "rows"):
        for entry, table in content.get(axis, {}).items():
            yield f"{axis}.{entry}", table, (*DISPLAY_KEYS, BEST_OF) if axis == "rows" else DISPLAY_KEYS
    for row, columns in content.get("cells", {}).items():
        for column, table in columns.items():
            yield f"cells.{row}.{column}", table, ()
    for size, scale in content["sizes"].items():
        yield f"sizes.{size}", scale, SIZE_KEYS
        for column, table in scale.get("in", {}).items():
            yield f"sizes.{size}.in.{column}", table, ()
        for row, of_row in scale.get("of", {}).items():
            yield f"sizes.{size}.of.{row}", of_row, ("in",)
            for column, table in of_row.get("in", {}).items():
                yield f"sizes.{size}.of.{row}.in.{column}", table, ()


def check_shape(content: Mapping[str, Any], name: str) -> None:
    """Refuse a file in which anything is of another type than it should be."""
    shape = _Shape(name)
    for key, depth in (("run", 0), ("columns", 1), ("rows", 1), ("cells", 2), ("paper_values", 1), ("sizes", 1)):
        shape.tables(content.get(key, {}), key, depth)
    for name_of_size, size in content.get("sizes", {}).items():
        _check_size(shape, size, f"sizes.{name_of_size}")
    for row, table in content.get("rows", {}).items():
        shape.texts(table.get(BEST_OF, []), f"rows.{row}.{BEST_OF}")
    for key in ("only_rows", "only_columns"):
        shape.texts(content.get(key, []), key)
    for where, table, _ in option_tables({"sizes": {}, **content}):
        _check_options(shape, table, where)
    for row, values in content.get("paper_values", {}).items():
        for column, value in values.items():
            right = isinstance(value, str) or is_finite(value)
            shape.require(right, f"paper_values.{row}.{column} to be a number or text", value)
    _check_listed(shape, content)


@dataclass(frozen=True)
class _Shape:
    """Refuses what is not of the right type, and names the experiment."""

    name: str

    def require(self, holds: bool, what: str, got: Any) -> None:
        if not holds:
            raise InputError(f"the experiment {self.name} needs {what}, got {got!r}: see experiments/README.md")

    def tables(self, inside: Any, where: str, depth: int = 0) -> None:
        self.require(isinstance(inside, dict), f"{where} to be a table", inside)
        for key, inner in inside.items() if depth else ():
            self.tables(inner, f"{where}.{key}", depth - 1)

    def texts(self, inside: Any, where: str) -> None:
        alike = isinstance(inside, list) and all(isinstance(entry, str) for entry in inside)
        self.require(alike, f"{where} to be a list of names", inside)

    def plain(self, value: Any, where: str) -> None:
        self.require(isinstance(value, (str, int, float)), f"{where} to be text, a number, true or false", value)


def _check_size(shape: _Shape, size: Mapping[str, Any], where: str) -> None:
    """Refuse a size whose parts are not tables, or whose rows and columns are not names."""
    for axis in ("in", "of"):
        shape.tables(size.get(axis, {}), f"{where}.{axis}", 1)
    for row, table in size.get("of", {}).items():
        shape.tables(table.get("in", {}), f"{where}.of.{row}.in", 1)
    for axis in ("rows", "columns"):
        shape.texts(size.get(axis, []), f"{where}.{axis}")


def _check_options(shape: _Shape, table: Mapping[str, Any], where: str) -> None:
    """Refuse a table of options whose seeds, method's options or values to choose from are of a wrong type."""
    for key in ("seeds", "choose_rounds"):
        count = table.get(key, 1)
        shape.require(type(count) is int and count > 0, f"{key} to be a whole number above 0", count)
    shape.tables(table.get("set", {}), f"{where}.set")
    for key, value in table.get("set", {}).items():
        shape.plain(value, f"{where}.set.{key}")
    choose = table.get("choose", {})
    shape.tables(choose, f"{where}.choose")
    shape.tables(choose.get("set", {}), f"{where}.choose.set")
    for key, values in flat_choices(choose).items():
        listed = isinstance(values, list) and bool(values)
        shape.require(listed, f"{where}.choose.{key} to be a list of values to choose from", values)
        for value in values:
            shape.plain(value, f"every value of {where}.choose.{key}")


def _check_listed(shape: _Shape, content: Mapping[str, Any]) -> None:
    """Refuse outputs and claims that lack a key, or whose values are of a wrong type."""
    for key, words in (("outputs", ("kind",)), ("claims", ("text", "above", "below"))):
        listed = content.get(key, [])
        alike = isinstance(listed, list) and all(isinstance(table, dict) for table in listed)
        shape.require(alike, f"{key} to be tables, [[{key}]]", listed)
        for table in listed:
            for word in words:
                shape.require(word in table, f"{word} in every [[{key}]]", table)
            _check_entry(shape, table, key)


def _check_entry(shape: _Shape, table: Mapping[str, Any], key: str) -> None:
    """Refuse one output or claim in which a value is of a wrong type."""
    for word in ("kind", "name", "text", "against", "ceiling", "oracle", "than", "measure"):
        told = table.get(word, "")
        shape.require(isinstance(told, str), f"{word} in [[{key}]] to be text", told)
    for word in ("rows", "columns", "above", "below", "without"):
        shape.texts(table.get(word, []), f"{word} in [[{key}]]")
    for word in ("within", "p"):
        shape.require(is_finite(table.get(word, 0)), f"{word} in [[{key}]] to be a number", table.get(word))
    file = table.get("name", "it")
    plain = re.fullmatch(r"\w[\w.-]*", file) is not None
    shape.require(plain, f"name in [[{key}]] to be a plain file name, of letters, digits, ., - and _", file)
