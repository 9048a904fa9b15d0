"""The laws that every method keeps, for methods of other people too.

    >>> from amity.testing import check_method
    >>> report = check_method("fedavg", on="memory", laws=["pure", "carriers"])
    >>> report.passed
    ('pure', 'carriers')

`check_method` needs no test framework; inside one, a failed law is an AssertionError that names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from amity.contract import Method
from amity.errors import InputError
from amity.testing import laws_absence, laws_edges, laws_membership, laws_state, laws_symmetry
from amity.testing.cases import LAWS, Case, On, forget
from amity.testing.watched import BROKEN

__all__ = ["LAWS", "Report", "check_method"]

_FILES = (laws_state, laws_absence, laws_symmetry, laws_edges, laws_membership)  # importing them fills the table

for _file in _FILES:  # what breaks is told by the simplest law that it breaks
    for _name in [name for name, law in LAWS.items() if law.check.__module__ == _file.__name__]:
        LAWS[_name] = LAWS.pop(_name)

_OVER: dict[str, tuple[On, ...]] = {"all": ("loop", "memory"), "local": ("loop",), "memory": ("memory",)}


class Report(NamedTuple):
    """The laws that a method was found to keep, and over which carriers."""

    method: str
    passed: tuple[str, ...]
    runs: int  # laws times carriers

    def __str__(self) -> str:
        lines = [f"{self.method} keeps {len(self.passed)} laws:", *(f"  {LAWS[name].name}" for name in self.passed)]
        return "\n".join(lines)


def check_method(
    method: Method | str,
    *,
    on: Literal["all", "local", "memory"] = "all",
    laws: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> Report:
    """Put a method, given as an instance or by its name, to all laws and return those that it keeps.

    `on` chooses the carriers: `local` calls silos in this process, `memory` reaches them by encoded messages. `laws`
    chooses some laws by name, and `without` leaves some out that are not meant for the method. The first law that is
    broken raises an AssertionError with the name of the law and what differed.
    """
    case = Case(method) if isinstance(method, str) else Case(type(method).__name__, given=method)
    chosen = list(LAWS) if laws is None else list(laws)
    for name in (*chosen, *without):
        if name not in LAWS:
            raise InputError(f"unknown law {name!r}: known: {', '.join(LAWS)}")
    if on not in _OVER:
        raise InputError(f"laws need on to be one of {', '.join(_OVER)}, got {on!r}: leave it out for all")
    passed, runs = [], 0
    for name in chosen:
        carriers = [carrier for carrier in LAWS[name].over if carrier in _OVER[on]]
        if name in without or not carriers:
            continue
        for carrier in carriers:
            check_law(name, case, carrier)
        passed.append(name)
        runs += len(carriers)
    return Report(str(case), tuple(passed), runs)


def check_law(name: str, case: Case, on: On) -> None:
    """Put a method to one law over one carrier; AssertionError with the law's name where it does not keep it."""
    law = LAWS[name]
    broken = f"{case} breaks the law {name!r} over {on} ({law.name})"
    try:
        law.check(case, on)
    except AssertionError as error:
        forget()
        raise AssertionError(f"{broken}: {str(error).removeprefix(BROKEN)}") from error
    except Exception as error:
        forget()
        said = str(error).partition(BROKEN)[2]  # at a silo, which can only say so by message
        if said:
            raise AssertionError(f"{broken}: {said}") from error
        error.add_note(f"in the law {name!r} over {on} for {case}: {law.name}")
        raise
