"""The process at a silo that answers messages: `python -m amity.site.worker`, with AMITY_SITE in the environment.

Messages come in on standard input, answers go out on standard output, as frames (`frames.py`). Nothing in a message
names a path or code: where data lie, which code a model is and who approves stands in the silo's own folder.

    Describe    the contract is verified, then policy or people decide. Declined: no data were opened. Else Described
    Propose     the same, then the plan is resolved from contract and roster, and written to disk. Standing
    Train, Commit, Measure, Keep, Joined, Hello     the silo's side of the run, in STATE/runs/<run>/state
    Finish      the run is over: Done at once. What the silo then finds out for itself is nobody else's affair, so it
                begins when there are no more messages (`results.finish`)

After Keep the silo has its personal model in STATE/runs/<run>/. Every message and every answer is a line of the audit.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from amity import logs
from amity.contract import Silo
from amity.data.silos import Silos
from amity.engines.memory import answered
from amity.errors import AmityError, InputError
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
    Train,
    failure,
)
from amity.federation.plan import Member, layout_of
from amity.federation.run_contract import Signed
from amity.prepare import roster_of
from amity.site import agreement, consent, frames, leaving
from amity.site.accounts import Accounts
from amity.site.agreement import Agreed
from amity.site.config import Site, load_site
from amity.site.data import prepared
from amity.site.keeping import KeptSilo, Unwritten, held, writing
from amity.site.model_file import write_model
from amity.site.results import finish_due

VARIABLE, LOG = "AMITY_SITE", "worker.log"

_log = logging.getLogger("amity.site")


class Worker:
    """What answers messages at a silo. It holds the silo's state folder until it is closed."""

    def __init__(self, site: Site, root: Callable[[Site], bytes] = consent.root_certificate) -> None:
        self.site = site
        self._root = root
        self._lock = held(site)
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
        end = leaving.ended(folder)
        if end is not None and end["left"]:
            return Left(message.run, end["round"], message.silo)
        match message:
            case Describe():
                signed = self._opened(message, message.document)
                return self._declined(message, signed) or self._described(message, signed)
            case Propose():
                document, roster = agreement.read_proposal(message.document)
                signed = self._opened(message, document)
                return self._declined(message, signed) or self._agree(message, Agreed(signed, message.silo, roster))
        side = self._side_of(message.run)
        if leaving.asked(folder) and (left := self._leave(side, message)):
            return left
        if isinstance(message, Finish):
            return self._finish(side, message)
        if isinstance(message, Joined):
            return self._welcome(side, message)
        answer = side.answer(message)
        if isinstance(message, Keep):
            self._write_model(side)
        return answer

    def _opened(self, message: Describe | Propose, document: str) -> Signed:
        """The contract in a document, if it holds."""
        try:
            return consent.opened(self.site, message.run, document, self._root(self.site))
        except InputError as error:
            self._accounts.decided("refused", message.run, str(error))
            raise

    def _declined(self, message: Describe | Propose, signed: Signed) -> Declined | None:
        """The refusal, where the policy speaks against the contract or nobody here has approved it."""
        with writing(self.site):
            found = consent.decision(self.site, signed)
        words = found.by if found.approved else "; ".join(found.reasons)
        self._accounts.decided("approved" if found.approved else "declined", message.run, words, signed.contract.hash())
        return None if found.approved else Declined(*message[:3], words)

    def _described(self, message: Describe, signed: Signed) -> Described:
        return Described(*message[:3], json.dumps(self._member(signed)._asdict()))

    def _member(self, signed: Signed) -> Member:
        (member,) = roster_of(self._silos(signed))
        return member

    def _silos(self, signed: Signed) -> Silos:
        """The silo's data, made ready for a contract; they are read once."""
        key = signed.contract.hash()
        if self._ready is None or self._ready[0] != key:
            self._ready = None  # now: two would not fit
            self._ready = key, prepared(self.site, signed.contract.data, signed.contract.options)
        return self._ready[1]

    def _agree(self, message: Propose, agreed: Agreed) -> Standing:
        """Come to the plan, from the contract and the roster, and write down what it follows from."""
        name, roster = self.site.name, agreed.roster
        if message.silo >= len(roster) or roster[message.silo] != self._member(agreed.signed):
            raise InputError(f"line {message.silo} of the roster is not what silo {name} has said of itself")
        known = agreement.load(self.site, message.run)
        if known is not None and (known.signed.contract, known.silo) == (agreed.contract, agreed.silo):
            if roster in (known.roster, (*known.roster, *known.joined)):
                agreed = known
        if agreed is not known:
            if (self.site.run(message.run) / "state" / "current").exists():
                raise InputError(
                    f"silo {name} has begun run {message.run!r} with another contract or roster: rename the run"
                )
            agreement.plan_of(self.site, agreed)  # what cannot be done is not written down
            with writing(self.site):
                agreement.save(self.site, agreed)
        side = self._begin(agreed)
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
            leaving.end(self.site.run(message.run), side.committed, left=True)
        return Left(message.run, side.committed, message.silo)

    def _finish(self, side: KeptSilo, message: Finish) -> Done:
        """Note that the run is over."""
        self._write_model(side)
        with writing(self.site):
            leaving.end(self.site.run(message.run), message.round, left=False)
        return Done(*message[:3])

    def _write_model(self, side: KeptSilo) -> None:
        model = side.delivered()
        assert side.kept is not None
        with writing(self.site):
            write_model(
                self.site.run(side.plan.run),
                side.plan,
                self._agreed,
                self._silo(self._agreed),
                side.kept.round,
                model,
                pixels=self.site.data is not None,  # a factory's arrays are taken as they are
            )

    def _welcome(self, side: KeptSilo, message: Joined) -> Answer:
        """Go on with one more silo, and write that down, so that a worker that is started again plans with it.

        The state comes first: if a crash comes between, the server asks again, and growing twice is growing once.
        """
        agreed = self._agreed
        if any(member.name == message.name for member in (*agreed.roster, *agreed.joined)):
            return Done(*message[:3])  # told before
        answer = side.answer(message)
        newcomer = Member(message.name, message.size, (), 0, group=message.group)
        with writing(self.site):
            agreement.save(self.site, agreed._replace(joined=(*agreed.joined, newcomer)))
        self._agreed = agreed._replace(joined=(*agreed.joined, newcomer))
        return answer


class Unable:
    """Answers for a silo that cannot begin, for a reason that the server may know."""

    def __init__(self, error: AmityError) -> None:
        self._error = error

    def safely(self, message: Message) -> Answer:
        """The reason, whatever is asked."""
        return failure(message, self._error)


def main() -> None:
    """Answer messages of standard input, for the silo whose folder AMITY_SITE names."""
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever else is printed does not belong among the answers
    worker = None
    try:
        site = site_here()
        worker = Worker(site)
        _keep_words(site.state / LOG)
    except AmityError as error:
        print(f"amity: {error}", file=sys.stderr)
        if isinstance(error, Unwritten) and worker is None:
            frames.serve(partial(answered, Unable(error)), sys.stdin.buffer, answers)
        sys.exit(2)
    torch.set_num_threads(site.threads)  # with more than one, sums are taken in another order than in a simulation
    frames.serve(worker.exchange, sys.stdin.buffer, answers)
    worker.close()  # now: the next worker need not wait for what follows
    finish_due(site)


def _keep_words(log: Path) -> None:
    """Keep all that is logged or printed from now on in the silo's state folder: code that has seen data may quote it,
    and the kit's own logs are not for that."""
    logs.start("info", str(log))
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())


def site_here() -> Site:
    """The silo whose folder the environment names."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise InputError(f"{VARIABLE} must name the folder of a silo, it is not set: set it")
    return load_site(Path(folder))


if __name__ == "__main__":
    main()
