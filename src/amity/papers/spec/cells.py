"""One row of an experiment in one column: its runs, and how the tables of a file become their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from amity.config.ending import has_ending
from amity.config.options import fields_of
from amity.config.run import Run
from amity.errors import InputError
from amity.papers.spec.vocabulary import BEST_OF, DISPLAY_KEYS, REPEAT_KEYS
from amity.trials import VALIDATION_SHARE, with_option


class Choice(NamedTuple):
    """An option whose value is chosen on validation data, in short runs of their own."""

    option: str  # of the run, or of its method: "set.alpha"
    values: tuple[Any, ...]
    rounds: int


@dataclass(frozen=True)
class Cell:
    """One row in one column: the runs, one per seed."""

    row: str
    column: str
    options: Mapping[str, Any]
    seeds: int = 1
    choice: Choice | None = None

    def run(self, seed: int, chosen: Any = None) -> Run:
        """Return the run of a seed; `chosen` is the value of the option that validation data choose, if any do."""
        options = dict(self.options)
        if self.choice is not None:
            options = with_option(options, self.choice.option, chosen)
        return run_of(options, seed)

    @property
    def after_ending(self) -> bool:
        """Whether a value is chosen by what silos deliver after an ending, and not by a round on validation data."""
        return has_ending(self.options)

    def trials(self) -> list[tuple[Any, Run]]:
        """Return the values to choose from, each with its short run; all runs have the first seed."""
        if self.choice is None:
            return []
        base = {**self.options, "rounds": self.choice.rounds}
        if not self.after_ending:
            base["val_fraction"] = VALIDATION_SHARE
        return [(value, run_of(with_option(base, self.choice.option, value), 0)) for value in self.choice.values]


def run_of(options: Mapping[str, Any], seed: int) -> Run:
    """Return the run that a cell's options describe."""
    plain = {key: value for key, value in options.items() if key not in (*REPEAT_KEYS, *DISPLAY_KEYS, BEST_OF)}
    return Run(**{**plain, "seed": seed, "settings": dict(options.get("set", {}))})


def merged_options(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables of options: the later one wins, except that a method's own options add up."""
    options: dict[str, Any] = {}
    for table in tables:
        inner = {**options.get("set", {}), **table.get("set", {})}
        options = {**options, **table, "set": inner}
    return options


def choice_of(options: Mapping[str, Any]) -> Choice | None:
    """Return the choice that options ask for; None where every option is fixed."""
    wanted = flat_choices(options.get("choose", {}))
    if not wanted:
        return None
    if len(wanted) != 1:
        raise InputError(f"choose takes one option, got {', '.join(wanted)}: choose one of them")
    ((key, values),) = wanted.items()
    rounds = options.get("rounds", fields_of(Run)["rounds"].default)
    return Choice(key, tuple(values), options.get("choose_rounds", rounds))


def flat_choices(choose: Mapping[str, Any]) -> dict[str, Any]:
    """Return options and the values to choose from; a method's own options are named as in "set.alpha"."""
    own = {f"set.{key}": values for key, values in choose.get("set", {}).items()}
    return {key: values for key, values in choose.items() if key != "set"} | own
