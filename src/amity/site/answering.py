"""Answering messages at a silo: consent first, then the silo's side of the run, with all that it keeps on disk.

    Summarise   the contract about a schema is verified, policy or people decide. Declined, or Summarised
    Describe    the contract is verified, then policy or people decide. Declined: no data were opened. Else Described
    Propose     the same, then the plan is resolved from contract and roster, and written to disk. Standing
    Train, Commit, Measure, Keep, Joined, Hello     the silo's side of the run, in STATE/runs/<run>/state
    Finish      the run is over: Done at once. What the silo then finds out for itself is nobody else's affair, so it
                begins when there are no more messages (`results.finish_due`)

After Keep the silo has its personal model in STATE/runs/<run>/. An answer that holds more than the contract announces
is not given.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from amity.contract import Silo
from amity.data.silos import Silos
from amity.errors import InputError, NoSpace
from amity.federation.announced import unannounced
from amity.federation.messages import (
    Answer,
    Declined,
    Describe,
    Described,
    Done,
    Finish,
    Joined,
    Keep,
    Left,
    Measure,
    Message,
    Propose,
    Standing,
    Summarise,
    Summarised,
    Train,
)
from amity.federation.narrowing import narrowed, widened
from amity.federation.plan import Member, layout_of
from amity.federation.proposal import read_proposal
from amity.federation.run_contract import RunContract
from amity.federation.schema_contract import SchemaContract
from amity.federation.signed import Contract, Signed, about_a_run, about_a_schema
from amity.prepare import roster_of
from amity.site import agreement, consent, ending, keeping
from amity.site.accounts import Accounts
from amity.site.agreement import Agreed
from amity.site.config import Site
from amity.site.data import prepared
from amity.site.keeping import KeptSilo, held, writing
from amity.site.model_file import write_model
from amity.site.summarising import summary_for


class Worker:
    """What answers messages at a silo. It holds the silo's state folder until it is closed."""

    def __init__(
        self,
        site: Site,
        root: Callable[[Site], bytes] = consent.root_certificate,
        patience: float = keeping.PATIENCE,
    ) -> None:
        """`patience`: seconds to wait for another worker that holds the folder."""
        self.site = site
        self._root = root
        self._lock = held(site, patience)
        self._accounts = Accounts(site, self.answer)
        self.exchange = self._accounts.exchange  # the bytes of a message -> the bytes of the answer
        self._ready: tuple[str, Silos] | None = None  # data that were made ready, and for which contract
        self._side: KeptSilo | None = None

    def close(self) -> None:
        """Let another worker hold the state folder."""
        self._drop()
        self._lock.close()

    def answer(self, message: Message) -> Answer:
        """Do what a message asks for. What is only in memory, for it cannot be written, is forgotten."""
        try:
            return self._answer(message)
        finally:
            if self._side is not None and self._side.unsaved:
                self._drop()

    def _answer(self, message: Message) -> Answer:
        folder = self.site.run(message.run)
        end = ending.ended(folder)
        if end is not None and end["left"]:
            return Left(message.run, end["round"], message.silo)
        match message:
            case Summarise():
                asked = about_a_schema(self._opened(message, message.document))
                return self._declined(message, asked) or self._summarised(message, asked.contract)
            case Describe():
                signed = about_a_run(self._opened(message, message.document))
                return self._declined(message, signed) or self._described(message, signed)
            case Propose():
                document, roster, joined = read_proposal(message.document)
                signed = about_a_run(self._opened(message, document))
                agreed = Agreed(signed, message.silo, roster, joined)
                return self._declined(message, signed) or self._agree(message, agreed)
        side = self._side_of(message.run)
        if ending.asked(folder) and (left := self._leave(side, message)):
            return left
        if isinstance(message, Finish):
            return self._finish(side, message)
        if isinstance(message, Joined):
            self._welcome(side, Member(message.name, message.size, (), 0, group=message.group))
            return Done(*message[:3])
        wire = self._agreed.contract.wire
        answer = narrowed(side.answer(widened(message, wire)), wire)
        if (reason := unannounced(self._agreed.contract, answer)) is not None:
            raise InputError(f"silo {self.site.name}: {reason}")
        if isinstance(message, Keep):
            self._write_model(side)
        return answer

    def _opened(self, message: Summarise | Describe | Propose, document: str) -> Signed[Contract]:
        """The contract in a document, if it holds."""
        try:
            return consent.opened(self.site, message.run, document, self._root(self.site))
        except InputError as error:
            self._accounts.decided("refused", message.run, str(error))
            raise

    def _declined(self, message: Summarise | Describe | Propose, signed: Signed[Contract]) -> Declined | None:
        """The refusal, where the policy speaks against the contract or nobody here has approved it."""
        with writing(self.site):
            found = consent.decision(self.site, signed)
        words = found.by if found.approved else "; ".join(found.reasons)
        self._accounts.decided("approved" if found.approved else "declined", message.run, words, signed.contract.hash())
        return None if found.approved else Declined(*message[:3], words)

    def _summarised(self, message: Summarise, contract: SchemaContract) -> Summarised:
        return Summarised(*message[:3], summary_for(self.site, contract))

    def _described(self, message: Describe, signed: Signed[RunContract]) -> Described:
        return Described(*message[:3], json.dumps(self._member(signed)._asdict()))

    def _member(self, signed: Signed[RunContract]) -> Member:
        (member,) = roster_of(self._silos(signed))
        return member

    def _silos(self, signed: Signed[RunContract]) -> Silos:
        """The silo's data, made ready for a contract; they are read once."""
        key = signed.contract.hash()
        if self._ready is None or self._ready[0] != key:
            self._ready = None  # now: two would not fit
            self._ready = key, prepared(self.site, signed.contract.data, signed.contract.options)
        return self._ready[1]

    def _agree(self, message: Propose, agreed: Agreed) -> Standing:
        """Come to the plan, from the contract and the roster, and write down what it follows from."""
        name, members = self.site.name, agreed.members
        if message.silo >= len(members) or members[message.silo] != self._member(agreed.signed):
            raise InputError(f"line {message.silo} of the roster is not what silo {name} has said of itself")
        known = agreement.load(self.site, message.run)
        begun = (self.site.run(message.run) / "state" / "current").exists()
        if known is None or not agreed.continues(known):
            if begun:
                raise InputError(
                    f"silo {name} has begun run {message.run!r} with another contract or roster: rename the run"
                )
            known = agreed.first
            agreement.plan_of(self.site, known)  # what cannot be done is not written down
            with writing(self.site):
                agreement.save(self.site, known)
        side = self._begin(known)
        for member in agreed.joined[len(known.joined) :]:
            self._welcome(side, member)
        pending = None if side.pending is None else side.pending.round
        return Standing(message.run, side.committed, message.silo, pending, layout_of(side.plan))

    def _side_of(self, run: str) -> KeptSilo:
        """The silo's side of a run, brought back from disk where this process does not know it yet."""
        if self._side is not None and self._side.plan.run == run:
            return self._side
        agreed = agreement.load(self.site, run)
        if agreed is None:
            raise InputError(f"silo {self.site.name} has agreed to no run {run!r}: propose it first")
        return self._begin(agreed)

    def _begin(self, agreed: Agreed) -> KeptSilo:
        self._drop()
        plan = agreement.plan_of(self.site, agreed)
        folder = self.site.run(plan.run) / "state"
        with writing(self.site):
            self._side = KeptSilo(plan, agreed.silo, self._silo(agreed), folder)
        self._agreed = agreed
        return self._side

    def _silo(self, agreed: Agreed) -> Silo:
        (silo,) = self._silos(agreed.signed).silos
        return silo

    def _drop(self) -> None:
        if self._side is not None:
            self._side.close()
            self._side = None

    def _leave(self, side: KeptSilo, message: Message) -> Left | None:
        """Leave, if all that was trained is settled; before, keep the last personal model.

        A method that evaluates what the server has needs a message that brings it.
        """
        if side.pending is not None or not isinstance(message, Train | Measure | Keep):
            return None
        if side.committed:
            own = side.plan.method.evaluates == "held"
            if not own and message.down is None:
                return None
            side.answer(Keep(message.run, side.committed, message.silo, None if own else message.down))
            self._write_model(side)
        with writing(self.site):
            ending.end(self.site.run(message.run), side.committed, left=True)
        return Left(message.run, side.committed, message.silo)

    def _finish(self, side: KeptSilo, message: Finish) -> Done:
        """Note that the run is over."""
        self._write_model(side)
        with writing(self.site):
            ending.end(self.site.run(message.run), message.round, left=False)
        return Done(*message[:3])

    def _write_model(self, side: KeptSilo) -> None:
        model = side.delivered()
        assert side.kept is not None
        with writing(self.site):
            write_model(
                self.site.run(side.plan.run),
                side.plan,
                self._agreed,
                self._silos(self._agreed.signed),
                side.kept.round,
                model,
            )

    def _welcome(self, side: KeptSilo, newcomer: Member) -> None:
        """Go on with one more silo, and write that down, so that a worker that is started again plans with it.

        The state comes first: if a crash comes between, the server tells it again, and growing twice is growing once.
        """
        agreed = self._agreed
        if any(member.name == newcomer.name for member in agreed.members):
            return  # told before
        side.grow(newcomer)
        self._agreed = agreed._replace(joined=(*agreed.joined, newcomer))
        try:
            with writing(self.site):
                agreement.save(self.site, self._agreed)
        except NoSpace:
            self._drop()  # and what is on disk counts
            raise
