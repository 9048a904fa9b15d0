"""A run's contract against what a silo has: signature, version, policy, the model, room on disk. Run by child.py."""

from __future__ import annotations

from pathlib import Path

from amity import models
from amity.checks import machine
from amity.checks.data import check_data
from amity.checks.findings import Account
from amity.contract import nbytes
from amity.errors import InputError
from amity.federation.approvals import read_approvals
from amity.federation.certificates import signer_of
from amity.federation.plan import Member, Plan
from amity.federation.policy import decide, objections
from amity.federation.run_contract import RunContract
from amity.federation.signed import Signed, from_json
from amity.hub.run_file import contract_of_file
from amity.record.files import load_bytes, load_toml
from amity.site.agreement import Agreed, plan_of
from amity.site.config import Site, load_site
from amity.site.consent import opened, root_certificate

SIZE = 100  # training examples of a made-up silo: a model's layout does not depend on it


def check_silos_run(account: Account, folder: Path, run: Path | None) -> None:
    """Look at a silo's data, and at a run where one is given."""
    site = load_site(folder)
    signed: Signed[RunContract] | None = None
    if run is not None:
        with account.about("contract"):
            signed = _drafted(account, site, run) if run.suffix == ".toml" else _received(account, site, run)
        if signed is None:
            for check in ("contract's version", "model"):
                account.skipped(check, "the contract is to be mended first")
            machine.check_disk(account, site.state)
    if signed is not None:
        check_version(account, signed.contract)
        _check_agreed(account, site, signed.contract, is_draft=not signed.signature)
        plan = _check_model(account, site, signed)
        machine.check_disk(account, site.state, None if plan is None else needed(plan, signed.contract))
    check_device(account, site.device)
    check_data(account, site, None if signed is None else signed.contract)


def _drafted(account: Account, site: Site, file: Path) -> Signed[RunContract]:
    """The contract that would come of a RUN.toml; those whom it invites count as members."""
    invited = load_toml(file).get("invited")
    names = [name for name in invited if isinstance(name, str)] if isinstance(invited, list) else [site.name]
    contract = contract_of_file(file, "not yet named", names)
    account.passed("contract", f"{_words(contract)}; a draft that nobody has signed yet")
    return Signed(contract, "", "", "")


def _received(account: Account, site: Site, file: Path) -> Signed[RunContract]:
    """A contract.json; what speaks against it is noted, and the rest is looked at all the same."""
    text = load_bytes(file).decode("utf-8", "replace")
    signed = from_json(text)
    try:
        opened(site, signed.contract.name, text, root_certificate(site))
    except InputError as error:
        account.refused("contract", error)
    else:
        signer = signer_of(signed.certificate.encode())
        account.passed("contract", f"{_words(signed.contract)}; the signature of {signer} holds")
    return signed


def _words(contract: RunContract) -> str:
    run = contract.options
    return (
        f"run {contract.name}: {run.method}, {run.model}, rounds: {run.rounds}, invited: {', '.join(contract.invited)}"
    )


def check_version(account: Account, contract: RunContract) -> None:
    """Note whether the coordinator has the same version of Amity, as far as it matters."""
    here = machine.installed("amity")
    words = f"Amity {here} here, the contract is of {contract.amity}"
    if machine.minor(here) == machine.minor(contract.amity) != ():
        account.passed("contract's version", words)
    else:
        account.failed("contract's version", words, "install the same version at the coordinator and at each silo")


def _check_agreed(account: Account, site: Site, contract: RunContract, *, is_draft: bool) -> None:
    """Note whether the silo would take part."""
    with account.about("agreement"):
        against = objections(contract, site.policy, silo=site.name)
        if against:
            remedy = "decline, ask for another contract, or change [policy] in silo.toml"
            account.failed("agreement", f"the silo's policy refuses it: {', '.join(against)}", remedy)
            return
        given = read_approvals(site.state, site.name).given
        found = decide(contract, site.policy, given, silo=site.name)
        if found.approved:
            account.passed("agreement", f"the silo takes part, by {found.by}")
        elif is_draft:
            account.passed("agreement", "the policy has nothing against it; somebody here will have to approve it")
        else:
            remedy = f"read it and decide: amity federation approve {contract.name} --site {site.folder}"
            account.warned(
                "agreement", "the policy has nothing against it, and nobody here has approved it yet", remedy
            )


def _check_model(account: Account, site: Site, signed: Signed[RunContract]) -> Plan | None:
    """Note whether the model can be built here, and is the contract's."""
    contract = signed.contract
    with account.about("model"):
        roster = tuple(Member(name, SIZE, contract.data.shape, contract.data.classes) for name in contract.invited)
        try:
            plan = plan_of(site, Agreed(signed, 0, roster))
        except (ImportError, AttributeError) as error:
            known = contract.options.model in models.MODELS
            what = contract.options.model if known else f"{site.model}, the silo's code of it,"
            remedy = "put its module beside silo.toml or install it, and check the name"
            account.failed("model", f"{what} cannot be loaded ({type(error).__name__})", remedy)
            return None
        account.passed("model", f"{contract.options.model}, {plan.task.size:,} numbers, as the contract has it")
        return plan
    return None


def needed(plan: Plan, contract: RunContract) -> int:
    """Bytes that a run takes at a silo, about.

    Three copies (new, current, old) of its state, what it was before and after the last turn, what is kept of the best
    round, and the upload; then the same for the model that it trains alone to compare; and 100 MB for logs.
    """
    state = nbytes(plan.method.init_client(plan.task, plan.fed, 0))
    upload = sum(leaving.bytes for leaving in contract.leaves if leaving.kind == "tensor")
    model = 4 * plan.task.size
    return 3 * (4 * max(state, model) + 2 * upload) + 3 * 5 * model + 2 * model + machine.LOGS


def check_device(account: Account, device: str) -> None:
    """Note whether torch can use the device of silo.toml."""
    if device == "cpu":
        return
    import torch

    with account.about("device"):
        try:
            torch.ones(1, device=device).sum().item()
        except Exception as error:  # of torch's many kinds
            reason = (str(error).splitlines() or [""])[0][:100]
            account.failed("device", f"{device} cannot be used ({reason})", 'set device = "cpu", or mend its driver')
            return
        account.passed("device", f"{device} can be used")
