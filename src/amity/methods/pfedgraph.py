"""pFedGraph: a collaboration graph whose weights follow the similarity of updates and stay near the sizes of silos.

Ye, Ni, Wu, Chen and Wang, Personalized Federated Learning with Inferred Collaboration Graphs, ICML 2023.

    c_ij = cos(w_i - w^0, w_j - w^0),  c_ii = 1               server, of the pool's last models
    xi_i = argmin over x >= 0, sum x = 1, of alpha |x - p|^2 - sum_j x_j c_ij,      p_j = n_j / sum n
    u_i = sum_j xi_ij w_j                                     sent to client i
    w_i ~ argmin F_i(w) - lambda cos(w, u_i)                  clients in A_k, started at u_i

The quadratic programme has a closed form: completing the square, xi_i is the point of the simplex nearest to p + c_i
/ (2 alpha), which a sort finds exactly (`nearest_shares`). alpha = inf gives the sizes, FedAvg's weights; a small
alpha leaves each client alone with itself, unless others are as similar to it as it is.

Departures. The authors' programs add lambda cos(w, u_i) to the loss where the paper's objective takes it away; here
as the objective says. They count a cosine above 0.9 as 1, and begin both graph and pull in round 2; here neither. One
of them has the sum of unit vectors in place of u_i, which would be a second model to send; this is the other one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, Kinds, Model, Solver, State, Turn, kinds_like, model_of
from amity.learn.task import Task
from amity.learn.train import Term, train
from amity.learn.vectors import cosines
from amity.methods import _mixing as cloud

SHORT = 1e-12  # a vector below this length has no direction


@dataclass(frozen=True)
class PFedGraph:
    alpha: float | Literal["inf"] = option(
        0.8, "how near the weights stay to the sizes of silos; inf: they are the sizes", symbol="alpha", above=0
    )
    attraction: float = option(
        0.01, "pull towards the direction of the mixture", symbol="lambda", at_least=0, search="0.001:1:log"
    )
    pool: Literal["active", "latest"] = option("active", "whose models may be mixed: this round's, or all heard")

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("sgd", 0.01, momentum=0.9, batch=64)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        server = cloud.first_models(task, fed, "shared")
        server |= {"sizes": fed.sizes, "origin": server["params"][0].clone()}
        return cloud.with_pairs(server, self.pool, self._similarity(server))

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return task.initial(fed)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        def rule(similar: Tensor, members: Tensor) -> Tensor:
            sizes = server["sizes"][members].double()
            shares = (sizes if sizes.any() else torch.ones_like(sizes)).expand(len(members), -1)
            shares = shares / shares.sum(1, keepdim=True)
            return shares if self.alpha == "inf" else nearest_shares(shares + similar / (2 * self.alpha))

        return cloud.send(server, who, self.pool, self._similarity(server), rule)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        terms = [turned(self.attraction, down["params"])] if self.attraction else []
        model = train(task, model_of(down), turn, terms=terms)
        return model, model

    def cloud_model(self, down: State) -> Model:
        return model_of(down)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return kinds_like(task.initial(fed))

    def gradients(self, epochs: int, batches: int) -> int:
        return epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return cloud.store(server, who, uploads, self._similarity(server))

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        return cloud.grow_pairs(server, before, after, self._similarity(server))

    def grow_client(self, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
        return state

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)

    def _similarity(self, server: State) -> cloud.Similarity:
        return functools.partial(cosines, origin=server["origin"])


def nearest_shares(points: Tensor) -> Tensor:
    """Of each row the nearest point with entries >= 0 and sum 1: max(row - t, 0) with the t that makes the sum 1.

    Among the entries in falling order, those stay above 0 that exceed the t of themselves and the larger ones (Held,
    Wolfe and Crowder, 1974).  # [n, m] -> [n, m]
    """
    points = points - points.amax(1, keepdim=True)  # the same answer, and 1 exactly where one entry is left
    falling = points.sort(1, descending=True).values
    t = (falling.cumsum(1) - 1) / torch.arange(1, points.shape[1] + 1, dtype=points.dtype)
    left = (falling > t).sum(1, keepdim=True)
    return (points - t.gather(1, left - 1)).clamp(min=0)


def turned(weight: float, centre: Tensor) -> Term:
    """h(w) = -weight grad cos(w, centre): across w, towards the centre's direction; 0 where either has none."""
    length = torch.linalg.vector_norm(centre)
    unit = torch.where(length > SHORT, centre / length.clamp(min=SHORT), torch.zeros_like(centre))

    def term(params: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(params)
        scale = torch.where(length > SHORT, weight / length.clamp(min=SHORT), torch.zeros_like(length))
        direction = params / length.clamp(min=SHORT)
        pull: Tensor = (direction * torch.dot(direction, unit) - unit) * scale
        return pull

    return term
