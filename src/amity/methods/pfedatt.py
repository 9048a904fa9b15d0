"""PFedAtt: attention to the k most similar clients only.

Ma et al., PFedAtt: Attention-based Personalized Federated Learning on Heterogeneous Clients, ACML 2021.

    sum_i f_i(b_i) + lambda/2 sum_{i<j} V(|b_i - b_j|^2),  V(t) = 1 - exp(-t / sigma^2)
    a_ij = eta_t V'(|b_i - b_j|^2),  a_ii = 1 - the sum of the others       `mode = step`       (16)
    q_i = sum_{j in T_i} a'_ij b_j,  T_i = the k largest of row i                               (17)
    b_i ~ argmin f_i(b) + lambda/(2 eta_t) |b - q_i|^2          client, started at q_i          (18)
    a_ij = (1 - a_ii) exp(sigma cos(b_i, b_j)) / sum_{h != i} exp(sigma cos(b_i, b_h)),
    a_ii a chosen self-attention                                            `mode = shares`     (20)

Departures. Eq. 17 as printed may drop client i itself and lets rows sum to less than one, against the text's
"convex combination": here i is always one of the k. With shares the others that are kept share 1 - a_ii; in a step
what is dropped goes to a_ii, so that it is an exact step on the pairs that are kept. The value of a_ii is not in the
text available to us: `self_weight = auto` is an even share, 1/k (k within the pool), which is FedAMP's 1/(N_i + 1)
where k is the size of a group. `softmax` lets i take part in its own softmax: since no cosine exceeds its own, it
tends to a_ii = 1, separate training. `kernel = euclidean` puts -|b_i - b_j|^2 / sigma^2 in the place of sigma cos.
A step too long for self weights >= 0 is shortened (`on_negative`), as far as the pairs that are kept ask for; eta_t is
FedAMP's alpha_k, by thirds of the rounds. Ties go by a seeded shuffle. The text leaves k open: a fifth of the clients,
at least 2. Top-k saves server arithmetic, not uploads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, InputError, Kinds, Model, Solver, State, Turn, kinds_like, model_of
from amity.learn.streams import shuffled
from amity.learn.task import Task
from amity.learn.vectors import cosines, squared_distances
from amity.methods import _mixing as cloud
from amity.methods._attention import negexp, shares, top_k


@dataclass(frozen=True)
class PFedAtt:
    mode: Literal["shares", "step"] = option("shares", "weights by eq. 20, or by eq. 16 (needs kernel=euclidean)")
    kernel: Literal["cosine", "euclidean"] = option("cosine", "similarity: of eq. 20, or of eq. 16")
    k: int | Literal["auto"] = option(
        "auto", "clients kept per row, itself included; auto: m/5", symbol="k", at_least=1
    )
    self_weight: float | Literal["auto", "softmax", "group"] = option(
        "auto",
        "a number, in the softmax, or by oracle group; auto: 1/k",
        symbol="a_ii",
        at_least=0,
        at_most=1,
    )
    sigma: float = option(
        100.0, "sharpness (cosine) or scale (euclidean)", symbol="sigma", above=0, search="1:1000:log"
    )
    attraction: float = option(1.0, "weight of the pair term", symbol="lambda", at_least=0)
    alpha: float = option(
        1e4, "step size, x0.1 after each third of the rounds", symbol="eta_t", above=0, search="1:1e4:log"
    )
    on_negative: Literal["shrink", "error", "raw"] = option(
        "shrink", "mode=step: what to do about a negative self weight"
    )
    pool: Literal["active", "latest"] = option("active", "whose models may be mixed: this round's, or all heard")
    init: Literal["shared", "independent"] = option("shared", "one first model for all, or each its own")

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)
        if self.mode == "step" and self.kernel != "euclidean":
            raise InputError("pfedatt needs distances for mode=step, got kernel=cosine: set kernel=euclidean")
        if self.mode == "step" and self.self_weight != "auto":
            raise InputError(
                "pfedatt's mode=step leaves a_ii to its equation, a_ii = 1 - the sum of the others, "
                f"but got self_weight={self.self_weight}: leave it out, or use mode=shares"
            )

    def init_server(self, task: Task, fed: Federation) -> State:
        server = {**cloud.first_models(task, fed, self.init), **cloud.oracle_groups(fed, self.self_weight)}
        return cloud.with_pairs(server, self.pool, self._similarity)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return cloud.first_model(task, fed, client, self.init)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        clients = len(server["keys"])
        k = max(2, math.ceil(clients / 5)) if self.k == "auto" else self.k
        clipped = self.k != "auto" and k > clients
        notes = [f"k = {k} is more than the {clients} silos: clipped to {clients}"] if clipped else []
        notes += cloud.self_notes(self.self_weight)
        eta = cloud.step_size(self.alpha, round, int(server["rounds"]))

        def rule(similar: Tensor, members: Tensor) -> Tensor:
            kept = min(k, len(members))
            order = shuffled(server["keys"][members], rng("ties", 0))
            pull = negexp(self.sigma**2)
            if self.mode == "step":
                slopes = top_k(pull.slope(similar), kept, order, renormalise="none")
                return cloud.step_weights(
                    slopes,
                    eta,
                    on_negative=self.on_negative,
                    method="pfedatt",
                    attraction=self.attraction,
                    notes=notes,
                )
            logits = self.sigma * similar if self.kernel == "cosine" else pull.log_slope(similar)
            chosen = 1 / kept if self.self_weight == "auto" else self.self_weight
            own = cloud.self_weights(server, members, chosen, counts_self=False)
            return top_k(shares(logits, own), kept, order, renormalise="all" if own is None else "others")

        sent = cloud.send(server, who, self.pool, self._similarity, rule)
        return sent._replace(notes=(*sent.notes, *notes))

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        pull = self.attraction / cloud.step_size(self.alpha, turn.round, int(client["rounds"]))
        return cloud.proximal_step(task, client, down, turn, pull=pull, start="cloud")

    def cloud_model(self, down: State) -> Model:
        return model_of(down)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return kinds_like(task.initial(fed))

    def gradients(self, epochs: int, batches: int) -> int:
        return epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return cloud.store(server, who, uploads, self._similarity)

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        return cloud.grow_pairs(server, before, after, self._similarity)

    def grow_client(self, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
        return state

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)

    @property
    def _similarity(self) -> cloud.Similarity:
        return cosines if self.kernel == "cosine" else squared_distances
