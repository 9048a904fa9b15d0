"""A run contract in plain words, for whoever has to agree to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amity.config.options import fields_of
from amity.config.run import Run
from amity.federation.contract_rules import ELSEWHERE
from amity.federation.run_contract import Leaves, RunContract

_TOLD_ABOVE = ("method", "model", "rounds", "epochs", "local_epochs_range", "participation", "ending", "safe")
_NAMED = 12  # classes or columns that are told by name
_TITLES: tuple[tuple[Leaves, str], ...] = (
    ("tensor", "the model"),
    ("metric", "how good its model is, as numbers over all its test data"),
    ("count", "counts"),
)


def bytes_per_round(contract: RunContract) -> int:
    """Return what leaves a silo in one round, at most: as if everything left in each."""
    return sum(leaving.bytes for leaving in contract.leaves)


def bytes_in_total(contract: RunContract) -> int:
    """Return what leaves a silo in the whole run, at most."""
    return bytes_per_round(contract) * contract.options.rounds


def in_words(contract: RunContract) -> str:
    """Return the contract as lines of plain words."""
    return "\n".join(_lines(contract))


def _lines(contract: RunContract) -> Iterator[str]:
    run = contract.options
    yield f"run {contract.name} of the consortium {contract.consortium} (Amity {contract.amity})"
    yield f"contract {contract.hash()}"
    yield ""
    yield from _who(contract)
    yield ""
    yield f"what is done: {run.method}, model {run.model}, {_plural(run.rounds, 'round')}, {_epochs(run)}"
    yield from _ending(run)
    if changed := list(_changed(run)):
        yield f"  not as usual: {', '.join(changed)}"
    if contract.privacy:
        yield f"  privacy: {', '.join(f'{key} = {value}' for key, value in contract.privacy.items())}"
    yield f"data needed: {_form(contract)}"
    yield ""
    yield from _leaves(contract)


def _ending(run: Run) -> Iterator[str]:
    """What silos do by themselves after the last round."""
    if run.ending not in ("none", "default"):  # which a run file has resolved
        length = "to its own end" if run.ending == "auto" else f"for {_plural(int(run.ending), 'epoch')}"
        yield f"  then every silo goes on alone, {length}; nothing of that is sent"
    if run.safe:
        yield "  every silo trains alone as well, and keeps that model if it is clearly better; nothing of that is sent"


def _who(contract: RunContract) -> Iterator[str]:
    invited, limits = contract.invited, contract.limits
    yield f"invited: {_plural(len(invited), 'silo')}: {', '.join(invited)}"
    if contract.policy == "wait":
        yield f"  the run waits for silos that are missing, {_span(limits.absence)} at most"
        yield f"  no round counts with fewer than {contract.quorum} of them"
    else:
        yield f"  a round goes on without those that are missing, as long as {contract.quorum} are there"
    yield f"  it is a success only if each silo has taken part in {_plural(contract.least_rounds, 'round')}"
    yield f"  a turn may take {_span(limits.turn)}; after {_plural(limits.failures, 'restart')} the run is given up"


def _leaves(contract: RunContract) -> Iterator[str]:
    yield f"what leaves a silo, with numbers sent as {contract.wire}:"
    for kind, title in _TITLES:
        rows = [leaving for leaving in contract.leaves if leaving.kind == kind]
        if rows:
            yield f"  {title}"
        for row in rows:
            yield f"    {row.name:<18} {size(row.bytes):>10}  {row.words}"
    yield "  and where something goes wrong, one line that says what; never an example, a prediction or a label"
    each, whole = bytes_per_round(contract), bytes_in_total(contract)
    yield f"  at most {size(each)} in a round, {size(whole)} in all {_plural(contract.options.rounds, 'round')}"


def _epochs(run: Run) -> str:
    span = run.who.local_epochs_range
    trained = _plural(run.epochs, "local epoch") if span is None else f"{span[0]} to {span[1]} local epochs"
    share = run.who.participation
    return f"{trained} each" if share == 1 else f"{trained} each, {share:.0%} of the silos in a round"


def _changed(run: Run) -> Iterator[str]:
    """Options that differ from their defaults, then the method's own."""
    for name, field in fields_of(Run).items():
        value: Any = getattr(run, name)
        if name not in _TOLD_ABOVE and name not in ELSEWHERE and value != field.default:
            yield f"{name} = {value}"
    for name, value in run.settings.items():
        yield f"{name} = {value}"


def _form(contract: RunContract) -> str:
    shape, labels, features = contract.data
    example = "x".join(map(str, shape)) + (" numbers" if len(shape) == 1 else "")
    columns = "" if features is None else f" ({_some(features)})"
    wanted = "quantities" if labels is None else f"{len(labels)} classes ({_some(labels)})"
    return f"examples of {example}{columns}, labels: {wanted}"


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def size(count: int) -> str:
    """Return a number of bytes as people say it."""
    for unit, length in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{count / length:,.1f} {unit}"
    return f"{count} B"


def _span(seconds: int) -> str:
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length and seconds % length == 0:
            return _plural(seconds // length, unit)
    return _plural(seconds, "second")


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
