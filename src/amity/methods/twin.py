"""Twin attention: attention between clients without an oracle and without a search. Our own.

    wbar = mean of the pool's models
    s_ij = cosine of w_i - wbar and w_j - wbar,  j != i         0 where either is no longer than rounding
    t_ij = max(0, s_ij - c) / (1 - c)                           c the chance level, in [0, 1/2]
    t_ii = max_{j != i} t_ij                                    as telling as the nearest twin, no more
    xi_i = softmax_j(tau t_ij),   u_i = sum_j xi_ij w_j         server, over the pool
    w_i = Local(u_i, F_i)                                       client, started at u_i

Raw cosines of models with a common start are all near 1 and raw distances have no scale; seen from their mean,
unrelated models have cosines near 0 and models of one distribution clearly positive ones. So the row is uniform over
everybody on IID data, uniform over the group where there are groups, and uniform for a client without a twin.

The chance level is what makes this hold for small silos, where cosines of unrelated models scatter widely: without it
"twins" are found by accident, start from a common mixture, and are twins from then on. It is the median of all s_ij
plus three times the noise; noise is symmetric about the median and twins are not, so the deviations below the median
measure it.

`keep = validated`: the silo holds whichever of w_i and u_i has the lower loss on its validation data (the record
says which), since on IID data trained copies can be far behind the average. It uploads w_i all the same:
mixtures of mixtures would draw all models to their mean and wipe out the differences that attention reads.
`keep = own`, or no validation data: it holds w_i. `attraction` adds h(w) = attraction (w - u_i) to the gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity import cloud
from amity.attention import twin_shares
from amity.contract import MODEL, Download, Federation, Model, Solver, State, Turn, model_of
from amity.options import check, option
from amity.task import Task
from amity.vectors import cosines


@dataclass(frozen=True)
class Twin:
    tau: float = option(10.0, "sharpness of the attention", symbol="tau", above=0)
    keep: Literal["validated", "own"] = option(
        "validated", "hold the better of trained and cloud model by validation, or always the trained one"
    )
    attraction: float = option(0.0, "pull towards the cloud model in local training", at_least=0)
    pool: Literal["active", "latest"] = option("active", "whose models may be mixed: this round's, or all heard")
    init: Literal["shared", "independent"] = option("shared", "one first model for all, or each its own")

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

    @property
    def validation(self) -> float:
        return 0.15 if self.keep == "validated" else 0.0

    def init_server(self, task: Task, fed: Federation) -> State:
        return cloud.first_models(task, fed, self.init)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {**cloud.first_model(task, fed, client, self.init), "cloud": torch.tensor(False)}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        heard = server["heard"].nonzero()[:, 0]
        pool = heard if self.pool == "latest" and len(heard) else who
        mean, short = centre(server["params"], pool)

        def rule(similar: Tensor, members: Tensor) -> Tensor:
            return twin_shares(similar, self.tau)

        return cloud.send(server, who, self.pool, functools.partial(cosines, origin=mean, eps=short), rule)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        state, trained = cloud.proximal_step(task, client, down, turn, pull=self.attraction, start="cloud")
        judge = turn.data.val
        if self.keep == "own" or judge is None:
            return {**state, "cloud": torch.tensor(False)}, trained
        better = torch.as_tensor(task.evaluate(down, judge).loss < task.evaluate(trained, judge).loss)
        held = {key: torch.where(better, down[key], trained[key]) for key in MODEL}
        return {**state, **held, "cloud": better}, trained

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return cloud.store(server, who, uploads)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)

    def holds(self, client: State) -> str:
        return "cloud" if client["cloud"] else "trained"


def centre(models: Tensor, pool: Tensor) -> tuple[Tensor, float]:
    """The mean of the pool's models in float64, and the length below which a deviation from it is rounding."""
    total = torch.zeros(models.shape[1], dtype=torch.float64, device=models.device)
    longest = 0.0
    for place in pool.tolist():
        total += models[place]
        longest = max(longest, torch.linalg.vector_norm(models[place], dtype=torch.float64).item())
    return total / len(pool), max(1e-12 * longest, torch.finfo(torch.float64).tiny)
