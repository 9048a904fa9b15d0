"""The runs of a hub, and a run that is to be submitted. Run by child.py, for records load torch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from amity.checks import machine
from amity.checks.contract import check_version
from amity.checks.findings import Account
from amity.contract import nbytes
from amity.engines.flare.kits.consortium import FILE, read_consortium
from amity.engines.flare.kits.members import members
from amity.engines.flare.kits.places import root_certificate
from amity.errors import InputError
from amity.federation.run_contract import RunContract
from amity.federation.signed import from_json, verify
from amity.hub.board import OVER, SiloStatus, Status
from amity.hub.run_file import contract_of_file, planned
from amity.hub.runs import CONTRACT, run_of
from amity.record.files import load_bytes

STALE = 60.0  # seconds after which the board of a run that is under way is nobody's
SKEW = 60.0  # seconds that clocks may differ: certificates bear more, but a clock that nobody keeps drifts on


def check_runs(account: Account, hub: Path, run: Path | None) -> None:
    """Look at each run of a hub, and at one that is to be submitted."""
    folder = hub / "runs"
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    for name in names:
        with account.about(f"run {name}"):
            _check_run(account, hub, name)
    if not names:
        account.passed("runs", "none yet")
    if run is None:
        machine.check_disk(account, hub)
    else:
        _check_new(account, hub, run)


def _check_run(account: Account, hub: Path, name: str) -> None:
    check = f"run {name}"
    if not (hub / "runs" / name / CONTRACT).exists():
        account.warned(
            check, "it has no contract.json, and does not count as a run", "remove the folder, or submit anew"
        )
        return
    run = run_of(hub, name)
    status = run.status
    try:
        document = load_bytes(run.folder / CONTRACT).decode("utf-8", "replace")
        verify(document, root_certificate(hub), datetime.now(UTC), known=True)
    except InputError as error:
        if status["phase"] not in OVER:
            raise
        account.warned(check, f"{status['phase']}; {error}", "compare it with the contract that its silos have")
        return
    words = f"{status['phase']}, round {status['round']} of {status['rounds']}"
    if status["words"]:
        words += f", {status['words']}"
    troubles = list(_troubles(status))
    if status["phase"] in ("failed", "incomplete"):
        account.warned(check, words, "see its record and audit; a new run needs another name")
    elif troubles:
        account.warned(
            check, f"{words}; {'; '.join(troubles)}", "see `amity federation status`, and check at that silo"
        )
    else:
        account.passed(check, words)


def _troubles(status: Status) -> Iterator[str]:
    """What is wrong with a run that is not over."""
    if status["phase"] in OVER:
        return
    silent = time.time() - status["written"]
    if silent > STALE and status["phase"] != "queued":
        yield f"its board was last written {silent:,.0f} s ago: nobody conducts it"
    for name, silo in status["silos"].items():
        yield from _silos_troubles(name, silo)


def _silos_troubles(name: str, silo: SiloStatus) -> Iterator[str]:
    if silo["step"] in ("absent", "declined"):
        yield f"{name} {silo['step']}" + (f" ({silo['words']})" if silo["words"] else "")
    skew = silo["skew"]
    if skew is not None and abs(skew) > SKEW:
        yield f"the clock of {name} is {abs(skew):,.0f} s {'ahead' if skew > 0 else 'behind'}"
    version = silo["amity"]
    if version is not None and machine.minor(version) != machine.minor(machine.installed("amity")):
        yield f"{name} has Amity {version}, here is {machine.installed('amity')}"


def _check_new(account: Account, hub: Path, file: Path) -> None:
    """Look at a run that is to be submitted, or a contract that was signed."""
    contract: RunContract | None = None
    there = [one.name for one in members(hub) if one.removed is None]
    with account.about("contract"):
        if file.suffix == ".toml":
            contract = contract_of_file(file, read_consortium(hub / FILE).name, there)
            taken = (hub / "runs" / contract.name / CONTRACT).exists()
            if taken:
                raise InputError(f"the hub has a run {contract.name!r} already: give this one another name")
        else:
            text = load_bytes(file).decode("utf-8", "replace")
            contract = from_json(text).contract
            verify(text, root_certificate(hub), datetime.now(UTC))
            if strangers := [name for name in contract.invited if name not in there]:
                raise InputError(f"it invites {', '.join(strangers)}, who are no members: make it anew")
        words = f"run {contract.name}: {contract.options.method}, {contract.options.rounds} rounds"
        account.passed("contract", f"{words}, invites {', '.join(contract.invited)}")
    if contract is None:
        machine.check_disk(account, hub)
        return
    check_version(account, contract)
    with account.about("disk"):
        machine.check_disk(account, hub, _needed(contract))


def _needed(contract: RunContract) -> int:
    """Bytes that a run takes at the hub, about: three checkpoints of the server's state and of one round's uploads."""
    plan = planned(contract.options, contract.data, contract.invited).plan
    state = nbytes(plan.method.init_server(plan.task, plan.fed))
    uploads = len(contract.invited) * sum(one.bytes for one in contract.leaves if one.kind == "tensor")
    return 3 * (max(state, uploads) + uploads) + machine.LOGS
