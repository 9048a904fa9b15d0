"""What PSGD minimises: the objectives F_i(s, beta_i) of PFedAtt's section 3, with f_i the loss of one network.

    Share     f_i([s, beta_i])                                      FedPer, LG-FedAvg: shared and local layers
    Residual  f_i(s + beta_i)                                       Agarwal et al.: a personal correction
    Mixture   f_i(beta_i) + lambda/2 |s - beta_i|^2                 L2GD's objective: the best s is the mean of beta
    Moreau    min over beta of the same                             pFedMe's: K steps on beta before the step on s
    Mixed     Phi f_i(s) + f_i(a s + (1-a) beta_i)                  APFL's; a = 1 - alpha is the weight of s
    Pair      Phi f_i(s) + f_i(beta_i) + lambda/2 |s - beta_i|^2    Ditto's: a global and a personal task

Phi = inf, the default, stops gradients: s follows f_i(s) alone, beta_i only its own terms. A finite Phi multiplies
the first term and lets the other one act on s too.

Departures. The paper omits the 1/2 of Mixture and Pair in its text, not in eq. 8; it is there. Residual adds
parameters where Agarwal et al. add the scores of two networks: a silo gets one network, and for a model linear in its
parameters both are the same. Two networks whose scores are added are Share over a module that holds both. Moreau
goes on from the last beta_i, where pFedMe begins each round at s.

Buffers follow the network they belong to: they are shared where f_i(s) is evaluated, local otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import InputError, Model, Split
from amity.learn.task import Task
from amity.learn.train import gradient_at, same_draws
from amity.methods._layers import Chosen, last_layer, named, part, whole


class Joint(NamedTuple):
    """The two parts during a client's turn: its own copies, moved in place."""

    task: Task
    shared: Model
    own: Model
    move_shared: Callable[[Tensor], None]
    move_own: Callable[[Tensor], None]

    def gradient(self, model: Model, batch: Split, rng: Generator | None) -> Tensor:
        """Of the loss at this model, whose buffers go on in place."""
        gradient, after = gradient_at(self.task, model, batch, rng)
        model["buffers"].copy_(after["buffers"])
        model["counts"].copy_(after["counts"])
        return gradient.clone()


class Objective(Protocol):
    """F_i. A frozen dataclass."""

    @property
    def attraction(self) -> float:
        """lambda, or 0 where the parts are not pulled together."""

    @property
    def gradients_per_batch(self) -> int:
        """How many gradients a step takes."""

    def parts(self, task: Task, first: Model) -> tuple[Model, Model]:
        """The first shared and own part."""

    def step(self, at: Joint, batch: Split, rng: Generator | None) -> None:
        """Move both parts by one batch."""

    def model(self, task: Task, shared: Model, own: Model) -> Model:
        """The network that predicts."""


def _bare(model: Model) -> Model:
    """A vector of parameters that no network is evaluated at."""
    return {**model, "buffers": model["buffers"][:0], "counts": model["counts"][:0]}


@dataclass(frozen=True)
class Share:
    split: Literal["head_local", "body_local", "names"] = option(
        "head_local", "what stays local: the last layer (FedPer), all others (LG-FedAvg), all that is not in names"
    )
    names: str = option("", "split=names: what is shared, as beginnings of parameter names: conv1,conv2")

    attraction: ClassVar[float] = 0.0
    gradients_per_batch: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check(self)
        if (self.split == "names") != bool(self.names):
            raise InputError(
                f"share needs split=names together with names=..., got split={self.split!r} and names={self.names!r}: "
                "give both or neither"
            )

    def parts(self, task: Task, first: Model) -> tuple[Model, Model]:
        chosen = self.shares(task)
        shared = {slot.name: chosen(slot) for slot in task.layout.params}
        if len(set(shared.values())) == 1:
            what, instead = ("everything", "fedavg-local") if all(shared.values()) else ("nothing", "separate")
            raise InputError(
                f"share needs a split with shared and local parameters, got one that shares {what}: "
                f"set split=names and names to some of {', '.join(shared)}, or use {instead}"
            )
        return part(task, first, chosen), part(task, first, chosen, False)

    def step(self, at: Joint, batch: Split, rng: Generator | None) -> None:
        chosen = self.shares(at.task)
        model = whole(at.task, at.shared, at.own, chosen)
        model["params"] = at.gradient(model, batch, rng)
        for piece, move, side in ((at.shared, at.move_shared, True), (at.own, at.move_own, False)):
            seen = part(at.task, model, chosen, side)
            move(seen["params"])
            piece["buffers"].copy_(seen["buffers"])
            piece["counts"].copy_(seen["counts"])

    def model(self, task: Task, shared: Model, own: Model) -> Model:
        return whole(task, shared, own, self.shares(task))

    def shares(self, task: Task) -> Chosen:
        """What is shared: the tensors that are named, all but the head, or the head alone."""
        if self.split == "names":
            return named(task, self.names)
        head = last_layer(task)
        return head if self.split == "body_local" else lambda slot: not head(slot)


@dataclass(frozen=True)
class Residual:
    attraction: ClassVar[float] = 0.0
    gradients_per_batch: ClassVar[int] = 1

    def parts(self, task: Task, first: Model) -> tuple[Model, Model]:
        return _bare(first), {**first, "params": torch.zeros_like(first["params"])}

    def step(self, at: Joint, batch: Split, rng: Generator | None) -> None:
        gradient = at.gradient(self.model(at.task, at.shared, at.own), batch, rng)
        at.move_shared(gradient)
        at.move_own(gradient)

    def model(self, task: Task, shared: Model, own: Model) -> Model:
        return {**own, "params": shared["params"] + own["params"]}


@dataclass(frozen=True)
class Mixture:
    attraction: float = option(
        1.0, "pull between the shared and the personal model", symbol="lambda", at_least=0, search="0.01:10:log"
    )

    gradients_per_batch: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check(self)

    def parts(self, task: Task, first: Model) -> tuple[Model, Model]:
        return _bare(first), first

    def step(self, at: Joint, batch: Split, rng: Generator | None) -> None:
        pull = self.attraction * (at.own["params"] - at.shared["params"])
        at.move_own(at.gradient(at.own, batch, rng) + pull)
        at.move_shared(-pull)

    def model(self, task: Task, shared: Model, own: Model) -> Model:
        return own


@dataclass(frozen=True)
class Moreau:
    attraction: float = option(
        15.0, "pull between the shared and the personal model", symbol="lambda", at_least=0, search="1:100:log"
    )
    inner_steps: int = option(5, "steps of the personal model per batch", symbol="K", at_least=1)

    def __post_init__(self) -> None:
        check(self)

    @property
    def gradients_per_batch(self) -> int:
        return self.inner_steps

    def parts(self, task: Task, first: Model) -> tuple[Model, Model]:
        return _bare(first), first

    def step(self, at: Joint, batch: Split, rng: Generator | None) -> None:
        for _ in range(self.inner_steps):
            pull = self.attraction * (at.own["params"] - at.shared["params"])
            at.move_own(at.gradient(at.own, batch, rng) + pull)
        at.move_shared(self.attraction * (at.shared["params"] - at.own["params"]))

    def model(self, task: Task, shared: Model, own: Model) -> Model:
        return own


@dataclass(frozen=True)
class Mixed:
    shared_weight: float = option(
        0.5,
        "weight of the shared model in the mixture; APFL's alpha is 1 - a",
        symbol="a",
        at_least=0,
        at_most=1,
        search="0:1",
    )
    phi: float | Literal["inf"] = option("inf", "weight of the shared model's own loss", symbol="Phi", above=0)

    attraction: ClassVar[float] = 0.0
    gradients_per_batch: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check(self)

    def parts(self, task: Task, first: Model) -> tuple[Model, Model]:
        return first, first

    def step(self, at: Joint, batch: Split, rng: Generator | None) -> None:
        by_shared = at.gradient(at.shared, batch, same_draws(rng))
        by_mixed = at.gradient(self.model(at.task, at.shared, at.own), batch, rng)
        at.move_own((1 - self.shared_weight) * by_mixed)
        at.move_shared(by_shared if self.phi == "inf" else self.phi * by_shared + self.shared_weight * by_mixed)

    def model(self, task: Task, shared: Model, own: Model) -> Model:
        a = self.shared_weight
        return {**own, "params": a * shared["params"] + (1 - a) * own["params"]}


@dataclass(frozen=True)
class Pair:
    attraction: float = option(
        1.0, "pull between the shared and the personal model", symbol="lambda", at_least=0, search="0.01:10:log"
    )
    phi: float | Literal["inf"] = option("inf", "weight of the shared model's own loss", symbol="Phi", above=0)

    gradients_per_batch: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check(self)

    def parts(self, task: Task, first: Model) -> tuple[Model, Model]:
        return first, first

    def step(self, at: Joint, batch: Split, rng: Generator | None) -> None:
        pull = self.attraction * (at.own["params"] - at.shared["params"])
        by_shared = at.gradient(at.shared, batch, same_draws(rng))
        at.move_own(at.gradient(at.own, batch, rng) + pull)
        at.move_shared(by_shared if self.phi == "inf" else self.phi * by_shared - pull)

    def model(self, task: Task, shared: Model, own: Model) -> Model:
        return own
