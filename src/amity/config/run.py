"""`Run`, the description of a run. The command line, its help, config files and the Python API all come from it.

    data_options.py         the method, and which silos there are with which examples
    training_options.py     what is trained, how, up to the ending, and the score to compare by
    protection_options.py   what silos refuse, mix and keep back
    execution_options.py    evaluation, engine, who takes part, checkpoints

No torch here: `amity --help` must answer at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from amity.config.data_options import DataOptions
from amity.config.ending import all_rounds
from amity.config.execution_options import ExecutionOptions
from amity.config.lists import names_of_columns, span_of
from amity.config.options import check, fields_of
from amity.config.participation import Participation
from amity.config.privacy import Privacy, privacy_of
from amity.config.protection_options import ProtectionOptions
from amity.config.training_options import TrainingOptions
from amity.errors import InputError


@dataclass(frozen=True)
class Run(ExecutionOptions, ProtectionOptions, TrainingOptions, DataOptions):  # its fields begin with the last one's
    """One run: a method on a federation. `auto` values follow the method's own protocol.

    >>> run = amity.Run("fedamp", data="digits", clients=20, rounds=15, settings={"sigma": 50.0})
    >>> run.epochs, run.batch
    (5, 'auto')
    """

    settings: Mapping[str, Any] = field(default_factory=dict)  # the method's own options

    def __post_init__(self) -> None:
        check(self)
        if not isinstance(self.settings, Mapping) or not all(isinstance(key, str) for key in self.settings):
            raise InputError(f"settings are a method's options by name, got {self.settings!r}: try {{'sigma': 50.0}}")
        _ = self.who  # refuse a bad range now, not in round 1
        _ = self.dropped
        _ = self.privacy

    @property
    def who(self) -> Participation:
        """The silos that take part in each round, and how long they train."""
        span = None if self.local_epochs_range == "none" else span_of(self.local_epochs_range)
        share = 1.0 if self.participation == "auto" else self.participation
        ending = self.all_rounds if self.all_rounds > self.rounds else 0
        return Participation(share, self.drop, self.drop_phase, self.epochs, span, ending)

    @property
    def all_rounds(self) -> int:
        """The rounds on record when a resolved run is over: with the ending, where there is one."""
        return all_rounds(vars(self))

    @property
    def privacy(self) -> Privacy | None:
        """What silos promise about any one training example; None without differential privacy."""
        return privacy_of(self)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of the columns that are left out."""
        return () if self.drop_column == "none" else names_of_columns(self.drop_column)

    def table(self) -> dict[str, Any]:
        """Return the run as a config file holds it: its options, then those of the method under [set]."""
        flat = {name: getattr(self, name) for name in fields_of(Run)}
        return {**flat, "set": dict(self.settings)}
