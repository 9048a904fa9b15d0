"""What the fixtures `loaded` and `numbered` are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from amity.data import Source

Loaded = Callable[[str], Source]


class Numbered(Protocol):
    def __call__(self, train: list[int], test: list[int], name: str = "own") -> Source: ...
