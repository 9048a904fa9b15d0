"""What a silo has agreed to, on its own disk: a worker that is started again knows its runs without being told anew.

    STATE/runs/<run>/plan.json    the signed contract, the roster, the silo's number, who has joined since

The plan itself follows from these, as at the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from amity import models
from amity.errors import DamagedFile, InputError
from amity.federation.membership import with_member
from amity.federation.plan import Member, Plan, layout_of
from amity.federation.proposal import members_of
from amity.federation.run_contract import RunContract
from amity.federation.signed import Signed, from_json, to_json
from amity.record.files import load_json
from amity.record.files import replace as put
from amity.record.files import to_json as json_bytes
from amity.resolve import Builds, resolve
from amity.site.config import Site
from amity.site.data import code

FILE = "plan.json"


class Agreed(NamedTuple):
    """A run that the silo takes part in, with what its plan follows from."""

    signed: Signed[RunContract]
    silo: int  # its number
    roster: tuple[Member, ...]
    joined: tuple[Member, ...] = ()  # since round 1, as far as others are told of them

    @property
    def contract(self) -> RunContract:
        """The contract."""
        return self.signed.contract

    @property
    def members(self) -> tuple[Member, ...]:
        """All silos, by number."""
        return *self.roster, *self.joined

    @property
    def first(self) -> Agreed:
        """The same before anybody joined after this silo: all begin so, whenever they hear of the others."""
        return self._replace(joined=self.joined[: max(0, self.silo + 1 - len(self.roster))])

    def is_about(self, document: str) -> bool:
        """Whether a document is the one that was agreed to, with the same signature."""
        return from_json(document) == self.signed

    def continues(self, before: Agreed) -> bool:
        """Whether this is what was agreed to before, with newcomers at most."""
        same = (self.contract, self.silo, self.roster) == (before.contract, before.silo, before.roster)
        return same and _told(self.joined[: len(before.joined)]) == _told(before.joined)


def _told(members: Sequence[Member]) -> list[tuple[str, int, int | None]]:
    """What others are told of silos that join."""
    return [(member.name, member.size, member.group) for member in members]


def save(site: Site, agreed: Agreed) -> None:
    """Write down what was agreed to."""
    content = {
        "contract": to_json(agreed.signed),
        "silo": agreed.silo,
        "roster": [member._asdict() for member in agreed.roster],
        "joined": [member._asdict() for member in agreed.joined],
    }
    folder = site.run(agreed.contract.name)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    put(folder / FILE, json_bytes(content, indent=1))


def load(site: Site, run: str) -> Agreed | None:
    """What the silo has agreed to for this run, if anything."""
    file = site.run(run) / FILE
    if not file.exists():
        return None
    content = load_json(file)
    try:
        members = members_of(content["roster"]), members_of(content["joined"])
        return Agreed(from_json(content["contract"]), int(content["silo"]), *members)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DamagedFile(
            f"{file} is not as it was written ({type(error).__name__}): bring back a copy of it"
        ) from None


def plan_of(site: Site, agreed: Agreed) -> Plan:
    """The plan, as the server comes to it from the same contract and roster."""
    contract = agreed.contract
    run = replace(contract.options, device=site.device)
    plan = resolve(run, agreed.roster, model=own_model(site, contract)).plan._replace(run=contract.name)
    if layout_of(plan) != contract.layout:
        raise InputError(
            f"silo {site.name} comes to another model or method than the contract of run {contract.name!r}: "
            "use the same version of Amity, and the same code of a model of your own"
        )
    for member in agreed.joined:
        plan = plan._replace(fed=with_member(plan.fed, member))
    return plan


def own_model(site: Site, contract: RunContract) -> Builds | None:
    """The code of a model that the contract only names: what silo.toml says it is. None for one that Amity has."""
    name = contract.options.model
    if name == "auto" or name in models.MODELS:
        return None
    if site.model is None:
        raise InputError(
            f"the contract names the model {name!r}, which Amity does not have: silo {site.name} has to say which code "
            'that is in its silo.toml, model = "module:function"'
        )
    return code(site, site.model)
