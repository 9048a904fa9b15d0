"""All checks of a folder, whichever it is."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from amity.checks.findings import Account, Finding
from amity.checks.limits import within
from amity.errors import InputError

PATIENCE = 15.0
"""Seconds after which what takes long (data, runs, the server's answers) is told as not known."""

GRACE = 5.0  # seconds beyond it for all the rest

Kind = Literal["silo", "hub"]

_HUB = ("consortium.toml", "ca", "admin", "members")
_SILO = ("silo.toml", "kit", "key.pem")


class Report(NamedTuple):
    """What was found in a folder."""

    folder: Path
    kind: Kind
    findings: tuple[Finding, ...]

    @property
    def is_ready(self) -> bool:
        """True if nothing has failed."""
        return not self.count("FAIL")

    def count(self, grade: str) -> int:
        """The number of findings of a grade."""
        return sum(one.grade == grade for one in self.findings)


def check(folder: Path, run: Path | None = None, patience: float = PATIENCE) -> Report:
    """Look whether a silo's folder or a hub is ready: for a run, where a RUN.toml or a contract.json is given."""
    folder = folder.expanduser()
    if not folder.is_dir():
        raise InputError(f"a silo's folder or a hub is needed, {folder} is no folder: check the path")
    if run is not None and not run.is_file():
        raise InputError(f"--run needs a RUN.toml or a contract.json, {run} is no file: check the path")
    kind = _kind_of(folder)
    account, place = Account(), folder.resolve()
    try:
        within(patience + GRACE, lambda: _look(account, kind, place, run, patience))
    except TimeoutError:
        found = "something here does not answer, and what is not in this list was not looked at"
        account.failed("time", found, "look at the disks and network drives that folders and data lie on")
    return Report(folder, kind, tuple(account.findings))


def _kind_of(folder: Path) -> Kind:
    if any((folder / name).exists() for name in _HUB):
        return "hub"
    if any((folder / name).exists() for name in _SILO) or any(folder.glob("*.request")):
        return "silo"
    raise InputError(f"{folder} is neither a silo's folder (silo.toml) nor a hub (consortium.toml): check the path")


def _look(account: Account, kind: Kind, folder: Path, run: Path | None, patience: float) -> None:
    if kind == "hub":
        from amity.checks.hub import check_hub

        check_hub(account, folder, run, patience)
    else:
        from amity.checks.silo import check_silo

        check_silo(account, folder, run, patience)
