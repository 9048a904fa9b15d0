"""Methods on encrypted models, and a server after a round that was made by hand: shared by their tests."""

from __future__ import annotations

from typing import Any

import torch
from small import build, fresh_task, plan_of, silos
from torch import Tensor

from amity.config.run import Run
from amity.contract import Download, Method, State
from amity.encrypted_runs import encrypted
from amity.learn.ciphers import Holder
from amity.learn.padding import bytes_of
from amity.methods._key_holder import SECRET
from amity.methods.encrypted import Encrypted

SIGMA = {"heurfedamp": {"sigma": 5.0}, "fedamp": {"sigma": 1.0}}


def blind(name: str, **settings: Any) -> Encrypted:
    """A method on encrypted models, as a run makes it."""
    bare = build(name, {**SIGMA.get(name, {}), **settings})
    method = encrypted(Run(name, encrypted=True), name, bare, bare)
    assert isinstance(method, Encrypted)
    return method


def plain(name: str, **settings: Any) -> Method:
    return build(name, {**SIGMA.get(name, {}), **settings})


def after_a_round(method: Encrypted, moved: list[list[float]]) -> tuple[State, list[State], Tensor]:
    """A server after a round in which silos have moved so far, and the silos."""
    on, at = fresh_task(), silos(len(moved))
    plan, _ = plan_of(method, at=at, on=on)
    server = method.init_server(on, plan.fed)
    clients = [method.init_client(on, plan.fed, i) for i in range(len(at))]
    step = 0
    while (question := method.opening(server, step, list(range(len(at))))) is not None:
        found = [method.answer(on, clients[i], question.down.to(place)) for place, i in enumerate(question.who)]
        for i, (state, _) in zip(question.who, found, strict=True):
            clients[i] = state
        answers = {key: torch.stack([said[key] for _, said in found]) for key in found[0][1]}
        server, step = method.opened(server, question.who, answers), step + 1
    x = torch.tensor(moved, dtype=torch.float64)
    first = on.initial(plan.fed)["params"]
    holder = Holder(bytes_of(clients[0][SECRET]))
    uploads = {
        "sealed": torch.stack([holder.encrypted(row).flatten() for row in x]),
        "square": x.square().sum(1),
        "along": x @ first,
        "counts": torch.zeros(len(at), 0, dtype=torch.int64),
    }
    who = list(range(len(at)))
    question = method.question(server, who, uploads)
    assert question is not None and question.who == who
    said = [method.answer(on, clients[i], question.down.to(i))[1]["products"] for i in who]
    server = method.aggregate(server, torch.tensor(who), {**uploads, "products": torch.stack(said)}, 1)
    return server, clients, first


def mixtures(method: Encrypted, server: State, clients: list[State], down: Download) -> Tensor:
    return torch.stack([method.opened_by(state, down.to(i))["params"] for i, state in enumerate(clients)])


def no_draws(role: str, key: int) -> torch.Generator:
    raise AssertionError("nothing is drawn")
