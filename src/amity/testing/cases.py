"""What the laws are put to: a method, and what its runs are compared by."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from amity.contract import Method, State
from amity.federation.messages import Measured
from amity.methods import build
from amity.testing.federation import Seen, batchnorm, forget_tasks, run, same, task

On = Literal["loop", "memory"]
"""The carrier that a law runs over: silos called in this process, or reached by encoded bytes."""

SOME: dict[str, Any] = {"participation": 0.4, "drop": 0.5, "drop_phase": "after"}
UNEVEN: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "local_epochs_range": (1, 2)}
FULL: dict[str, Any] = {}

M = TypeVar("M")


@dataclasses.dataclass(frozen=True)
class Case:
    """A method: one of the table with some settings, or one that is given."""

    name: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    given: Method | None = dataclasses.field(default=None, hash=False)

    @cached_property
    def method(self) -> Method:
        return build(self.name, self.settings) if self.given is None else self.given

    def with_settings(self, **more: Any) -> Method:
        """The method with other values of these options, as far as it has them."""
        return changed(self.method, more)

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.settings.items())])


def changed(method: M, options: Mapping[str, Any]) -> M:
    """A method with other values of those of its options, and of a method that it wraps, that are named here."""
    if not dataclasses.is_dataclass(method) or isinstance(method, type):
        return method
    fields = {}
    for field in dataclasses.fields(method):
        value, key = getattr(method, field.name), field.metadata.get("key") or field.name
        if dataclasses.is_dataclass(value):
            fields[field.name] = changed(value, options)
        elif key in options:
            fields[field.name] = options[key]
    return dataclasses.replace(method, **fields) if fields else method


def sharing(case: Case) -> Method:
    """The method where all silos begin with one model."""
    return case.with_settings(init="shared", core_init="shared")


class Law(NamedTuple):
    """A law, and what it is put to."""

    name: str  # as it is said
    check: Callable[[Case, On], None]
    over: tuple[On, ...]  # the carriers that it can tell apart
    variants: bool  # whether other settings of a method are worth a run of their own


LAWS: dict[str, Law] = {}


def law(*, over: tuple[On, ...] = ("loop", "memory"), variants: bool = True) -> Callable[[Any], Any]:
    """Add a function to the table of laws; its docstring's first line is what the law says."""

    def add(function: Callable[[Case, On], None]) -> Callable[[Case, On], None]:
        name = function.__name__
        assert function.__doc__, f"the law {name} has no words"
        LAWS[name] = Law(function.__doc__.partition("\n")[0], function, over, variants)
        return function

    return add


@cache
def usual(case: Case, on: On) -> list[Seen]:
    """The run that several laws look at: a model with buffers and counters, not everybody in every round."""
    return run(case.method, on=task(batchnorm), epochs=1, participation=0.8, engine=on)


def forget() -> None:
    """Forget tasks and runs that laws share: a method that breaks one may have written into them."""
    usual.cache_clear()
    forget_tasks()


def check_same(one: State, other: State, what: str) -> None:
    """Refuse states that differ in one bit, and say in which tensor."""
    assert one.keys() == other.keys(), f"{what}: keys {sorted(one)} and {sorted(other)}"
    for key in one:
        if not same({key: one[key]}, {key: other[key]}):
            a, b = one[key], other[key]
            far = "another form"
            if a.shape == b.shape and a.dtype == b.dtype:
                far = f"by up to {(a.double() - b.double()).abs().max().item():.3g}"
            raise AssertionError(f"{what}: {key} differs ({far})")


def check_states(one: Sequence[State], other: Sequence[State], what: str) -> None:
    """The same for every silo's state."""
    assert len(one) == len(other), f"{what}: {len(one)} and {len(other)} silos"
    for client, (a, b) in enumerate(zip(one, other, strict=True)):
        check_same(a, b, f"{what} of silo {client}")


def check_equal(one: Sequence[Seen], other: Sequence[Seen]) -> None:
    """Refuse runs that differ: states, personal models, scores, bytes, weights, who took part; to the last bit."""
    assert len(one) == len(other), f"{len(one)} rounds and {len(other)}"
    for a, b in zip(one, other, strict=True):
        where = f"round {a.round}"
        facts = ("round", "took_part", "dropped", "epochs", "bytes_up", "bytes_down", "bytes_eval", "holds")
        for fact in facts:
            mine, theirs = getattr(a, fact), getattr(b, fact)
            assert mine == theirs, f"{where}: {fact} is {mine} and {theirs}"
        check_same(a.server, b.server, f"{where}, server state")
        check_states(a.clients, b.clients, f"{where}, state")
        check_states(a.models, b.models, f"{where}, personal model")
        check_states([{"": each} for each in a.each], [{"": each} for each in b.each], f"{where}, predictions")
        check_same(_weights(a.weights), _weights(b.weights), f"{where}, weights")
        assert (a.scores is None) == (b.scores is None), f"{where}: scores are missing"
        for mine, theirs in zip(a.scores or [], b.scores or [], strict=True):
            assert same_score(mine, theirs), f"{where}: scores {mine} and {theirs}"


def equal_runs(one: Sequence[Seen], other: Sequence[Seen]) -> bool:
    """Whether two runs are the same to the last bit."""
    try:
        check_equal(one, other)
    except AssertionError:
        return False
    return True


def _weights(found: Tensor | None) -> State:
    return {} if found is None else {"weights": found}


def same_score(one: Measured, other: Measured) -> bool:
    """Equal numbers; NaN equals NaN."""
    return _numbers(one) == _numbers(other)


def _numbers(score: Measured) -> list[tuple[str, object]]:
    named = {**score._asdict(), **score.metrics}
    del named["metrics"]
    return [(key, "nan" if isinstance(v, float) and math.isnan(v) else v) for key, v in named.items()]


def finite(rounds: Sequence[Seen]) -> bool:
    """Whether all states, and the personal models at the end, are made of numbers."""
    states = [state for report in rounds for state in (report.server, *report.clients)]
    return all(map(made_of_numbers, [*states, *rounds[-1].models]))


def made_of_numbers(state: State) -> bool:
    """Whether every number of a state or a model is finite."""
    return all(bool(torch.isfinite(value.double()).all()) for value in state.values())
