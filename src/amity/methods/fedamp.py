"""FedAMP: clients whose models are near each other are pulled together; there is no global model.

Huang et al., Personalized Cross-Silo Federated Learning on Non-IID Data, AAAI 2021.

    G(W) = sum_i F_i(w_i) + lambda sum_{i<j} A(|w_i - w_j|^2)                                   (1)
    u_i = sum_j xi_ij w_j                                       server, over the pool           (5)
    w_i ~ argmin F_i(w) + lambda/(2 alpha_k) |w - u_i|^2        client, started at u_i          (6)

`mode = theory`: xi_ij = gf alpha_k A'(d_ij^2) for j != i, xi_ii = 1 - the sum of the others: a gradient step.
`mode = normalised` (default): xi_ii is chosen, xi_ij = (1 - xi_ii) A'(d_ij^2) / sum_{h != i} A'(d_ih^2).

Departures. The printed gradient lacks a factor 2: `grad_factor = 2` is exact, 1 is as printed. The published step
alpha = 1e4 makes raw self weights hugely negative on three of four data sets, and the appendix fixes xi_ii for the
experiments, hence the two modes. Its xi_ii = 1/(N_i + 1) needs an oracle (`self_weight = group`); without one a
client takes part in its own softmax. The start point is not stated: with the published values the proximal pull
is negligible, so collaboration flows through the start, `start = cloud`. That alpha_k falls by thirds of the rounds,
whatever their number, is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, Kinds, Model, Solver, State, Turn, kinds_like, model_of
from amity.learn.task import Task
from amity.learn.vectors import squared_distances
from amity.methods import _mixing as cloud
from amity.methods._attention import ATTRACTIONS, shares


@dataclass(frozen=True)
class FedAMP:
    mode: Literal["normalised", "theory"] = option("normalised", "weights as in the experiments, or as in eq. 5")
    function: Literal["negexp", "pseudo_huber", "scad", "mcp"] = option(
        "negexp", "attention-inducing function of the squared distance", symbol="A"
    )
    sigma: float = option(10.0, "scale of squared distances", symbol="sigma", above=0, search="0.1:1000:log")
    self_weight: float | Literal["softmax", "group"] = option(
        "softmax", "xi_ii: a number, in the softmax, or by oracle group", symbol="xi_ii", at_least=0, at_most=1
    )
    group_counts_self: bool = option(False, "N_i of self_weight=group counts client i", symbol="N_i")
    start: Literal["cloud", "own"] = option("cloud", "where local training begins")
    attraction: float = option(1.0, "weight of the pair term", symbol="lambda", at_least=0)
    alpha: float = option(
        1e4, "step size, x0.1 after each third of the rounds", symbol="alpha_k", above=0, search="1:1e4:log"
    )
    grad_factor: Literal[1, 2] = option(1, "factor before A': as printed, or exact (theory mode)")
    on_negative: Literal["shrink", "error", "raw"] = option(
        "shrink", "theory mode: what to do about a negative self weight"
    )
    pool: Literal["active", "latest"] = option("active", "whose models may be mixed: this round's, or all heard")
    init: Literal["shared", "independent"] = option("shared", "one first model for all, or each its own")

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        server = {**cloud.first_models(task, fed, self.init), **cloud.oracle_groups(fed, self.self_weight)}
        return cloud.with_pairs(server, self.pool, squared_distances)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return cloud.first_model(task, fed, client, self.init)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        notes = list(cloud.self_notes(self.self_weight) if self.mode == "normalised" else ())
        alpha = cloud.step_size(self.alpha, round, int(server["rounds"]))

        def rule(distances: Tensor, members: Tensor) -> Tensor:
            kernel = ATTRACTIONS[self.function](self.sigma)
            if self.mode == "normalised":
                own = cloud.self_weights(server, members, self.self_weight, self.group_counts_self)
                return shares(kernel.log_slope(distances), own)
            return cloud.step_weights(
                kernel.slope(distances),
                self.grad_factor * alpha,
                on_negative=self.on_negative,
                method="fedamp",
                attraction=self.attraction,
                notes=notes,
            )

        sent = cloud.send(server, who, self.pool, squared_distances, rule)
        return sent._replace(notes=(*sent.notes, *notes))

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
        return cloud.store(server, who, uploads, squared_distances)

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        return cloud.grow_pairs(server, before, after, squared_distances)

    def grow_client(self, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
        return state

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)
