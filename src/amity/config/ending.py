"""Whether a run has an ending: one more round, after the last, in which every silo goes on alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Ending = int | Literal["default", "none", "auto"]
"""Epochs of an ending; auto: each silo finds its own number; none: there is no ending; default: as the method says."""


def has_ending(table: Mapping[str, Any]) -> bool:
    """Whether a run has an ending, from its resolved options; those of earlier versions have no word about it."""
    return table.get("ending", "none") not in ("none", "default") or bool(table.get("safe", False))


def all_rounds(table: Mapping[str, Any]) -> int:
    """Return the rounds that a run's record will have, its ending among them, from its resolved options."""
    return int(table.get("rounds", 0)) + has_ending(table)
