"""HeurFedAMP: FedAMP with attention by the cosine of models, for deep networks.

Huang et al., Personalized Cross-Silo Federated Learning on Non-IID Data, AAAI 2021.

    xi_ij = (1 - xi_ii) exp(sigma c_ij) / sum_{h != i} exp(sigma c_ih),  j != i                 (8)
    u_i = sum_j xi_ij w_j
    w_i ~ argmin F_i(w) + lambda/(2 alpha_k) |w - u_i|^2        client, started at u_i          (6)

c_ij is the cosine over all trainable parameters together. With a shared first model all cosines are near 1 at the
start: `similarity_on = update` takes the cosine of w_i - w^0 instead. Self weight, start and alpha_k as in FedAMP.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, InputError, Kinds, Model, Solver, State, Turn, kinds_like, model_of
from amity.learn.task import Task
from amity.learn.vectors import cosines
from amity.methods import _mixing as cloud
from amity.methods._attention import shares


@dataclass(frozen=True)
class HeurFedAMP:
    sigma: float = option(100.0, "sharpness of the attention", symbol="sigma", above=0, search="1:1000:log")
    self_weight: float | Literal["softmax", "group"] = option(
        "softmax", "xi_ii: a number, in the softmax, or by oracle group", symbol="xi_ii", at_least=0, at_most=1
    )
    group_counts_self: bool = option(False, "N_i of self_weight=group counts client i", symbol="N_i")
    start: Literal["cloud", "own"] = option("cloud", "where local training begins")
    similarity_on: Literal["params", "update"] = option("params", "cosine of w_i, or of w_i - w^0")
    attraction: float = option(1.0, "weight of the pair term", symbol="lambda", at_least=0)
    alpha: float = option(
        1e4, "step size, x0.1 after each third of the rounds", symbol="alpha_k", above=0, search="1:1e4:log"
    )
    pool: Literal["active", "latest"] = option("active", "whose models may be mixed: this round's, or all heard")
    init: Literal["shared", "independent"] = option("shared", "one first model for all, or each its own")

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)
        if self.similarity_on == "update" and self.init == "independent":
            raise InputError(
                "heurfedamp needs a common first model for similarity_on=update, got init=independent: use init=shared"
            )

    def init_server(self, task: Task, fed: Federation) -> State:
        server = {**cloud.first_models(task, fed, self.init), **cloud.oracle_groups(fed, self.self_weight)}
        if self.similarity_on == "update":
            server["origin"] = server["params"][0].clone()
        return cloud.with_pairs(server, self.pool, self._similarity(server))

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return cloud.first_model(task, fed, client, self.init)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        def rule(similar: Tensor, members: Tensor) -> Tensor:
            own = cloud.self_weights(server, members, self.self_weight, self.group_counts_self)
            return shares(self.sigma * similar, own)

        return cloud.send(server, who, self.pool, self._similarity(server), rule, cloud.self_notes(self.self_weight))

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        pull = self.attraction / cloud.step_size(self.alpha, turn.round, int(client["rounds"]))
        return cloud.proximal_step(task, client, down, turn, pull=pull, start=self.start)

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
        return functools.partial(cosines, origin=server.get("origin"))
