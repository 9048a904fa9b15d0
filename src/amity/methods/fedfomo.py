"""FedFomo: each client weighs other clients' models by what they gain on its validation data, per unit of distance.

Zhang et al., Personalized Federated Learning with First Order Model Optimization, ICLR 2021.

    s_n = (V_i(b_i) - V_i(w_n)) / |w_n - b_i|                   0 where the distance is < 1e-12
    u_i = sum_n a_n w_n / sum_n a_n,   a_n = max(s_n, 0)        w_i itself where nothing gains
    b_i <- u_i,   w_i = Local(u_i, F_i)
    Aff_in += s_n                                               server

n runs over the client's own last trained model and M downloaded ones; b_i is where its last local training began;
V_i is the loss on validation data. The server fills client i's M slots one by one: with probability
eps_k = max(0, 0.3 - 0.05 k), k rounds done, by any client of the pool, else by the one with the largest Aff_in, ties
at random; never by i. With the models go their M indices, which come back with the M + 1 scores.

Departures. The authors' program measures distance in L1, falls back to b_i and divides the scores by the size of
their sum before adding them to Aff; here as printed: L2, the own model, raw scores. Its rate falls by 0.99 a round
(`--lr-decay 0.99`). A loss that is not finite gains nothing. A silo without validation data judges by its training
data; `amity run` always sets some aside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import (
    MODEL,
    Download,
    Federation,
    Kind,
    Kinds,
    Model,
    Pick,
    Solver,
    Split,
    State,
    Turn,
    kinds_like,
    model_of,
    rows,
)
from amity.learn.streams import shuffled
from amity.learn.task import Task
from amity.learn.train import train
from amity.learn.vectors import mix_models
from amity.methods import _mixing as cloud


@dataclass(frozen=True)
class FedFomo:
    budget: int | Literal["all"] = option(4, "models downloaded per round", symbol="M", at_least=1)
    epsilon: float = option(
        0.3, "chance of a random download in round 1", symbol="eps", at_least=0, at_most=1, search="0:1"
    )
    epsilon_decay: float = option(0.05, "what this chance loses per round", at_least=0, at_most=1)
    pool: Literal["active", "latest"] = option("active", "whose models may be sent: this round's, or all heard")
    init: Literal["shared", "independent"] = option("shared", "one first model for all, or each its own")

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("sgd", 0.1, batch=50)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")
    measured: ClassVar[tuple[str, ...]] = ("scores",)
    other_use: ClassVar[str] = "weighs models on validation data"
    validation: ClassVar[float] = 0.2

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        affinity = torch.eye(fed.clients, dtype=torch.float64)
        return {**cloud.first_models(task, fed, self.init), "affinity": affinity}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        first = task.initial(fed, client if self.init == "independent" else None)
        alone = torch.zeros(fed.clients, dtype=torch.float64)
        alone[client] = 1
        baseline = {f"baseline_{key}": first[key] for key in MODEL}  # b_i
        return {**first, **baseline, "relations": alone, "place": torch.tensor(client)}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        pool = who if self.pool == "active" else server["heard"].nonzero()[:, 0]
        count = max(0, len(pool) - 1)  # the same for all: whoever is not in the pool leaves one of it out
        count = count if self.budget == "all" else min(count, self.budget)
        chance = max(0.0, self.epsilon - self.epsilon_decay * (round - 1))

        def slots(client: int) -> Tensor:
            draws, others = rng("models", int(server["keys"][client])), pool[pool != client]
            others = others[shuffled(server["keys"][others], draws)]
            wishes = server["affinity"][client, others]
            left = others[torch.argsort(wishes, descending=True, stable=True)].tolist()
            luck = torch.rand(count, 2, generator=draws, dtype=torch.float64).tolist()
            return torch.tensor([left.pop(int(at * len(left)) if coin < chance else 0) for coin, at in luck]).long()

        chosen = torch.stack([slots(client).sort().values for client in who.tolist()])  # [who, M]
        return Download({}, {**{key: Pick(server[key], chosen) for key in MODEL}, "ids": chosen})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        judge = turn.data.train if turn.data.val is None else turn.data.val
        baseline = {key: client[f"baseline_{key}"] for key in MODEL}
        models = {key: torch.cat([client[key][None], down[key]]) for key in MODEL}  # own first
        scores = gains_per_distance(task, baseline, models, judge)
        weights = shares_of_gains(scores)
        start = rows(mix_models(weights[None], models), 0)
        model = train(task, start, turn)

        places = torch.cat([client["place"][None], down["ids"]])
        relations = torch.zeros_like(client["relations"]).index_copy(0, places, weights)
        baseline = {f"baseline_{key}": start[key] for key in MODEL}
        return (
            {**client, **model, **baseline, "relations": relations},
            {**model, "ids": down["ids"], "scores": scores},
        )

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        sent = down.each["ids"]
        assert isinstance(sent, Tensor)  # [who, M]
        ids = Kind((sent.shape[1],), torch.int64, least=0, most=fed.clients - 1)
        return {**kinds_like(task.initial(fed)), "ids": ids, "scores": Kind((sent.shape[1] + 1,), torch.float64)}

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        judged = torch.cat([who[:, None], uploads["ids"]], dim=1)  # [who, M + 1]
        gained = server["affinity"][who].scatter_add(1, judged, uploads["scores"])
        affinity = server["affinity"].index_copy(0, who, gained)
        return {**cloud.store(server, who, uploads), "affinity": affinity}

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)

    def relations(self, client: State) -> Tensor:
        return client["relations"]


def gains_per_distance(task: Task, baseline: Model, models: Model, judge: Split) -> Tensor:
    """s_n, in float64. The loss is summed over the data, not averaged: one factor for all, which no weight sees."""
    before = task.evaluate(baseline, judge).loss
    after = (task.evaluate(rows(models, n), judge).loss for n in range(len(models["params"])))
    gains = torch.stack([torch.as_tensor(before - loss, dtype=torch.float64) for loss in after]).cpu()
    difference = models["params"] - baseline["params"]
    distance = torch.linalg.vector_norm(difference, dim=1, dtype=torch.float64).cpu()
    near = distance < 1e-12
    scores: Tensor = gains / distance.masked_fill(near, 1.0)
    return scores.masked_fill(near | ~torch.isfinite(scores), 0.0)


def shares_of_gains(scores: Tensor) -> Tensor:
    """Weights in proportion to positive scores; where there are none, the first model, the own one, alone."""
    positive = scores.clamp(min=0)
    alone = torch.eye(len(scores), dtype=scores.dtype)[0]
    positive = torch.where(positive.max() > 0, positive, alone)
    positive = positive / positive.max()  # before the sum: scores may be as small or large as numbers are
    return positive / positive.sum()
