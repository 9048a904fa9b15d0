"""A row of the table of methods: what one is called, where it comes from, how it is made, what it costs."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

from amity.config.options import describe
from amity.contract import InputError


class Entry(NamedTuple):
    """A row of the table: what a method is called, where it comes from, how it is made, what it costs."""

    title: str
    paper: str
    make: type
    wrap: type | None = None
    down: str = "d"  # traffic per asked client and round, in scalars; d counts buffers too
    up: str = "d"
    evaluated: str = "its own model"
    for_evaluation: Literal["", "step", "training"] = ""  # local work of every silo before each evaluation
    each_round: str = ""  # local work of a round, where it is not one training
    hands_on: bool = False  # whether silos are sent models of other silos as they are, unmixed
    package: str = ""  # that brings it; empty for Amity's own

    def from_package(self, name: str, package: str) -> Entry:
        """Return this entry as `package` brings it; refuse one that cannot be listed or made."""
        if not all(isinstance(text, str) for text in (self.title, self.paper, self.down, self.up, self.evaluated)):
            raise InputError("title, paper, down, up and evaluated must be text")
        for cls in (self.make, self.wrap):
            if cls is None:
                continue
            if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
                raise InputError(f"a method must be a dataclass, found {cls!r}")
            missing = [part for part in PARTS if not hasattr(cls, part)]
            if missing:
                raise InputError(f"{cls.__name__} lacks {', '.join(missing)}, which every method has")
            describe(cls)  # fails on types that no option has
        method = self.make()  # every option needs a default
        if self.wrap is not None:
            self.wrap(method)
        return self._replace(package=package)


PARTS = (
    *("init_server", "init_client", "download", "local", "aggregate", "personal"),
    *("paired", "evaluates", "solver", "optimizers"),
)
"""All that a method has to have: see `amity.contract.Method`."""


def entry_for(found: object) -> object:
    """The entry of a dataclass that a package names without one: its docstring is its title."""
    if not isinstance(found, type) or not dataclasses.is_dataclass(found):
        return found
    words = (found.__doc__ or "").strip().partition("\n")[0]
    if not words or words.startswith(f"{found.__name__}("):  # which dataclasses write themselves
        raise InputError(f"{found.__name__} must have a docstring: its first line is what lists say of it")
    return Entry(words.rstrip("."), "-", found)
