"""Going on from what was saved of a federation whose silos are hosted here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from amity.contract import InputError, State
from amity.federation.carrier import Carrier
from amity.federation.events import Listener, silent
from amity.federation.plan import Plan
from amity.federation.reports import Progress
from amity.federation.server import Clouds, ServerSide


class Saved(NamedTuple):
    """A federation as it was after a round: the server, and every silo's state.

    The round whose models are to be delivered so far may be an earlier one: it is kept beside them.
    """

    progress: Progress
    states: Sequence[State]
    kept: Progress | None = None
    kept_states: Sequence[State] = ()


def begin(
    plan: Plan,
    carrier: Carrier,
    saved: Saved | None = None,
    *,
    names: Sequence[str] | None = None,
    events: Listener = silent,
    evaluate_every: int = 1,
    clouds: Clouds = "none",
) -> ServerSide:
    """The server of a run whose silos this carrier hosts: at the beginning, or where it was saved."""
    door = carrier.door
    if saved is not None:
        if door is None:
            raise InputError("silos that are elsewhere keep their own states: their server goes on by messages")
        door.restore(saved.states, saved.progress.round)
    server = ServerSide(
        plan,
        carrier,
        start=None if saved is None else saved.progress,
        names=names,
        events=events,
        evaluate_every=evaluate_every,
        clouds=clouds,
    )
    if saved is not None and saved.kept is not None and door is not None:
        server.keep(saved.kept)
        if saved.kept_states:  # else it is the round that was saved last
            door.restore_kept(saved.kept_states)
    return server
