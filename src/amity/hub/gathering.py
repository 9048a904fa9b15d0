"""Gathering: who takes part in a run. Each silo that is invited is shown the contract, and approves it or does not."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Sequence

from amity.errors import LostWorker, RefusedUpload
from amity.federation.distant import shortened
from amity.federation.encoding import decode, encode
from amity.federation.messages import Answer, Declined, Describe, Described, Failed, Left
from amity.federation.plan import Member
from amity.federation.run_contract import RunContract
from amity.federation.scores import MOST_EXAMPLES
from amity.federation.signed import Contract
from amity.federation.stored_server import Roster
from amity.federation.transport import Away, Letter, Transport
from amity.hub.board import Board

AGAIN = 3.0
"""Seconds before silos that are not there, or have not approved, are asked again; they grow while nothing changes."""

SELDOM = 30.0
"""Seconds between two questions at most."""

GRACE = 60.0
"""Seconds that a run with a quorum waits for the others, once enough are there."""

ANSWER = 120.0
"""Seconds that a silo has to describe itself: it reads its data for it."""


def gather(
    contract: RunContract,
    document: str,
    before: Roster,
    transport: Transport,
    board: Board,
    check: Callable[[], None],
) -> Roster:
    """Return who takes part: those of before, and whoever has approved since.

    The founders are complete under the policy wait, and at least a quorum otherwise. A run that has begun waits for
    no newcomer. `check` raises where the run is to stop.
    """
    found: dict[str, Member] = {member.name: member for member in before.members}
    began, enough = time.monotonic(), None
    pause = AGAIN
    while True:
        known = len(found)
        missing = [name for name in contract.invited if name not in found and not _left(board, name)]
        found |= _asked(contract, document, missing, transport, board)
        if before.founders or len(found) == len(contract.invited):
            break
        if contract.policy == "quorum" and len(found) >= contract.quorum:
            enough = enough or time.monotonic()
            if time.monotonic() - enough >= GRACE:
                break
        check_patience(contract, found, board, time.monotonic() - began)
        board.phase("gathering", f"{len(found)} of {len(contract.invited)} silos have approved")
        check()
        time.sleep(pause)
        pause = AGAIN if len(found) > known else min(SELDOM, 1.3 * pause)
    new = tuple(found[name] for name in contract.invited if name in found and found[name] not in before.members)
    return Roster(before.founders, (*before.joined, *new)) if before.founders else Roster(new, ())


def _asked(
    contract: RunContract, document: str, names: Sequence[str], transport: Transport, board: Board
) -> dict[str, Member]:
    """Show the contract to these silos; those that approve it describe themselves."""
    found: dict[str, Member] = {}
    asks = {name: Describe(contract.name, 0, contract.invited.index(name), document) for name in names}
    letters = {name: Letter(encode(ask)) for name, ask in asks.items()}
    if not letters:
        return found
    for name, received in transport.send(letters, dict.fromkeys(letters, ANSWER)):
        answer = read_answer(received)
        match answer:
            case Described():
                member = _member(name, answer)
                if member is None or (member.shape, member.classes) != (contract.data.shape, contract.data.classes):
                    board.silo(name, "absent", "what it says of its data is not what the contract is about")
                else:
                    found[name] = member
                    board.silo(name, "approved")
            case Declined():
                board.silo(name, "declined", answer.words)
            case Left():
                board.silo(name, "left")
            case Failed():
                board.silo(name, "connected", answer.words)  # a sign of life would wipe out that it is absent
            case None if isinstance(received, Away):
                board.silo(name, "absent", received.words)
            case _:
                board.silo(name, "absent", "it gives an answer that is none: look at its version")
    if transport.stopped:
        raise LostWorker("the run was stopped at the server")
    return found


def read_answer(received: bytes | Away) -> Answer | None:
    """The answer in what a silo has sent; None where it is away, or sends none."""
    if isinstance(received, Away):
        return None
    try:
        answer = decode(received)
    except RefusedUpload:
        return None
    if isinstance(answer, Failed | Declined):
        return shortened(answer)
    return answer if isinstance(answer, Answer) else None


def _member(name: str, answer: Described) -> Member | None:
    """The line that a silo has given of itself, None where it is none; its name is the one that its certificate has."""
    try:
        line = json.loads(answer.member)
        member = Member(**{**line, "shape": tuple(line["shape"]), "name": name})
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    known = type(member.size) is int and 0 < member.size <= MOST_EXAMPLES and type(member.validates) is bool
    whole = all(type(number) is int for number in (*member.shape, member.classes))  # 8.0 and true equal a whole number
    named = isinstance(member.data, str) and re.fullmatch(r"[0-9a-f]{0,128}", member.data) is not None
    return member if known and whole and named and member.group is None else None


def _left(board: Board, name: str) -> bool:
    return board.status["silos"][name]["step"] == "left"


def check_patience(contract: Contract, found: Collection[str], board: Board, waited: float) -> None:
    """Give up a run that nobody comes to, naming who is missing and why."""
    if waited <= contract.limits.absence:
        return
    silos = board.status["silos"]
    told = [f"{name} ({silos[name]['step']}: {silos[name]['words'] or 'no reason known'})" for name in contract.invited]
    missing = [words for name, words in zip(contract.invited, told, strict=True) if name not in found]
    raise LostWorker(f"the run has waited {waited:.0f} s, which is its limit, for {'; '.join(missing)}: see to them")
