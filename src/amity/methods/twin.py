"""Twin attention: attention between clients without an oracle and without a search. Our own, and not recommended.

It harms on silos as they occur in nature: with 30 people and their phones it has 83.6 % where training alone has 87.7
and all data in one place 93.6; on another natural set 80.7 where training alone has 94.7. It behaves as FedAvg there:
nobody stands out as a twin, so that rows are uniform, and the test for "own is clearly better", less than 4/5 of the
cloud model's loss, never fires. It was designed on made settings, which had groups, or silos with two classes.

    wbar = mean of the pool's models
    s_ij = cosine of w_i - wbar and w_j - wbar,  j != i         0 where either is no longer than rounding
    t_ij = max(0, s_ij - c) / (1 - c)                           c the chance level, in [0, 1/2]
    t_ii = max_{j != i} t_ij                                    as telling as the nearest twin, no more
    xi_i = softmax_j(tau t_ij / max(1/3, t_ii))                 tau = log n
    u_i = sum_j xi_ij w_j                                       server, over the pool of n
    w_i = Local(v_i, F_i),  v_i = u_i or the last w_i           client

Raw cosines of models with a common start are all near 1 and raw distances have no scale; seen from their mean,
unrelated models have cosines near 0 and models of one distribution clearly positive ones. So the row is uniform over
everybody on IID data and for a client without a twin. Where there are groups it is uniform over the group, but for
the strangers, who together weigh as much as one more twin: a group of small silos alone has too few data to learn what
all groups have in common. Likeness is measured by the nearest twin, else this mixing would fade: it draws models
together, that lowers their cosines, and lower cosines would mix them more.

The chance level is what makes this hold for small silos, where cosines of unrelated models scatter widely: without it
"twins" are found by accident, start from a common mixture, and are twins from then on. It is the median of all s_ij
plus three times the noise; noise is symmetric about the median and twins are not, so the deviations below the median
measure it.

`keep = validated`: a silo starts from its cloud model and holds it, unless its own model is clearly better: it has
less than 4/5 of the loss, on data it was not trained on and by models of one age, u_i^{k+1} and w_i^k. So silos among
strangers go on alone, and on IID data, where trained copies can be far behind the average, all hold the average. The
silo judges in every turn by its validation data, if it has any. If not, it leaves another random seventh of its data
out of each turn in the first third of the rounds, and judges by that seventh in its next turn; until then it starts
from u_i, so that its own model remembers the seventh no better. After that it trains on everything, and what the sums
of these losses say remains. The record says what each silo holds; the weights are those of its cloud model.

`keep = own`: it starts from u_i, holds w_i and leaves nothing out. In both cases it uploads w_i: mixtures of mixtures
would draw all models to their mean. `attraction` adds h(w) = attraction (w - u_i) to the gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import (
    MODEL,
    Data,
    Download,
    Federation,
    Kinds,
    Model,
    Solver,
    Split,
    State,
    Turn,
    kinds_like,
    model_of,
)
from amity.learn.task import Task
from amity.learn.train import proximal, train
from amity.learn.vectors import cosines
from amity.methods import _mixing as cloud
from amity.methods._attention import twin_shares

CLEARLY = 0.8  # of the cloud model's loss
PARTS = 7  # one of which is left out; who has fewer examples leaves none out


@dataclass(frozen=True)
class Twin:
    tau: float | Literal["auto"] = option(
        "auto",
        "sharpness of the attention; auto: log n for n silos, a twin weighs as n strangers",
        symbol="tau",
        above=0,
        search="0.5:20:log",
    )
    keep: Literal["validated", "own"] = option(
        "validated", "hold and start from the cloud model unless the own is clearly better, or always hold the own"
    )
    attraction: float = option(0.0, "pull towards the cloud model in local training", at_least=0)
    pool: Literal["active", "latest"] = option("active", "whose models may be mixed: this round's, or all heard")
    init: Literal["shared", "independent"] = option("shared", "one first model for all, or each its own")

    paired: ClassVar[tuple[str, ...]] = ()
    solver: ClassVar[Solver] = Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")
    other_use: ClassVar[str] = "chooses models by examples that it leaves out of training"

    def __post_init__(self) -> None:
        check(self)

    @property
    def evaluates(self) -> Literal["held", "server"]:
        return "server" if self.keep == "validated" else "held"

    def init_server(self, task: Task, fed: Federation) -> State:
        return cloud.first_models(task, fed, self.init)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        first = cloud.first_model(task, fed, client, self.init)
        none = torch.zeros(int(fed.sizes[client]), dtype=torch.bool)
        zero = torch.zeros((), dtype=torch.float64)
        return {**first, "left_out": none, "own_loss": zero, "cloud_loss": zero}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        heard = server["heard"].nonzero()[:, 0]
        pool = heard if self.pool == "latest" and len(heard) else who
        mean, short = centre(server["params"], pool)

        def rule(similar: Tensor, members: Tensor) -> Tensor:
            return twin_shares(similar, None if self.tau == "auto" else self.tau)

        return cloud.send(server, who, self.pool, functools.partial(cosines, origin=mean, eps=short), rule)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        terms = [proximal(self.attraction, down["params"])] if self.attraction else []
        if self.keep == "own":
            model = train(task, down, turn, terms=terms)
            return {**client, **model}, model
        client = judged(task, client, down, turn.data)
        trial = turn.data.val is None and 3 * (turn.round - 1) < int(client["rounds"])
        start = model_of(down) if trial else better(client, down)
        left_out = drawn(turn) if trial else torch.zeros_like(client["left_out"])
        model = train(task, start, turn._replace(data=without(turn.data, left_out)) if trial else turn, terms=terms)
        return {**client, **model, "left_out": left_out}, model

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return kinds_like(task.initial(fed))

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return cloud.store(server, who, uploads)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client) if down is None else better(client, down)

    def holds(self, client: State) -> str:
        return "own" if self.keep == "own" or prefers_own(client) else "cloud"


def drawn(turn: Turn) -> Tensor:
    """The examples that a turn leaves out.  # [n] bool"""
    count = len(turn.data.train.y)
    order = torch.randperm(count, generator=turn.rng("left out", 0))
    return torch.zeros(count, dtype=torch.bool).index_fill(0, order[: count // PARTS], True)


def without(data: Data, left_out: Tensor) -> Data:
    x, y = data.train
    kept = (~left_out).to(y.device)
    return Data(Split(x[kept], y[kept]), data.val)


def judged(task: Task, client: State, down: State, data: Data) -> State:
    """The client with the losses of both models added, on its validation data or what its last turn left out."""
    x, y = data.train
    chosen = client["left_out"].to(y.device)
    judge = Split(x[chosen], y[chosen]) if data.val is None else data.val
    if not len(judge.y):
        return client
    own, other = task.evaluate(model_of(client), judge).loss, task.evaluate(down, judge).loss
    return {**client, "own_loss": client["own_loss"] + own, "cloud_loss": client["cloud_loss"] + other}


def prefers_own(client: State) -> Tensor:
    return client["own_loss"] < CLEARLY * client["cloud_loss"]


def better(client: State, down: State) -> Model:
    """The client's own model where it has clearly been the better one, else the cloud model."""
    own = prefers_own(client)
    return {key: torch.where(own.to(down[key].device), client[key], down[key]) for key in MODEL}


def centre(models: Tensor, pool: Tensor) -> tuple[Tensor, float]:
    """The mean of the pool's models in float64, and the length below which a deviation from it is rounding."""
    total = torch.zeros(models.shape[1], dtype=torch.float64, device=models.device)
    longest = 0.0
    for place in pool.tolist():
        total += models[place]
        longest = max(longest, torch.linalg.vector_norm(models[place], dtype=torch.float64).item())
    return total / len(pool), max(1e-12 * longest, torch.finfo(torch.float64).tiny)
