"""Approvals by hand, in a silo's own state folder: one file for each, taken back by removing it.

    STATE/pending/<run>.json              contracts that were offered and not approved yet, as they came
    STATE/approvals/<run>.<hash>.json     approvals: of one run's contract, by that hash, at this silo

An approval is for one hash. Where anything in the contract changes, it no longer counts. One whose name and content do
not agree, that was given at another silo, or that others can write to, is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from amity.errors import InputError
from amity.federation import strict_json as strict
from amity.federation.contract_rules import NAME
from amity.federation.safe_files import replace, sync
from amity.federation.signed import LONGEST, Contract

APPROVALS, PENDING = "approvals", "pending"
_LONGEST = 4096  # characters of an approval


class Approval(NamedTuple):
    """A person's word that this silo takes part in a run."""

    contract: str  # its hash
    run: str
    silo: str
    who: str
    when: str  # ISO 8601, UTC


class Approvals(NamedTuple):
    """What lies in a state folder: approvals that count, and why others do not."""

    given: tuple[Approval, ...]
    refused: tuple[str, ...] = ()


def approve(state: Path, contract: Contract, silo: str, who: str, when: datetime) -> Approval:
    """Write down that somebody approves this contract for this silo."""
    approval = Approval(contract.hash(), contract.name, silo, who, when.astimezone(UTC).isoformat(timespec="seconds"))
    content = approval._asdict()
    try:
        strict.check(content)
    except ValueError as error:
        raise InputError(f"an approval says who gives it, got {who!r:.60} ({error}): give a plain name") from None
    replace(_file(state, approval), strict.canonical(content).encode() + b"\n")
    return approval


def withdraw(state: Path, run: str, silo: str) -> list[Approval]:
    """Take back every approval of a run, and return them."""
    taken = [approval for approval in read_approvals(state, silo).given if approval.run == _checked(run)]
    for approval in taken:
        _file(state, approval).unlink(missing_ok=True)
    if taken:
        sync(state / APPROVALS)
    return taken


def read_approvals(state: Path, silo: str) -> Approvals:
    """Return the approvals that were given at this silo. One that does not hold keeps none of the others from it."""
    given, refused = [], []
    for file in _files(state / APPROVALS):
        try:
            given.append(_read(file, silo))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            refused.append(f"the approval {file} does not count, {reason}: remove it, and approve anew")
    return Approvals(tuple(given), tuple(refused))


def offer(state: Path, run: str, document: str) -> None:
    """Keep a contract that waits for an approval, as it came: it is verified again before it is approved."""
    replace(_pending(state, run), document.encode())


def offered(state: Path, run: str) -> str:
    """Return the contract of a run that waits for an approval."""
    file = _pending(state, run)
    try:
        if file.stat().st_size > LONGEST:
            raise InputError(f"{file} is too long for a contract: remove it, and wait until the run asks again")
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        known = ", ".join(runs_offered(state)) or "none"
        raise InputError(f"no contract of run {run!r} waits for an approval here, waiting: {known}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read ({error}): remove it, and wait until the run asks again") from None


def runs_offered(state: Path) -> list[str]:
    """Return the runs whose contracts wait for an approval."""
    return [file.stem for file in _files(state / PENDING) if NAME.fullmatch(file.stem)]


def settle(state: Path, run: str) -> None:
    """Forget that a contract waits for an approval."""
    _pending(state, run).unlink(missing_ok=True)


def _read(file: Path, silo: str) -> Approval:
    facts = file.lstat()
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LONGEST:
        raise ValueError("it is no plain file of an approval")
    if os.name != "nt" and facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError("others than its owner can write to it")
    table = strict.table(strict.read(file.read_text(encoding="utf-8"), _LONGEST), Approval._fields, "it")
    approval = Approval(**{key: strict.of_type(value, str, key) for key, value in table.items()})
    if file.name != _name(approval):
        raise ValueError("its name is not that of the run and the contract in it")
    if approval.silo != silo:
        raise ValueError(f"it was given at {approval.silo!r:.60}, this is {silo!r}")
    return approval


def _files(folder: Path) -> Iterable[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix == ".json" and not file.name.startswith("."))
    except FileNotFoundError:
        return []


def _file(state: Path, approval: Approval) -> Path:
    return state / APPROVALS / _name(approval)


def _name(approval: Approval) -> str:
    return f"{approval.run}.{approval.contract}.json"


def _pending(state: Path, run: str) -> Path:
    return state / PENDING / f"{_checked(run)}.json"


def _checked(run: str) -> str:
    if not NAME.fullmatch(run):
        raise InputError(f"a run's name is letters, digits, - and _, got {run!r:.60}: it becomes a file")
    return run
