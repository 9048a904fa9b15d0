"""The methods, one file each, and the table that names them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from amity.config.options import describe, fields_of, parse, unknown
from amity.config.plugins import Registry
from amity.contract import Method
from amity.methods.entry import PARTS as PARTS
from amity.methods.entry import Entry as Entry
from amity.methods.entry import entry_for
from amity.methods.table import BUILT_IN

METHODS = Registry("amity.methods", Entry, "method", BUILT_IN, made=entry_for)
"""The methods by name: Amity's own, then those of other packages."""


def trainings_ahead(name: str, settings: Mapping[str, Any], epochs: int) -> float:
    """How many local trainings an evaluated model has had beyond one for every round.

    A fine-tuned model of round k has had k + 1, at every silo, also at one that dropped out of that round.
    """
    if entry_of(name).for_evaluation != "training":
        return 0.0
    own = settings.get("ft_epochs", "same")
    return 1.0 if own == "same" else own / epochs


def known_options(name: str) -> dict[str, type]:
    """Every option key of a method, with the dataclass that has it."""
    entry = entry_of(name)
    classes = [entry.make] if entry.wrap is None else [entry.wrap, entry.make]
    return {key: cls for cls in classes for key in fields_of(cls)}


def entry_of(name: str) -> Entry:
    """The row of the table that a name stands for; InputError where there is none, or its package cannot be used."""
    return METHODS.entry(name)


def options_of(name: str) -> list[Mapping[str, Any]]:
    """The options of a method, wrapper's first, as data."""
    entry = entry_of(name)
    wrapped = [] if entry.wrap is None else describe(entry.wrap)
    return [*wrapped, *describe(entry.make)]


def parse_option(name: str, key: str, text: str) -> Any:
    """Read one of a method's options from text."""
    owners = known_options(name)
    if key not in owners:
        raise unknown(f"option of {name}", key, owners)
    return parse(owners[key], key, text)


def build(name: str, settings: Mapping[str, Any] | None = None) -> Method:
    """A method with these option values; everything else is at its default."""
    entry = entry_of(name)
    owners = known_options(name)
    for key in settings or {}:
        if key not in owners:
            raise unknown(f"option of {name}", key, owners)

    def arguments(cls: type) -> dict[str, Any]:
        return {fields_of(cls)[key].name: value for key, value in (settings or {}).items() if owners[key] is cls}

    method: Method = entry.make(**arguments(entry.make))
    return method if entry.wrap is None else entry.wrap(method, **arguments(entry.wrap))


def settings_of(method: Method) -> dict[str, Any]:
    """Every field of a method, a wrapped one's too, so that a record can say what was run."""
    out: dict[str, Any] = {}
    for field in dataclasses.fields(method):  # type: ignore[arg-type]
        value = getattr(method, field.name)
        if dataclasses.is_dataclass(value):
            out.update(settings_of(value))  # type: ignore[arg-type]
        else:
            out[field.metadata.get("key") or field.name] = value
    return out
