"""PFedAtt: attention to the k most similar clients only.

Ma et al., PFedAtt: Attention-based Personalized Federated Learning on Heterogeneous Clients, ACML 2021.

    a_ij = softmax_j(-|b_i - b_j|^2 / sigma^2)   or   softmax_j(sigma cos(b_i, b_j))            (16), (20)
    q_i = sum_{j in T_i} a'_ij b_j,  T_i = the k largest of row i                               (17)
    b_i ~ argmin f_i(b) + lambda/(2 eta_t) |b - q_i|^2          client, started at q_i          (18)

Departures. Eq. 17 as printed may drop client i itself and lets rows sum to less than one, against the text's
"convex combination": here i is always one of the k, and the kept weights are renormalised. Ties go by a seeded
shuffle. The text leaves k open: a fifth of the clients, at least 2. Top-k saves server arithmetic, not uploads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity import cloud
from amity.attention import negexp, shares, top_k
from amity.contract import Download, Federation, Model, Solver, State, Turn, model_of
from amity.options import check, option
from amity.streams import shuffled
from amity.task import Task
from amity.vectors import cosines, squared_distances


@dataclass(frozen=True)
class PFedAtt:
    kernel: Literal["cosine", "euclidean"] = option("cosine", "similarity: eq. 20, or eq. 16 with sigma^2")
    k: int | Literal["auto"] = option(
        "auto", "clients kept per row, itself included; auto: m/5", symbol="k", at_least=1
    )
    sigma: float = option(100.0, "sharpness (cosine) or scale (euclidean)", symbol="sigma", above=0)
    attraction: float = option(1.0, "weight of the pair term", symbol="lambda", at_least=0)
    alpha: float = option(1e4, "step size, x0.1 after each third of the rounds", symbol="eta_t", above=0)
    pool: Literal["active", "latest"] = option("active", "whose models may be mixed: this round's, or all heard")
    init: Literal["shared", "independent"] = option("shared", "one first model for all, or each its own")

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        return cloud.with_pairs(cloud.first_models(task, fed, self.init), self.pool, self._similarity)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return cloud.first_model(task, fed, client, self.init)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        clients = len(server["keys"])
        k = max(2, math.ceil(clients / 5)) if self.k == "auto" else self.k
        clipped = self.k != "auto" and k > clients
        notes = (f"k = {k} is more than the {clients} silos: clipped to {clients}",) if clipped else ()

        def rule(similar: Tensor, members: Tensor) -> Tensor:
            cosine = self.kernel == "cosine"
            logits = self.sigma * similar if cosine else negexp(self.sigma**2).log_slope(similar)
            order = shuffled(server["keys"][members], rng("ties", 0))
            return top_k(shares(logits, None), min(k, len(members)), order)

        return cloud.send(server, who, self.pool, self._similarity, rule, notes)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        pull = self.attraction / cloud.step_size(self.alpha, turn.round, int(client["rounds"]))
        return cloud.proximal_step(task, client, down, turn, pull=pull, start="cloud")

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return cloud.store(server, who, uploads, self._similarity)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)

    @property
    def _similarity(self) -> cloud.Similarity:
        return cosines if self.kernel == "cosine" else squared_distances
