"""Personal cloud models: the server keeps every client's last model and sends each client its own mixture.

What the attention methods (FedAMP, HeurFedAMP, PFedAtt, FedACS) have in common: state, storage, sending, and the
client's proximal step. They differ in the rule that turns similarities into weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import torch
from torch import Tensor

from amity.contract import MODEL, Download, Federation, InputError, Model, State, Turn, model_of
from amity.learn.rows import replace_rows
from amity.learn.task import Task
from amity.learn.train import proximal, train
from amity.learn.vectors import largest, mix, mix_models
from amity.methods._attention import gradient_step, group_self_weight, largest_step
from amity.methods._spreading import spread

Rule = Callable[[Tensor, Tensor], Tensor]
"""(similarities of a pool [n, n], its members [n]) -> mixing matrix [n, n]."""


class Similarity(Protocol):
    """Of all models with each other, of those indexed, or of `some` with all of them."""

    def __call__(self, matrix: Tensor, index: Tensor | None = None, *, some: Tensor | None = None) -> Tensor: ...


def first_models(task: Task, fed: Federation, init: Literal["shared", "independent"]) -> State:
    """The server at the start: every client's first model, which clients were heard, and the public facts."""
    if init == "shared":
        model = task.initial(fed)
        # One stored row shown m times: it costs nothing until the first uploads replace it.
        models = {key: value.expand(fed.clients, -1) for key, value in model.items()}
    else:
        own = [task.initial(fed, client) for client in range(fed.clients)]
        models = {key: torch.stack([model[key] for model in own]) for key in MODEL}
    facts = {"least_mix": torch.tensor(fed.least_mix)} if fed.least_mix > 1 else {}
    facts |= {"heard": torch.zeros(fed.clients, dtype=torch.bool), "rounds": torch.tensor(fed.rounds), "keys": fed.keys}
    return {**models, **facts}


def first_model(task: Task, fed: Federation, client: int, init: Literal["shared", "independent"]) -> State:
    """A client at the start: its model, and the length of the run (step sizes follow it)."""
    model = task.initial(fed, client if init == "independent" else None)
    return {**model, "rounds": torch.tensor(fed.rounds)}


def store(server: State, who: Tensor, uploads: State, similarity: Similarity | None = None) -> State:
    """The server with the uploaded models in place of the older ones.

    Where it keeps similarities (`with_pairs`), those of the models that changed are computed anew: O(|who| m d).
    """
    stored = {key: replace_rows(server[key], who, uploads[key]) for key in MODEL}
    after = {**server, **stored, "heard": server["heard"].index_fill(0, who, True)}
    if "pairs" not in server or similarity is None:
        return after
    if len(who) == len(server["pairs"]):
        return {**after, "pairs": similarity(after["params"]).cpu()}
    fresh = similarity(after["params"], some=who).cpu()  # [who, m]
    return {**after, "pairs": server["pairs"].index_copy(0, who, fresh).index_copy(1, who, fresh.T)}


def with_pairs(server: State, pool: Literal["active", "latest"], similarity: Similarity) -> State:
    """The first state of a server that keeps the similarities of all models, where it will see most of them again.

    With an active pool it does not: every pair asked for has changed since it was last asked for. Similarities are
    kept and not a Gram matrix about some origin, which would lose the digits of models that have moved far from it;
    a distance is as exact as the mean of all models at the time when it was computed allows.
    """
    if pool == "active":
        return server
    return {**server, "pairs": similarity(server["params"]).cpu()}  # [m, m]


def grow_pairs(server: State, before: Federation, after: Federation, similarity: Similarity) -> State:
    """A server that keeps similarities, with those of newcomers to the models as they are now."""
    if "pairs" not in server:
        return server
    who = torch.arange(before.clients, after.clients)
    fresh = similarity(server["params"], some=who).cpu()  # [new, m]
    return {**server, "pairs": server["pairs"].index_copy(0, who, fresh).index_copy(1, who, fresh.T)}


def send(
    server: State,
    who: Tensor,
    pool: Literal["active", "latest"],
    similarity: Similarity,
    rule: Rule,
    notes: tuple[str, ...] = (),
) -> Download:
    """u_i = sum_j xi_ij w_j for i in `who`, j in the pool and i itself.

    `active`: the pool is `who`. `latest`: every client ever heard from, with its last upload; a client that was
    never heard sees the pool and itself, and nobody sees it.

    Where a run asks for it (`--min-mix`), weights are spread so that no mixture shows one silo's model.
    """
    heard = server["heard"].clone()
    if pool == "active":
        heard = torch.zeros_like(heard).index_fill(0, who, True)
    members = (heard | torch.zeros_like(heard).index_fill(0, who, True)).nonzero()[:, 0]
    index = None if len(members) == len(heard) else members
    if "pairs" in server:
        pairs = server["pairs"][members[:, None], members]  # [n, n]
    else:
        pairs = similarity(server["params"], index).cpu()

    at = torch.full((len(heard),), -1).index_copy(0, members, torch.arange(len(members)))  # client -> place
    known = at[heard.nonzero()[:, 0]]
    square = torch.zeros(len(members), len(members), dtype=torch.float64)
    if len(known):
        square[known[:, None], known] = rule(pairs[known[:, None], known], members[known])
    for place in at[who[~heard[who]]].tolist():
        seen = torch.cat([known, torch.tensor([place])])
        square[place, seen] = rule(pairs[seen[:, None], seen], members[seen])[-1]

    weights = square[at[who]]  # [who, n]
    if "least_mix" in server:
        weights = spread(weights, at[who], heard[members], int(server["least_mix"]))
    models = mix_models(weights, model_of(server), index)
    convex = (weights >= 0).all(1)
    if not convex.all() and server["buffers"].shape[1]:
        own = torch.eye(len(members), dtype=torch.float64)[at[who]]
        kept = torch.where(convex[:, None], weights, own)
        models |= {
            "buffers": mix(kept, server["buffers"], index),
            "counts": largest(kept, server["counts"], index),
        }
        notes = (*notes, "negative weights: buffers stay local")
    full = torch.zeros(len(who), len(heard), dtype=torch.float64).index_copy(1, members, weights)
    return Download({}, dict(models), full, notes)


def step_size(alpha: float, round: int, rounds: int) -> float:
    """alpha_k: multiplied by 0.1 after each third of the rounds, which is our own rule for runs of any length."""
    third = min(2, 3 * (round - 1) // max(1, rounds))
    return float(alpha * 0.1**third)


def step_weights(
    slopes: Tensor,
    step: float,
    *,
    on_negative: Literal["shrink", "error", "raw"],
    method: str,
    attraction: float,
    notes: list[str],
) -> Tensor:
    """The weights of a gradient step on the pair term (FedAMP eq. 5, PFedAtt eq. 16), with self weights >= 0.

    A step that is too long for that is shortened, which `notes` is told, or refused, or taken as it is.
    """
    largest = largest_step(slopes)
    if step > largest * (1 + 1e-12):  # a step of exactly the bound must not fail by rounding
        if on_negative == "error":
            raise InputError(
                f"{method} needs every self weight >= 0, but the step {step:g} exceeds {largest:g}: "
                "set a larger sigma, a smaller alpha, or on_negative=shrink"
            )
        if on_negative == "shrink":
            effective = attraction * largest / step
            notes.append(f"step shrunk to keep self weights >= 0: effective lambda {effective:.3g}")
            step = largest
    weights = gradient_step(slopes, step)
    return weights if on_negative == "raw" else weights.clamp(min=0)


def proximal_step(
    task: Task, client: State, down: Model, turn: Turn, *, pull: float, start: Literal["cloud", "own"]
) -> tuple[State, State]:
    """w_i ~ argmin F_i(w) + (pull/2) |w - u_i|^2, descended from the cloud model u_i or from the client's own."""
    begin = down if start == "cloud" else model_of(client)
    terms = [proximal(pull, down["params"])] if pull else []
    model = train(task, begin, turn, terms=terms)
    return {**client, **model}, model


def oracle_groups(fed: Federation, self_weight: object) -> State:
    """The groups as server state, where a rule asks for them."""
    if self_weight != "group":
        return {}
    if fed.groups is None:
        raise InputError(
            "self_weight=group needs to know each client's group, but this federation has none: "
            "use self_weight=softmax or a number"
        )
    return {"groups": fed.groups}


def self_weights(server: State, members: Tensor, self_weight: float | str, counts_self: bool) -> Tensor | None:
    """xi_ii for a pool: a number for all, 1/(N_i + 1) by group, or None to let the softmax decide."""
    if self_weight == "softmax":
        return None
    if self_weight == "group":
        return group_self_weight(server["groups"][members], counts_self)
    return torch.full((len(members),), float(self_weight), dtype=torch.float64)


def self_notes(self_weight: float | str) -> tuple[str, ...]:
    """Said aloud: with this self weight nobody learns from anybody."""
    return ("self_weight = 1: no collaboration, this is separate training",) if self_weight == 1 else ()
