"""Laws of absence: who does not take part keeps what it has, and what cannot be used is as if it was never sent."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from amity.contract import Method, Silo, Split, State, declared
from amity.federation.plan import federation_of
from amity.learn.streams import stream
from amity.testing.cases import Case, On, check_same, law, usual
from amity.testing.federation import Seen, States, batchnorm, copied, run, same, silos, solver_of, task
from amity.testing.watched import Hostile, attacks


def check_lot(report: Seen, before: States | Seen, method: Method) -> None:
    """Check one round's bookkeeping and states against the rule for absent, lost and accepted silos."""
    everyone, asked = range(len(before.clients)), set(report.epochs)
    for i in everyone:
        old, new = before.clients[i], report.clients[i]
        if i not in asked:
            check_same(old, new, f"silo {i} was absent in round {report.round}, its state")
        elif i not in report.took_part:
            assert report.dropped[i] == "upload lost after training", report.dropped[i]
            was, now = ({key: state[key] for key in method.paired} for state in (old, new))
            check_same(was, now, f"silo {i} lost its upload in round {report.round}, a paired key")
    assert set(report.took_part) == asked - set(report.dropped), "who took part is not who was asked and not dropped"
    silent = [i for i in everyone if i not in report.took_part]
    for key, value in before.server.items():  # a server that keeps a row per silo keeps the rows of the silent ones
        if value.dim() and len(value) == len(before.clients):
            kept, old_rows = report.server[key][silent], value[silent]
            if key == "pairs":  # a pair changes with either of its two
                kept, old_rows = kept[:, silent], old_rows[:, silent]
            assert torch.equal(kept, old_rows), f"round {report.round}: the server's {key} of silent silos changed"


@law()
def absent(case: Case, on: On) -> None:
    """Silos that are absent stay unchanged, and so do the server's rows of silent ones."""
    at, model, method = silos(), task(batchnorm), case.method
    fed = federation_of(at, 5, 1)
    first = [method.init_client(model, fed, i) for i in range(len(at))]
    for phase, count in (("before", 2), ("after", 3)):
        before: States | Seen = States(method.init_server(model, fed), [copied(client) for client in first])
        trained: set[int] = set()
        lossy: dict[str, Any] = {"participation": 0.6, "drop": 0.3, "drop_phase": phase}
        for report in run(method, on=model, at=at, rounds=5, epochs=1, engine=on, **lossy):
            assert (len(report.epochs), len(report.took_part)) == (count, 2), f"drawn: {report.epochs}"
            check_lot(report, before, method)
            trained.update(report.epochs)
            before = report
        for i in range(len(at)):
            moved = not same(before.clients[i], first[i])
            assert moved == (i in trained and bool(first[0])), f"silo {i}: trained and changed are not the same"


@law(variants=False)
def never_active(case: Case, on: On) -> None:
    """A silo that is never asked keeps its first state."""
    (report,) = run(case.method, rounds=1, participation=0.2, engine=on)
    fed = federation_of(silos(), 1, 1)
    missing = sorted(set(range(5)) - set(report.took_part))
    assert len(missing) == 4, f"one of five is asked, got {report.took_part}"
    for i in missing:
        check_same(report.clients[i], case.method.init_client(task(), fed, i), f"state of silo {i}")


@law(variants=False)
def lost_upload(case: Case, on: On) -> None:
    """A silo whose upload is lost keeps what it trained, but for its paired keys."""
    method, fed = case.method, federation_of(silos(), 1, 1)
    kept = run(method, rounds=1, engine=on)[0]
    lossy = run(method, rounds=1, drop=0.4, drop_phase="after", engine=on)[0]
    assert len(lossy.dropped) == 2, f"two of five are lost, got {lossy.dropped}"
    for i in lossy.dropped:
        first = method.init_client(task(), fed, i)
        wanted = {**kept.clients[i], **{key: first[key] for key in method.paired}}
        check_same(lossy.clients[i], wanted, f"state of silo {i}")


def poisoned() -> list[Silo]:
    """The usual silos, but the second has an input that overflows."""
    at = silos()
    x = at[1].train.x.clone()
    x[3, 0] = torch.inf
    at[1] = at[1]._replace(train=Split(x, at[1].train.y))
    return at


@law()
def not_finite(case: Case, on: On) -> None:
    """An upload that is not finite is refused, and its silo goes on from its old state."""
    method, at, model = case.method, poisoned(), task()
    first = method.init_client(model, federation_of(at, 2, 1), 1)
    uploads_nothing = usual(case, on)[0].bytes_up == 0
    for report in run(method, at=at, on=model, rounds=2, engine=on):
        if uploads_nothing:  # nobody else can be harmed by what is not sent
            assert report.dropped == {}, f"dropped: {report.dropped}"
        else:
            assert report.took_part == [0, 2, 3, 4], f"took part: {report.took_part}"
            assert report.dropped.keys() == {1} and "not finite" in report.dropped[1], f"dropped: {report.dropped}"
            check_same(report.clients[1], first, "state of the refused silo")
        states = [report.server, *(report.clients[i] for i in (0, 2, 3, 4))]
        spared = all(bool(torch.isfinite(value.double()).all()) for state in states for value in state.values())
        assert spared and all(bool(torch.isfinite(report.personal(i)["params"]).all()) for i in (0, 2, 3, 4)), (
            "numbers of a refused upload reached others"
        )


@law(variants=False)
def hostile(case: Case, on: On) -> None:
    """A hostile upload is refused, and nobody else notices.

    In each round another one, as if it had been refused for a number that is not finite. At last it behaves.
    """
    at, model, method = silos(), task(batchnorm), case.method
    fed = federation_of(at, 1, 1)
    server = method.init_server(model, fed)
    down = method.download(server, torch.arange(5), 1, lambda role, key: stream(1, role, key, 1))
    kinds = declared(method, model, fed, down)
    assert kinds is not None, "the method does not say what its uploads are: upload_kinds"
    tricks = attacks(kinds)
    names = list(tricks)

    def attack(upload: State, is_it: Tensor, round: int) -> Any:
        return tricks[names[round - 1]](upload) if is_it and round <= len(names) else upload

    def diverged(upload: State, is_it: Tensor, round: int) -> State:
        nans = {key: torch.full_like(v, torch.nan) for key, v in upload.items() if v.is_floating_point()}
        return {**upload, **nans} if is_it and round <= len(names) else upload

    how: dict[str, Any] = {"on": model, "at": at, "rounds": len(names) + 1, "epochs": 1, "evaluate_every": 99}
    how |= {"solver": solver_of(method, batch=64), "engine": on}  # one step of training is enough
    want = run(Hostile(method, diverged), **how)
    for name, report, other in zip([*names, ""], run(Hostile(method, attack), **how), want, strict=True):
        if name:
            check_refusal(name, report, on)
        else:
            assert report.dropped == {} and report.took_part == [0, 1, 2, 3, 4], f"dropped: {report.dropped}"
        check_same(report.server, other.server, f"{name}: server state")
        for i, (one, two) in enumerate(zip(report.clients, other.clients, strict=True)):
            if kinds or i != 1:  # what is not sent cannot be refused, so the other one goes on there
                check_same(one, two, f"{name}: state of silo {i}")


def check_refusal(name: str, report: Seen, on: On) -> None:
    """The hostile silo was refused, for this reason. Over a wire, some things cannot even be sent."""
    assert report.dropped.keys() == {1}, f"{name}: dropped {report.dropped}"
    reason, wanted = report.dropped[1], [name.split(": ", 1)[1]]
    if on == "memory":
        wanted += ["it cannot be sent", "it cannot be read"]
    assert reason.startswith("upload refused: ") and any(words in reason for words in wanted), f"{name}: {reason}"
    diverges = [("training diverges" in words) for words in report.warnings if "refused" in words]
    assert diverges == [reason.endswith("not finite")], f"{name}: {report.warnings}"
