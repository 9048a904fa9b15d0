"""A silo's side: its data, its state, its turns, its personal model. None of these ever leaves it.

A turn changes nothing for good. What it gives is *pending* until the server says what became of the upload:

    accepted    the silo goes on with its new state
    lost        so it does, but for the method's `paired` keys, which go with an upload that arrived
    refused     the silo goes on from its old state

The server's side is not known here, and this one is not known there: they share `messages.py` and the plan.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from amity.contract import Consults, Data, InputError, Model, Score, Silo, State, Turn, measured_keys
from amity.federation.membership import grow_client, with_member
from amity.federation.messages import (
    Answer,
    Ask,
    Commit,
    Done,
    Hello,
    Joined,
    Keep,
    Measure,
    Measured,
    Message,
    Place,
    Standing,
    Told,
    Train,
    Upload,
    Verdict,
    failure,
    measured,
)
from amity.federation.participation import epochs_of
from amity.federation.plan import Member, Plan, layout_of
from amity.federation.secrets import Secret
from amity.federation.small_counts import reported, without_scores
from amity.federation.spending import guard_of
from amity.learn.private import PrivateTask, unseen
from amity.learn.streams import seed_of

_log = logging.getLogger("amity.silo")


class Stopped(Exception):
    """Raised inside a turn after the run was interrupted."""


class Pending(NamedTuple):
    """A turn whose upload may or may not become part of the server's state."""

    round: int
    after: State


class Kept(NamedTuple):
    """What the personal model to be delivered is made from."""

    round: int
    state: State
    down: State | None


class SiloSide:
    """One silo. `answer` takes a message and gives the answer to it; the other methods are its parts."""

    def __init__(
        self,
        plan: Plan,
        client: int,
        silo: Silo,
        *,
        stopped: Callable[[], bool] = lambda: False,
        secret: Secret | None = None,
    ) -> None:
        prepare = plan.task.prepare
        self.plan = plan
        self.client = client
        self.name = silo.name
        val, own = (None if part is None else prepare(part) for part in (silo.val, silo.own))
        self.data = Data(prepare(silo.train), val, own)
        self.task = plan.task.at(self.data.train)  # with weights of its own classes, where these are asked for
        self.test = prepare(silo.test)
        self.unit = silo.scale.unit
        self.secret = secret or Secret.fresh()
        if plan.privacy is not None:
            self.task = PrivateTask(
                self.task, self.data.train, guard_of(plan, client), self.secret.numbers("differential privacy")
            )
        self._stopped = stopped
        self.begin()

    def begin(self, state: State | None = None, round: int = 0) -> None:
        """Start from the method's first state, or from one that was committed after this round."""
        method, task, fed, *_ = self.plan
        self.state = method.init_client(task, fed, self.client) if state is None else state
        self.committed = round
        self.pending: Pending | None = None
        self.kept: Kept | None = None
        self.score: Score | None = None  # of the last evaluation, with what is known of single examples
        self._scored: State | None = None  # the state that it is of

    def answer(self, message: Message) -> Answer:
        """Do what a message asks for."""
        run, round, silo = message[:3]
        if run != self.plan.run or silo != self.client:
            raise InputError(
                f"silo {self.name} is number {self.client} of run {self.plan.run!r}, "
                f"got a message to number {silo} of run {run!r}: look at who sends it"
            )
        match message:
            case Train():
                began = time.perf_counter()
                upload = self.train(round, message.down)
                return Upload(run, round, silo, upload, time.perf_counter() - began)
            case Ask():
                return Told(run, round, silo, self.tell(round, message.down))
            case Commit():
                self.commit(round, message.verdict)
            case Measure():
                return self.measure(round, message.down)
            case Keep():
                self.keep(round, message.down)
            case Joined():
                self.welcome(message)
            case Hello():
                self.settle(round, message.asked, message.verdict)
                pending = None if self.pending is None else self.pending.round
                return Standing(run, self.committed, silo, pending, layout_of(self.plan))
        return Done(run, round, silo)

    def safely(self, message: Message) -> Answer:
        """The answer, and a message about it where something goes wrong: for carriers over which nothing is raised."""
        try:
            return self.answer(message)
        except Stopped:
            raise
        except Exception as error:
            _log.warning("silo %s, round %d", self.name, message.round, exc_info=error)
            return failure(message, error)

    def train(self, round: int, down: State) -> State:
        """Take a turn. Its upload comes back; the new state waits for the server's verdict."""
        if round <= self.committed:
            raise InputError(f"silo {self.name} has committed round {self.committed}, got round {round} to train again")
        with self.blamed(round):
            after, upload = self.plan.method.local(self.task, self.state, down, self.turn(round))
        self.pending = Pending(round, after)
        return without_scores(upload, measured_keys(self.plan.method), self.data, self.plan.min_count)

    def tell(self, round: int, down: State) -> State:
        """Answer a question of the method, which may give the silo something to keep, such as a key."""
        method = self.plan.method
        if not isinstance(method, Consults):
            raise InputError(f"{type(method).__name__} asks silos nothing beside their turns: look at who sends it")
        with self.blamed(round):
            self.state, values = method.answer(self.task, self.state, down)
        return values

    def commit(self, round: int, verdict: Verdict) -> None:
        """Settle the turn of this round, now that it is known what became of its upload."""
        pending = self.pending
        if pending is None or pending.round != round:
            known = "none" if pending is None else f"one of round {pending.round}"
            raise InputError(f"silo {self.name} has {known} to commit, got a verdict on round {round}")
        if verdict != "refused":
            paired = self.plan.method.paired if verdict == "lost" else ()
            old = self.state
            self.state = {**pending.after, **{key: old[key] for key in paired}}
        self.committed, self.pending = round, None
        if self._scored is not self.state:  # or a state that was evaluated some rounds ago would stay alive
            self._scored = None

    def settle(self, round: int, asked: int, verdict: Verdict | None) -> None:
        """Agree with a server that comes back: `round` is the last it has saved, `asked` the silo's last turn there.

        A turn that it knows of is committed; a later one, which it has forgotten or gone on without, is forgotten too.
        """
        if self.pending is not None and self.pending.round == asked and verdict is not None:
            self.commit(asked, verdict)
        elif self.pending is not None and self.pending.round > asked:
            self.pending = None
        if self.committed > round:
            raise InputError(
                f"silo {self.name} has committed round {self.committed}, the server has saved round {round} only: "
                "bring back the server's newest checkpoint, or begin the run anew"
            )

    def welcome(self, news: Joined) -> None:
        """Go on in a federation with one more silo; what this one has learnt stays as it is."""
        if self.pending is not None:
            raise InputError(
                f"silo {self.name} has a turn of round {self.pending.round} to commit, got a newcomer: commit it first"
            )
        method, task, before, *_ = self.plan
        after = with_member(before, Member(news.name, news.size, (), 0, group=news.group))
        self.state = grow_client(method, task, before, after, self.client, self.state)
        self.plan = self.plan._replace(fed=after)

    def measure(self, round: int, down: State | None) -> Measured:
        """Evaluate the personal model after this round on the silo's own test data."""
        if down is not None or self.score is None or self._scored is not self.state:
            with self.blamed(round):
                model = self.personal(round, down)
                self.scored(self.task.measure(model, self.data, self.test, self.unit), held=down is None)
        assert self.score is not None
        return self.report(round, self.score)

    def report(self, round: int, score: Score) -> Measured:
        """What the silo tells of a score; all of it stays known here."""
        said = measured(self.plan.run, round, self.client, score)
        return reported(said, score, self.data, self.test, self.task.metric.key, self.plan.min_count)

    def scored(self, score: Score, *, held: bool) -> None:
        """Remember the score of the silo's model; one that it holds need not be evaluated again until it changes."""
        self.score, self._scored = score, self.state if held else None

    @property
    def unchanged(self) -> bool:
        """Whether the model that the silo holds is the one that was evaluated last."""
        return self._scored is self.state

    def personal(self, round: int, down: State | None) -> Model:
        """The silo's personal model after this round."""
        return self.plan.method.personal(self.task, self.state, down, self.turn(round + 1))

    def keep(self, round: int, down: State | None) -> None:
        """Remember what the personal model after this round is made from: it is the one to deliver so far."""
        self.kept = Kept(round, self.state, down)

    def delivered(self) -> Model:
        """The personal model that was kept: what the silo ends up with."""
        if self.kept is None:
            raise InputError(f"silo {self.name} was not told to keep a model: finish the run")
        kept = self.kept
        return self.plan.method.personal(self.task, kept.state, kept.down, self.turn(kept.round + 1))

    def turn(self, round: int) -> Turn:
        """What the method gets to see of the silo in this round."""
        _, _, fed, solver, rule, *_ = self.plan
        key = int(fed.keys[self.client])

        def seed(role: str, epoch: int) -> int:
            if self._stopped():
                raise Stopped
            return seed_of(fed.seed, role, key, round, epoch)

        data = self.data if self.plan.privacy is None else unseen()
        return Turn(round, epochs_of(rule, fed, self.client, round), solver, data, seed)

    @property
    def spent(self) -> int:
        """The noisy gradients that the silo has made, whatever became of its uploads; 0 without any noise."""
        return self.task.made if isinstance(self.task, PrivateTask) else 0

    def count_spent(self, made: int) -> None:
        """Take up noisy gradients that were made before; what is spent once cannot be taken back."""
        if isinstance(self.task, PrivateTask):
            self.task.made = max(made, self.task.made)

    @contextmanager
    def blamed(self, round: int) -> Iterator[None]:
        """Add silo, round and method to what goes wrong inside."""
        where = f"silo {self.name}, round {round}, {type(self.plan.method).__name__}"
        try:
            yield
        except Stopped:
            raise
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        except Exception as error:
            error.add_note(Place(where))
            raise
