"""Who takes part in each round, and for how long: a part of every run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from amity.config.options import check, fields_of, option
from amity.errors import InputError

MANY = 10**6
"""The largest number of rounds or epochs that is taken for a number and not for a slip of the hand."""


@dataclass(frozen=True)
class Participation:
    """The silos that take part in each round, and how long they train.

    >>> amity.Run("fedavg", participation=0.5, epochs=2).who == amity.Participation(0.5, epochs=2)
    True
    """

    participation: float = option(1.0, "share of the silos sampled in each round", above=0, at_most=1)
    drop: float = option(0.0, "share of the sampled silos that drop out; at least one stays", at_least=0, below=1)
    drop_phase: Literal["before", "after"] = option("before", "they drop before training, or lose their upload after")
    epochs: int = option(
        5, "local epochs per round", symbol="E", at_least=1, at_most=MANY, per_method=True, search="1:10"
    )
    local_epochs_range: tuple[int, int] | None = None  # each silo's own epochs, redrawn every round
    ending: int = 0  # the round after the last, in which all silos go on alone; 0: there is none

    def __post_init__(self) -> None:
        check(self)
        low, high = self.local_epochs_range or (1, 1)
        if not 1 <= low <= high <= MANY:
            raise InputError(f"local_epochs_range needs 1 <= LO <= HI <= {MANY}, got {low}:{high}: try 1:9")


def borrowed(name: str) -> Any:
    """Return an option of Participation as a field of another class, so that it is declared once."""
    source = fields_of(Participation)[name]
    return field(default=source.default, metadata=source.metadata)
