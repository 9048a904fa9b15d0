"""The law of membership: every method lives through a silo that joins and one that leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from amity.contract import State
from amity.federation.membership import with_member
from amity.federation.plan import member_of
from amity.federation.resume import begin
from amity.testing.cases import Case, On, check_equal, check_same, law
from amity.testing.federation import CLASSES, Seen, batchnorm, near, opened, plan_of, silo, task
from amity.testing.watched import form

JOINS, LEAVES, LEAVER = 3, 5, 1  # the first round of the newcomer, the first one without the leaver


@law()
def membership(case: Case, on: On) -> None:
    """A silo joins at round 3 and another leaves at round 5: the others keep what they have, and all goes on."""
    check_equal(live(case, on, {}), live(case, "loop", {}))
    live(case, on, {"participation": 0.6, "drop": 0.3, "drop_phase": "after"})


def live(case: Case, on: On, lossy: dict[str, Any]) -> list[Seen]:
    """Six rounds, with a newcomer from the third and a leaver before the fifth, checked on the way."""
    plan, hosted = plan_of(case.method, on=task(batchnorm), rounds=6, epochs=1, **lossy)
    newcomer, rounds = silo("gum", 11, 1), []
    with opened(on)(plan, hosted) as carrier:
        server = begin(plan, carrier, names=[one.name for one in hosted.values()])
        door = carrier.door
        assert door is not None
        left: State = {}
        for report in server.rounds():
            seen = Seen(*report)
            seen.clients, seen.each, seen.recipe = list(carrier_states(carrier)), [], list
            rounds.append(seen)
            check_round(seen, left)
            if report.round == JOINS - 1:
                before = seen.clients, seen.server
                client = server.join(member_of(newcomer, CLASSES))
                carrier.host(server.plan, client, newcomer)  # type: ignore[attr-defined]
                check_joined(case, plan.fed, server.plan.fed, before, (carrier_states(carrier), server.progress.server))
            if report.round == LEAVES - 1:
                server.leave(LEAVER)
                left = carrier_states(carrier)[LEAVER]
        server.keep()
        door = carrier.door
        assert door is not None
        models = door.delivered()
        rounds[-1].recipe = lambda: models
    assert len(models) == 6 and all(bool(torch.isfinite(model["params"]).all()) for model in models), "models broke"
    return rounds


def carrier_states(carrier: Any) -> Sequence[State]:
    """Every silo's committed state."""
    states: Sequence[State] = carrier.door.states()
    return states


def check_round(report: Seen, left: State) -> None:
    """Who is asked, measured and reported after a round."""
    number, asked = report.round, set(report.epochs)
    assert report.scores is not None
    assert len(report.scores) == (5 if number < JOINS else 6), f"round {number}: {len(report.scores)} scores"
    if number >= LEAVES:
        gone = report.scores[LEAVER]
        assert LEAVER not in asked and gone.examples == 0, f"round {number}: a silo that left was asked"
        assert math.isnan(gone.main) and math.isnan(gone.loss), f"round {number}: a silo that left was measured"
        check_same(report.clients[LEAVER], left, f"round {number}, state of the silo that left")
    measured = [score.silo for score in report.scores if score.examples]
    assert measured == [i for i in range(len(report.scores)) if number < LEAVES or i != LEAVER], f"round {number}"
    if report.weights is not None:
        assert report.weights.shape == (len(report.scores),) * 2, f"round {number}: weights {report.weights.shape}"
    if asked and len(report.dropped) == 0 and number >= JOINS:
        assert 5 in asked, f"round {number}: the newcomer takes no part"


def check_joined(
    case: Case, old: Any, new: Any, before: tuple[Sequence[State], State], after: tuple[Sequence[State], State]
) -> None:
    """A join itself changes nothing that was learnt, and gives states the form of the larger federation."""
    method, model = case.method, task(batchnorm)
    assert new.sizes.tolist() == [7, 15, 9, 12, 10, 11] and new.keys[:5].tolist() == old.keys.tolist()
    wanted = with_member(old, member_of(silo("gum", 11, 1), CLASSES))
    assert torch.equal(wanted.keys, new.keys), "the two sides know different federations"
    first = [method.init_client(model, new, i) for i in range(6)]
    check_same(after[0][5], first[5], "state of the newcomer")
    check_kept(before[1], after[1], method.init_server(model, old), method.init_server(model, new), "server")
    for i in range(5):
        check_kept(before[0][i], after[0][i], method.init_client(model, old, i), first[i], f"silo {i}")
        if method.evaluates == "held":
            was, now = (method.personal(model, x[0][i], None, None) for x in (before, after))  # type: ignore[arg-type]
            assert near(now["params"], was["params"], 1e-12), f"the model of silo {i} changed when another joined"


def check_kept(was: State, now: State, first: State, larger: State, whose: str) -> None:
    """Old content stays in the leading corner, but for facts that depend on the number of silos from the beginning."""
    assert form(now) == form(larger), f"{whose}: {form(now)}, a larger federation has {form(larger)}"
    for key, old in was.items():
        corner = tuple(slice(0, size) for size in old.shape)
        # A mean over all silos (SCAFFOLD's control) is one over more of them now.
        if torch.equal(first[key], larger[key][corner]) and key != "control":
            check_same({key: now[key][corner]}, {key: old}, f"{whose}, what was there before")
