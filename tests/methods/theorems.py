"""The convergence theorems' own world: losses whose proximal step is exact, objectives by definition, and loops that
drive the project's server steps.

Objectives and their gradients are written here once more, from the papers and by autograd, so that they do not
share a mistake with `amity.methods._attention`. Models are points, W is [m, d]; a path is [K + 1, m, d].
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from methods.points import ask, draws, facts, holding, message, turn
from torch import Tensor

from amity.contract import Method, State
from amity.learn.streams import stream
from amity.learn.task import Task
from amity.learn.vectors import mix
from amity.methods._attention import gradient_step
from amity.methods.fedamp import FedAMP
from amity.methods.pfedatt import PFedAtt

Value = Callable[[Tensor], Tensor]
"""A function of all models at once: [..., m, d] -> [...]."""


def points(role: str, clients: int = 6, size: int = 3, spread: float = 1.0) -> Tensor:
    """Random models.  # [m, d]"""
    return spread * torch.randn(clients, size, generator=stream(0, role), dtype=torch.float64)


def two_groups(role: str) -> Tensor:
    """Centres of two groups of three clients, so that some pairs are near and some far.  # [6, 3]"""
    shift = torch.tensor([1.5, -1.5], dtype=torch.float64).repeat_interleave(3)
    return points(role, spread=0.5) + shift[:, None]


def norms(w: Tensor) -> Tensor:
    """Frobenius norms.  # [..., m, d] -> [...]"""
    return w.square().sum((-2, -1)).sqrt()


class Loss(NamedTuple):
    """F(W) = sum_i F_i(w_i), a sum over the coordinates."""

    value: Value
    gradient: Callable[[Tensor], Tensor]  # where F has a kink: a subgradient
    bound: float  # of the norm of every (sub)gradient, or infinity
    prox: Callable[[Tensor, float], Tensor]  # (U, r) -> argmin F(W) + r/2 |W - U|^2, exactly
    off: Callable[[Tensor, Tensor], Tensor]  # (W, g) -> how far -g is from the subgradients of F at W


def quadratic(centres: Tensor) -> Loss:
    """F_i(w) = |w - a_i|^2 / 2"""
    return Loss(
        value=lambda w: (w - centres).square().sum((-2, -1)) / 2,
        gradient=lambda w: w - centres,
        bound=math.inf,
        prox=lambda u, r: (centres + r * u) / (1 + r),
        off=lambda w, g: norms(w - centres + g),
    )


def absolute(centres: Tensor) -> Loss:
    """F_i(w) = |w - a_i|_1: convex with a kink. Its proximal step is a soft threshold."""

    def prox(u: Tensor, r: float) -> Tensor:
        x = u - centres
        return torch.where(x.abs() <= 1 / r, centres, u - x.sign() / r)

    def off(w: Tensor, g: Tensor) -> Tensor:
        return norms(torch.where(w == centres, (g.abs() - 1).clamp(min=0), (w - centres).sign() + g))

    return Loss(
        value=lambda w: (w - centres).abs().sum((-2, -1)),
        gradient=lambda w: (w - centres).sign(),
        bound=math.sqrt(centres.numel()),
        prox=prox,
        off=off,
    )


def saturating(centres: Tensor) -> Loss:
    """F_i(w) = sum of log(1 + x^2/2), x = w - a_i: slope x/(1 + x^2/2) <= 1/sqrt(2), curvature in [-1/8, 1]."""

    def slope(x: Tensor) -> Tensor:
        return x / (1 + x**2 / 2)

    def prox(u: Tensor, r: float) -> Tensor:
        # Newton. The slope of the residual lies in [r - 1/8, r + 1], so that for r >= 2 each step contracts by 0.6.
        x = u - centres
        for _ in range(100):
            residual = slope(x) + r * (x - u + centres)
            if residual.abs().max() <= 1e-13 * (1 + r):
                return centres + x
            x = x - residual / (r + (1 - x**2 / 2) / (1 + x**2 / 2) ** 2)
        raise AssertionError(f"no proximal point found for r = {r}")

    return Loss(
        value=lambda w: torch.log1p((w - centres) ** 2 / 2).sum((-2, -1)),
        gradient=lambda w: slope(w - centres),
        bound=math.sqrt(centres.numel() / 2),
        prox=prox,
        off=lambda w, g: norms(slope(w - centres) + g),
    )


class Pairs(NamedTuple):
    """A pair term sum_{i<j} A(|w_i - w_j|^2) of m clients, and what the theorems ask of it."""

    value: Value
    lipschitz: float  # of its gradient
    bound: float  # of the norm of its gradient

    def gradient(self, w: Tensor) -> Tensor:
        return gradient_of(self.value, w)

    def scaled(self, factor: float) -> Pairs:
        return Pairs(lambda w: factor * self.value(w), factor * self.lipschitz, factor * self.bound)


def gradient_of(value: Value, w: Tensor) -> Tensor:
    w = w.detach().requires_grad_()
    return torch.autograd.grad(value(w).sum(), w)[0]


def over_pairs(w: Tensor, attraction: Callable[[Tensor], Tensor]) -> Tensor:
    gaps = (w[..., :, None, :] - w[..., None, :, :]).square().sum(-1)
    return attraction(gaps).triu(1).sum((-2, -1))


# Lipschitz constants: the curvature of A(|x|^2) is at most 2 A'(0), and the Laplacian of m clients is at most m.
# Gradients: 2 A'(t) sqrt(t) has a largest value, and each of m rows sums m - 1 of them.


def pseudo_huber_pairs(clients: int, c: float) -> Pairs:
    """A(t) = sqrt(t + c) - sqrt(c): a convex pair term. 2 A'(t) sqrt(t) = sqrt(t/(t + c)) < 1."""
    return Pairs(
        lambda w: over_pairs(w, lambda t: torch.sqrt(t + c) - math.sqrt(c)),
        clients / math.sqrt(c),
        math.sqrt(clients) * (clients - 1),
    )


def negexp_pairs(clients: int, sigma: float) -> Pairs:
    """A(t) = 1 - exp(-t/sigma): not convex beyond t = sigma/2, where 2 A'(t) sqrt(t) is largest."""
    steepest = 2 / sigma * math.sqrt(sigma / 2) * math.exp(-1 / 2)
    return Pairs(
        lambda w: over_pairs(w, lambda t: 1 - torch.exp(-t / sigma)),
        2 * clients / sigma,
        math.sqrt(clients) * (clients - 1) * steepest,
    )


class Objective(NamedTuple):
    """G(W) = F(W) + lambda A(W)"""

    loss: Loss
    pairs: Pairs
    attraction: float  # lambda

    def value(self, w: Tensor) -> Tensor:
        return self.loss.value(w) + self.attraction * self.pairs.value(w)

    def pull(self, w: Tensor) -> Tensor:
        """lambda grad A(W)"""
        return self.attraction * self.pairs.gradient(w)

    def gradient(self, w: Tensor) -> Tensor:
        return self.loss.gradient(w) + self.pull(w)

    def steepest(self, path: Tensor) -> float:
        """B: the largest gradient of F and of lambda A met on the path; for F its known bound, where it has one."""
        met = self.loss.bound if math.isfinite(self.loss.bound) else norms(self.loss.gradient(path)).max().item()
        return max(met, norms(self.pull(path)).max().item())

    def minimiser(self, w: Tensor) -> Tensor:
        """W* of a convex G by proximal gradient descent from w, certified by its own optimality condition."""
        size = 1 / (self.attraction * self.pairs.lipschitz)
        for _ in range(4000):
            pull = self.pull(w)
            if self.loss.off(w, pull) < 1e-11:
                return w
            w = self.loss.prox(w - size * pull, 1 / size)
        raise AssertionError(f"no minimiser found: {self.loss.off(w, self.pull(w)):.1e} off")


Server = Callable[[Tensor, int, float], Tensor]
"""(W, round, step alpha) -> U"""


def server_of(method: FedAMP | PFedAtt, rounds: int, clients: int = 6) -> Server:
    """The method's own download, with the step that it is told.

    The federation is planned for three times as long: the method's own schedule leaves the first third alone.
    """
    fed = facts(clients, rounds=3 * rounds)

    @functools.cache
    def told(alpha: float) -> FedAMP | PFedAtt:
        return dataclasses.replace(method, alpha=alpha)

    return lambda w, round, alpha: ask(told(alpha), w, round=round, fed=fed).each["params"]


def splitting(server: Server, loss: Loss, start: Tensor, attraction: float, alphas: Sequence[float]) -> Tensor:
    """The server's step, then F's exact proximal step of weight lambda/alpha_k, again and again.  # [K + 1, m, d]"""
    path = [start]
    for round, alpha in enumerate(alphas, 1):
        path.append(loss.prox(server(path[-1], round, alpha), attraction / alpha))
    return torch.stack(path)


def federated_path(method: Method, task: Task, data: Tensor, start: Tensor, rounds: int, rate: float) -> Tensor:
    """The whole method, its client step too: one full gradient step of this rate.  # [K + 1, m, d]"""
    who, path = torch.arange(len(start)), [start]
    fed = facts(len(start), rounds=3 * rounds)
    server = holding(method, start, fed=fed)
    clients: list[State] = [{**method.init_client(task, fed, i), "params": start[i]} for i in range(len(start))]
    for round in range(1, rounds + 1):
        sent = method.download(server, who, round, draws)
        turns = [method.local(task, clients[i], sent.to(i), turn(data[i : i + 1], rate, round=round)) for i in who]
        clients = [state for state, _ in turns]
        path.append(torch.stack([upload["params"] for _, upload in turns]))
        server = method.aggregate(server, who, message(path[-1]), round)
    return torch.stack(path)


def descent_path(similarity: Tensor, loss: Loss, start: Tensor, steps: Sequence[tuple[float, float]]) -> Tensor:
    """U = W - alpha grad R(W), W' = U - beta grad F(U) for R = sum_{i,j} s_ij |w_i - w_j|^2.  # [K + 1, m, d]

    grad R = 4 (diag(s 1) - s) W, so that it is `gradient_step` of length 4 alpha.
    """
    path = [start]
    for alpha, beta in steps:
        u = mix(gradient_step(similarity, 4 * alpha), path[-1])
        path.append(u - beta * loss.gradient(u))
    return torch.stack(path)


def similarity_pairs(similarity: Tensor) -> Pairs:
    """R of fixed symmetric similarities: a quadratic."""
    laplacian = torch.diag(similarity.sum(1)) - similarity
    return Pairs(
        lambda w: (similarity * (w[..., :, None, :] - w[..., None, :, :]).square().sum(-1)).sum((-2, -1)),
        4 * torch.linalg.eigvalsh(laplacian).max().item(),
        math.inf,
    )
