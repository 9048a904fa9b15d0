"""What a silo is proposed: the contract, and everybody who is in the run. Both sides come to the plan from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from amity.errors import InputError
from amity.federation.plan import Member


def proposal(contract: str, roster: Sequence[Member], joined: Sequence[Member] = ()) -> str:
    """The document of a Propose: the text of contract.json, the roster, and who has joined since."""
    lists = {"roster": roster, "joined": joined}
    lines = {key: [member._asdict() for member in members] for key, members in lists.items()}
    return json.dumps({"contract": contract, **lines})


class Proposal(NamedTuple):
    """What the document of a Propose says."""

    contract: str
    roster: tuple[Member, ...]
    joined: tuple[Member, ...]


def read_proposal(document: str) -> Proposal:
    """The contract's text and the silos in the document of a Propose."""
    try:
        content = json.loads(document)
        contract = content["contract"]
        text = contract if isinstance(contract, str) else json.dumps(contract)
        return Proposal(text, members_of(content["roster"]), members_of(content.get("joined", [])))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        kind = type(error).__name__
        raise InputError(f"what is proposed cannot be read ({kind}): look at who sends it, and its version") from None


def members_of(lines: Any) -> tuple[Member, ...]:
    return tuple(Member(**{**line, "shape": tuple(line["shape"])}) for line in lines)
