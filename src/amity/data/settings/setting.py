"""The shape of every setting: it takes a data set and returns the positions of each silo's examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import NamedTuple, Protocol

from torch import Generator, Tensor

from amity.config import options
from amity.contract import InputError
from amity.data.source import Source


class Dealt(NamedTuple):
    """Positions in the arrays of a data set, one tensor per silo."""

    train: list[Tensor]
    test: list[Tensor]
    groups: Sequence[int | None]  # the distribution that each silo was drawn from, where silos share one
    notes: tuple[str, ...] = ()  # departures from the plan
    held_out: bool = False  # test examples are positions in the training arrays too
    names: Sequence[str] = ()  # of silos that have their own


class Setting(Protocol):
    """A rule that deals data to silos; implementations are frozen dataclasses whose fields are its options."""

    def deal(self, source: Source, clients: int, rng: Generator) -> Dealt:
        """Return which examples each of `clients` silos gets; all randomness comes from `rng`."""


@dataclass(frozen=True)
class SettingEntry:
    """A row of the table of settings."""

    title: str
    paper: str
    description: str
    make: type[Setting]
    clients: int = 20  # unless a run says otherwise
    participation: float = 1.0  # the share of silos sampled in each round, unless a run says otherwise
    package: str = ""  # the package that brings it; empty for Amity's own

    def from_package(self, name: str, package: str) -> SettingEntry:
        """Return this entry as `package` brings it; refuse one that cannot be listed or made."""
        if not all(isinstance(text, str) for text in (self.title, self.paper, self.description)):
            raise InputError("title, paper and description must be text")
        if type(self.clients) is not int or self.clients < 1:
            raise InputError(f"clients must be a whole number >= 1, found {self.clients!r}")
        if not isinstance(self.participation, (int, float)) or not 0 < self.participation <= 1:
            raise InputError(f"participation must be > 0 and <= 1, found {self.participation!r}")
        if not is_dataclass(self.make) or not callable(getattr(self.make, "deal", None)):
            raise InputError("make must be a dataclass with a function deal")
        options.describe(self.make)  # fails on types that no option has
        self.make()  # every option needs a default
        return replace(self, package=package)
