"""APPLE: each client learns, by gradient, signed weights over all clients' core models.

Luo and Wu, Adapt to Adaptation: Learning Personalization for Cross-Silo Federated Learning.

    w_i = sum_j p_ij c_j                                        personal model
    c_i <- c_i - eta_1 p_ii g,   g = grad F_i(w_i; b)           own core; the others' cores are frozen
    p_ij <- p_ij - eta_2 (<g, c_j> + lambda(r) mu (p_ij - p0_j)),  p0_j = n_j / n               (7)
    lambda(r) = (1 + cos(pi r/L))/2  or  eps^(r/L),  0 from round L on

The relationship vector p_i never leaves the client. What a client uploads is its core and the indices of the M
cores it wants next; what it downloads are those M cores, older copies of the rest are kept. First cores come from
seeds that all clients know, without traffic.

Departures. The printed scheduler e^(r/L) grows: eps^(r/L), as in the authors' program. In that program the flags
behind the selection rule are never set; here they are: clients never downloaded come first, in random order, then
draws without replacement with probability proportional to b^|p_ij|, b = max(1.5, r M/m). Where p_i starts is not
stated: at p0, as in the program (`first_relations = sizes`), or at 1/m (`uniform`); the centre of the penalty is eq.
7's p0 in both. Because the core's gradient is scaled by p_ii ~ 1/m, w_i moves with about eta_1/m^2 per step at first:
`lr_scale = m` multiplies eta_1 by m, which helps where rounds are few and silos too, and makes p and cores run away
where silos are many. Cores start from one model (`core_init = shared`); `independent` reproduces the paper. Of the
values of mu in the paper's own table, 0.001 lies outside the grid that its text says was searched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, Kind, Kinds, Model, Pick, Solver, State, Turn
from amity.learn.rows import replace_rows
from amity.learn.streams import shuffled, stream, uniforms
from amity.learn.task import Task
from amity.learn.train import batches, descent

_EPSILON = 1e-3  # where the exponential schedule ends


@dataclass(frozen=True)
class Apple:
    budget: int | Literal["all"] = option("all", "cores downloaded per round", symbol="M", at_least=1)
    mu: float = option(0.01, "weight of the penalty on p", symbol="mu", at_least=0, search="1e-4:1:log")
    scheduler: Literal["cos", "exp"] = option("cos", "how the penalty fades", symbol="lambda(r)")
    penalty_rounds: float = option(0.3, "share of the rounds with a penalty", symbol="L", at_least=0, at_most=1)
    eta2: float = option(1e-3, "rate of the relationship vector", symbol="eta_2", at_least=0, search="1e-4:0.1:log")
    core_init: Literal["shared", "independent"] = option("shared", "one first core for all, or each its own")
    selection: Literal["paper", "uniform"] = option("paper", "which cores to ask for under a budget")
    first_relations: Literal["sizes", "uniform"] = option(
        "sizes", "where p starts: shares of the examples, or 1/m", symbol="p"
    )
    lr_scale: Literal["none", "m"] = option("none", "the cores' rate as it is, or multiplied by m", symbol="eta_1")

    paired: ClassVar[tuple[str, ...]] = ("wanted",)
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("sgd", 0.01, momentum=0.9, batch=256)
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        wanted = torch.stack([self._first_wanted(fed, client) for client in range(fed.clients)])
        return {"cores": self._first_cores(task, fed), "wanted": wanted}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        first = task.initial(fed, client if self.core_init == "independent" else None)
        prior = (fed.sizes.double() / fed.sizes.sum()).to(task.device, task.dtype)
        even = torch.full_like(prior, 1 / fed.clients)
        return {
            "cores": self._first_cores(task, fed),  # [m, d] as last seen
            "relations": prior.clone() if self.first_relations == "sizes" else even,  # [m] p_i
            "prior": prior,  # [m] p0
            "wanted": self._first_wanted(fed, client),  # [M]
            "seen": torch.zeros(fed.clients, dtype=torch.bool),  # downloaded once
            "place": torch.tensor(client),
            "keys": fed.keys,
            "rounds": torch.tensor(fed.rounds),
            "buffers": first["buffers"],
            "counts": first["counts"],
        }

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        others = len(server["wanted"]) - 1
        clipped = self.budget != "all" and self.budget > others
        notes = (f"budget = {self.budget} is more than the {others} others: clipped to {others}",) if clipped else ()
        # In round 1 every core is still what its seed says: nothing needs to be sent.
        cores = {} if round == 1 else {"cores": Pick(server["cores"], server["wanted"][who])}
        return Download({}, {**cores}, notes=notes)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        me = int(client["place"])
        cores, seen = client["cores"].clone(), client["seen"]
        if "cores" in down:
            cores[client["wanted"]] = down["cores"]
            seen = seen.index_fill(0, client["wanted"], True)
        relations = client["relations"].clone()

        scale = len(relations) if self.lr_scale == "m" else 1
        step_core = descent(turn, cores[me], rate=scale * turn.solver.rate_at(turn.round))
        step_relations = descent(turn, relations, rate=self.eta2 * turn.solver.decay ** (turn.round - 1))
        penalty = self.mu * self.fading(turn.round - 1, int(client["rounds"]))
        model = task.working({"params": relations @ cores, "buffers": client["buffers"], "counts": client["counts"]})
        for batch, rng in batches(task, turn):
            _, g = task.gradient(model, batch, rng)
            pull = cores @ g + penalty * (relations - client["prior"])  # [m]
            step_core(relations[me] * g)
            step_relations(pull)
            torch.mv(cores.T, relations, out=model["params"])
        kept = task.release(model)

        state = {**client, "cores": cores, "relations": relations, "seen": seen}
        wanted = self._wanted(state, turn)
        return (
            {**state, "wanted": wanted, "buffers": kept["buffers"], "counts": kept["counts"]},
            {"cores": cores[me].clone(), "wanted": wanted},
        )

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        others = fed.clients - 1
        wanted = others if self.budget == "all" else min(self.budget, others)
        return {
            "cores": Kind((task.size,), task.dtype),
            "wanted": Kind((wanted,), torch.int64, least=0, most=others),
        }

    def gradients(self, epochs: int, batches: int) -> int:
        return epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return {key: replace_rows(server[key], who, uploads[key]) for key in server}

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        """Silos that want all cores want those of newcomers too."""
        return {**server, "wanted": _wanting(server["wanted"], before, after)}

    def grow_client(self, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
        """A silo's model stays what it is: newcomers' cores have no weight in it until it learns one."""
        first = self.init_client(task, after, client)
        relations = state["relations"].clone()
        relations[before.clients :] = 0
        wanted = _wanting(state["wanted"][None], before, after)[0]
        return {**state, "relations": relations, "prior": first["prior"], "wanted": wanted}

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return {
            # contiguous: a never active client's cores are one row shown m times, which sums in another order
            "params": torch.mv(client["cores"].contiguous().T, client["relations"]),
            "buffers": client["buffers"],
            "counts": client["counts"],
        }

    def relations(self, client: State) -> Tensor:
        return client["relations"]

    def _first_cores(self, task: Task, fed: Federation) -> Tensor:
        if self.core_init == "shared":
            return task.initial(fed)["params"].expand(fed.clients, -1)
        return torch.stack([task.initial(fed, client)["params"] for client in range(fed.clients)])

    def _first_wanted(self, fed: Federation, client: int) -> Tensor:
        """Nobody was downloaded yet, so the first wish is a random choice among the others.  # [M]"""
        order = shuffled(fed.keys, stream(fed.seed, "wanted", int(fed.keys[client])))
        others = order[order != client]
        return others[: len(others) if self.budget == "all" else self.budget]

    def _wanted(self, state: State, turn: Turn) -> Tensor:
        """The cores to ask for in the next round, r = turn.round counted from 0.  # [M]"""
        count, places = len(state["wanted"]), len(state["keys"])
        luck = uniforms(state["keys"], turn.rng("wanted", 0)).clamp(1e-12, 1 - 1e-12)
        gumbel = -torch.log(-torch.log(luck))  # the largest of log-weight + gumbel = draws without replacement
        score = gumbel
        if self.selection == "paper":
            base = max(1.5, turn.round * count / places)
            score = gumbel + state["relations"].abs().double().cpu() * math.log(base)
            score = torch.where(state["seen"], score, gumbel + 1e9)  # never downloaded: first, in random order
        score[int(state["place"])] = -math.inf
        return torch.argsort(score, descending=True, stable=True)[:count]

    def fading(self, r: int, rounds: int) -> float:
        """lambda(r), r counted from 0."""
        length = math.floor(self.penalty_rounds * rounds + 1e-9)  # 0.7 * 90 is 63, not 62.99...
        if r >= length:
            return 0.0
        return (1 + math.cos(math.pi * r / length)) / 2 if self.scheduler == "cos" else _EPSILON ** (r / length)


def _wanting(wanted: Tensor, before: Federation, after: Federation) -> Tensor:
    """Rows of wanted cores, where they have become longer, with newcomers' numbers at the end."""
    room = wanted.shape[1] - (before.clients - 1)
    if room <= 0:
        return wanted
    out = wanted.clone()
    out[: before.clients, -room:] = torch.arange(before.clients, before.clients + room)
    return out
