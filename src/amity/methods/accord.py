"""Accord: a common model that silos learn together quickly, a personal one drawn to it, and each silo takes the better.

Amity's own. Where silos agree, the common model is the better beginning, above all for small silos; where they do not,
a personal model that goes on from itself is. A silo cannot know beforehand, so it trains both and looks.

    g_i = Local(w^{k-1}, F_i)                                                   silos in A_k; uploaded
    v_i ~ argmin F_i(v) + (lambda/2) |v - w^{k-1}|^2, started at v_i            stays at the silo, as in Ditto
    d_i = g_i - w^{k-1},   c = s times the median of |d_i|                      server, over A_k
    d   = sum of p_i d_i min(1, c / |d_i|),   p_i in proportion to n_i          nobody pulls harder than c
    b   = cosine of d and the d before it, between 0 and b_max                  how straight the path has been
    m   = b m + d,   w^k = w^{k-1} + d + b m                                    Nesterov's momentum

With g_i a silo uploads one number more, the loss of w^{k-1} on the examples that it holds out. Where w^{k-1} is worse
than the best so far on those of all silos (`_best_so_far.py`), momentum has carried it too far: w^k is that best one
again, m is 0, and b_max, 0.9 at first, is halved. After the last round silos are sent the w^k that has done best.

The model of silo i is w^k, or v_i where the examples that the silo has held out are clearly likelier under it (e times
as likely). After the last round both go on alone, each to its own end (`ended.py`), and the choice is between those.
In the last round silos try whether w^k is a better place to go on from when it is drawn back half-way to w^0, or all of
the way: then they had better not have joined, and each trains alone (`rehearsed.py`).

A step of averaging loses most of what a few local epochs have gained in a common direction; momentum gives it back, so
that twenty rounds reach what plain averaging needs several times as many for. How much momentum a federation bears
shows in the path itself: on a straight one b is large, on one that turns back it is 0. Limiting |d_i| keeps one silo
with a huge update, by accident or on purpose, from carrying the others away. Three medians let a large silo, which has
trained for many more steps, go its way; one median did not, and cost much where sizes differ.

Limits: with momentum = none, no limit and `start` = common it is FedAvg; with `start` = own and no limit, Ditto with
weights by size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import MODEL, Download, Federation, Kinds, Model, Solver, State, Turn, kinds_like, model_of
from amity.learn.ending import likelier
from amity.learn.task import Task
from amity.learn.train import proximal, train
from amity.learn.vectors import mix, weighted_mean
from amity.methods._best_so_far import (
    HELD_OUT,
    best_model,
    best_so_far,
    judged,
    judged_kind,
    nothing_judged,
    to_go_on_from,
    turned,
)

MOST = 0.9
"""The first b_max: beyond, a path overshoots for tens of rounds before it turns."""


@dataclass(frozen=True)
class Accord:
    attraction: float = option(
        0.3, "pull of the personal model towards the common one", symbol="lambda", at_least=0, search="0.01:10:log"
    )
    momentum: float | Literal["auto", "none"] = option(
        "auto",
        "momentum of the common model, auto: as straight as its path is",
        symbol="b",
        at_least=0,
        below=1,
        key="server_momentum",
    )
    limit: float | Literal["none"] = option(
        3.0, "longest step of one silo from the common model, in medians of the round's steps", symbol="s", above=0
    )
    start: Literal["better", "own", "common"] = option(
        "better", "the model that a silo uses: the better one on its held-out examples, or always the same"
    )
    step_back: float = option(
        0.5,
        "how far towards the first model the common one may be drawn back before silos go on alone, if not all of "
        "the way; 0: not at all",
        symbol="beta",
        at_least=0,
        below=1,
    )

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    measured: ClassVar[tuple[str, ...]] = (HELD_OUT,)
    evaluates: ClassVar[Literal["held", "server"]] = "server"
    solver: ClassVar[Solver] = Solver("adam", 1e-3, batch=16)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")
    other_use: ClassVar[str] = "chooses models by held-out examples"
    validation: ClassVar[float] = 0.2
    ending: ClassVar[Literal["auto"]] = "auto"

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        first = task.initial(fed)
        still = torch.zeros_like(first["params"])
        return {
            **first,
            "step": still,
            "momentum": still,
            "most": torch.tensor(MOST, dtype=torch.float64),
            "sizes": fed.sizes,
            **nothing_judged(first, fed),
        }

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return task.initial(fed)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return Download(model_of(server), {})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        upload = {**train(task, down, turn), **judged(task, down, turn)}
        if self.start == "common":
            return client, upload
        terms = [proximal(self.attraction, down["params"])] if self.attraction else []
        return train(task, client, turn, terms=terms, role="personal"), upload

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return {**kinds_like(task.initial(fed)), **judged_kind(down.shared)}

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        best = best_so_far(server, who, uploads, round)
        if self.momentum == "auto" and turned(best, round):
            still = torch.zeros_like(server["step"])
            back = {"step": still, "momentum": still, "most": server["most"] / 2}
            return {**server, **best_model({**server, **best}), **back, **best}
        sizes = server["sizes"][who]
        mean = weighted_mean(model_of(uploads), sizes)
        centre = server["params"]
        if self.limit == "none":
            step = mean["params"] - centre
        else:
            step = limited_mean(centre, uploads["params"], sizes, self.limit)
        b = self._share(step, server["step"], float(server["most"]))
        momentum = b * server["momentum"] + step
        moved = centre + step + b * momentum if b or self.limit != "none" else mean["params"]  # the mean, not nearly
        return {**server, **mean, "params": moved, "step": step, "momentum": momentum, **best}

    def last_download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return Download(to_go_on_from(server, round), {})

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        assert down is not None  # a server method is always given the current download
        if self.start == "common":
            return model_of(down)
        if self.start == "own" or turn.data.val is None:
            return model_of(client)
        own, common = (torch.as_tensor(task.evaluate(model, turn.data.val).loss) for model in (client, down))
        chosen = likelier(common, own, len(turn.data.val.y), task.classes)
        return {key: torch.where(chosen, client[key], down[key]) for key in MODEL}

    def starts(self, task: Task, client: State, down: State | None, turn: Turn) -> list[Model]:
        """The models from which an ending may go on: which is the better one shows at the end."""
        assert down is not None
        own, common = model_of(client), model_of(down)
        return {"better": [common, own], "own": [own], "common": [common]}[self.start]

    @property
    def rehearsal(self) -> float:
        """How far the common model may be drawn back; where silos only use their own there is no question."""
        return 0.0 if self.start == "own" else self.step_back

    def _share(self, step: Tensor, last: Tensor, most: float) -> float:
        """b: how much of the momentum is kept."""
        if self.momentum == "none":
            return 0.0
        if self.momentum != "auto":
            return self.momentum
        lengths = step.double().norm() * last.double().norm()
        cosine = float(step.double() @ last.double() / lengths) if lengths > 0 else 0.0
        return min(most, max(0.0, cosine))


def limited_mean(centre: Tensor, models: Tensor, sizes: Tensor, most: float = 1.0) -> Tensor:
    """The mean of the steps from the centre, by sizes, none longer than `most` medians.  # [d], [n, d] -> [d]"""
    lengths = torch.stack([torch.linalg.vector_norm(row - centre, dtype=torch.float64) for row in models])
    longest = most * lengths.quantile(0.5)  # of an even number, the mean of the middle two
    factors = torch.where(lengths > longest, longest / lengths.clamp(min=torch.finfo(lengths.dtype).tiny), 1.0)
    counted = sizes.double() if sizes.any() else torch.ones_like(factors)
    shares = counted / counted.sum() * factors
    return (mix(shares[None], models)[0].double() - shares.sum() * centre.double()).to(centre.dtype)
