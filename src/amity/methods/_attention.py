"""From similarities of models to mixing matrices.

Pure functions on small [n, n] float64 matrices: row i says how much of every client's model goes into client i's
cloud model. Readings of the papers that no method ships are arguments here, so that their limits can be tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor


class Attraction(NamedTuple):
    """An attention-inducing function A of a squared distance t (FedAMP, Definition 1).

    A is increasing and concave, A(0) = 0, A'(0+) finite. `log_slope` is log A'(t), so that weights of distant
    models can be compared after they underflow.
    """

    value: Callable[[Tensor], Tensor]
    log_slope: Callable[[Tensor], Tensor]

    def slope(self, t: Tensor) -> Tensor:
        return self.log_slope(t).exp()


def negexp(sigma: float) -> Attraction:
    """A(t) = 1 - exp(-t/sigma), A'(t) = exp(-t/sigma)/sigma: the paper's choice."""
    return Attraction(lambda t: -torch.expm1(-t / sigma), lambda t: -t / sigma - math.log(sigma))


def pseudo_huber(sigma: float) -> Attraction:
    """A(t) = sqrt(t + sigma) - sqrt(sigma): makes the pair term convex, as Theorem 1 asks."""
    return Attraction(
        lambda t: t / (torch.sqrt(t + sigma) + math.sqrt(sigma)),  # the same without cancellation
        lambda t: -0.5 * torch.log(t + sigma) - math.log(2),
    )


def mcp(sigma: float, gamma: float = 3.0) -> Attraction:
    """Minimax concave penalty in s = t/sigma: A = s - s^2/(2 gamma) up to s = gamma, constant beyond."""

    def value(t: Tensor) -> Tensor:
        s = (t / sigma).clamp(max=gamma)
        return s - s**2 / (2 * gamma)

    return Attraction(value, lambda t: torch.log((1 - t / (sigma * gamma)).clamp(min=0)) - math.log(sigma))


def scad(sigma: float, a: float = 3.7) -> Attraction:
    """Smoothly clipped absolute deviation in s = t/sigma: slope 1 up to s = 1, falling to 0 at s = a."""

    def value(t: Tensor) -> Tensor:
        s = t / sigma
        bent = (2 * a * s - s**2 - 1) / (2 * (a - 1))
        return torch.where(s <= 1, s, torch.where(s <= a, bent, torch.full_like(s, (a + 1) / 2)))

    def log_slope(t: Tensor) -> Tensor:
        return torch.log(((a - t / sigma) / (a - 1)).clamp(0, 1)) - math.log(sigma)

    return Attraction(value, log_slope)


ATTRACTIONS: dict[str, Callable[[float], Attraction]] = {
    "negexp": negexp,
    "pseudo_huber": pseudo_huber,
    "mcp": mcp,
    "scad": scad,
}


def shares(logits: Tensor, self_weight: Tensor | None) -> Tensor:
    """Row softmax with a chosen self weight.  # [n, n] -> [n, n]

    None: the diagonal takes part like any other entry. Otherwise xi_ii = self_weight[i] and the others share
    1 - xi_ii by softmax. A row whose others all have weight zero keeps its own model.
    """
    if self_weight is None:
        return torch.softmax(logits, dim=1)
    others = logits.clone().fill_diagonal_(-math.inf)
    lonely = torch.isneginf(others).all(1)
    own = self_weight.double().masked_fill(lonely, 1.0)
    soft = torch.softmax(others.masked_fill(lonely[:, None], 0.0), dim=1)
    return (soft * (1 - own)[:, None]).fill_diagonal_(0) + torch.diag(own)


def group_self_weight(groups: Tensor, counts_self: bool = False) -> Tensor:
    """xi_ii = 1/(N_i + 1), N_i the number of clients of the same group: the others, or with i itself.  # [n]"""
    same = (groups[:, None] == groups[None, :]).sum(1).double()
    return 1 / (same + 1 if counts_self else same)


def gradient_step(slopes: Tensor, step: float) -> Tensor:
    """xi_ij = step A'(d_ij^2), xi_ii = 1 - sum of the others (FedAMP eq. 5): a gradient step on the pair term."""
    others = (step * slopes).fill_diagonal_(0)
    return others + torch.diag(1 - others.sum(1))


def largest_step(slopes: Tensor, least_self: float = 0.0) -> float:
    """The largest step for which every self weight of `gradient_step` is at least `least_self`."""
    most = slopes.clone().fill_diagonal_(0).sum(1).max().item()
    return math.inf if most == 0 else (1 - least_self) / most


def top_k(
    weights: Tensor,
    k: int,
    order: Tensor,
    *,
    own: Literal["always", "compete", "extra"] = "always",
    renormalise: Literal["all", "others", "to_self", "none"] = "all",
) -> Tensor:
    """Keep the k largest weights of each row (PFedAtt eq. 17). Ties go to whoever comes first in `order`.

    own: `always` counts the diagonal as one of the k, `extra` adds it to k others, `compete` lets it lose.
    renormalise: `all` divides the kept weights by their sum, `others` keeps xi_ii and rescales the others,
    `to_self` gives what was dropped to the diagonal, `none` is the printed equation.
    """
    count = len(weights)
    rank = weights.clone()
    if own != "compete":
        rank.fill_diagonal_(math.inf)
    best = order[torch.argsort(rank[:, order], dim=1, descending=True, stable=True)]
    keep = min(count, k + 1 if own == "extra" else k)
    kept = torch.zeros_like(weights).scatter_(1, best[:, :keep], 1.0) * weights
    total = weights.sum(1)
    if renormalise == "none" or keep == count:
        return kept
    if renormalise == "all":
        return kept * (total / kept.sum(1))[:, None]
    if renormalise == "to_self":
        return kept + torch.diag(total - kept.sum(1))
    diagonal = weights.diagonal()
    others = kept.clone().fill_diagonal_(0)
    mass = others.sum(1)
    alone = mass == 0
    scale = (total - diagonal) / mass.masked_fill(alone, 1.0)
    return others * scale[:, None] + torch.diag(torch.where(alone, total, diagonal))


def above_quantile(
    similarity: Tensor,
    p: float | None,
    *,
    over: Literal["all", "offdiag"] = "all",
    keep_self: bool = True,
    negative: Literal["clip", "raw", "shift"] = "clip",
) -> Tensor:
    """Rows proportional to the similarities above their global p-quantile (FedACS eq. 4).

    The inequality is strict. p = None keeps everybody. A client always keeps itself unless `keep_self` is off.
    """
    # Cosines of equal models miss 1 by rounding; the quantile must not tell them apart.
    similarity = similarity.masked_fill(similarity > 1 - 1e-11, 1.0)
    count = len(similarity)
    diagonal = torch.eye(count, dtype=torch.bool, device=similarity.device)
    if p is None:
        kept = torch.ones_like(diagonal)
    else:
        entries = similarity[~diagonal] if over == "offdiag" and count > 1 else similarity.flatten()
        kept = similarity > torch.quantile(entries, p)
    if keep_self:
        kept = kept | diagonal
    values = {"clip": similarity.clamp(min=0), "raw": similarity, "shift": (similarity + 1) / 2}[negative]
    chosen = torch.where(kept, values, torch.zeros_like(values))
    return chosen / chosen.sum(1, keepdim=True)


def twin_shares(similarity: Tensor, tau: float | None = None, *, doubt: float = 3.0, enough: float = 1 / 3) -> Tensor:
    """Row softmax of tau times what the similarities have above chance, as a share of the nearest twin's.

    A client is as similar to itself as to its nearest twin; alone, it has weight 1. No tau: log n, so that the
    nearest twin weighs as much as n strangers. Chance is the median plus `doubt` times the root mean square of the
    deviations below it, between 0 and 1/2: noise is symmetric and twins are not, so the lower half shows the noise
    alone; and a cosine above 1/2 is no accident, whatever the rest. A twin that has less than the share `enough` of
    what there is above chance is not a sure one, and weighs less.
    """
    count = len(similarity)
    if count == 1:
        return torch.ones_like(similarity)
    pairs = similarity[~torch.eye(count, dtype=torch.bool)]
    middle = pairs.median()
    noise = ((pairs - middle).clamp(max=0).square().sum() / (len(pairs) / 2)).sqrt()
    chance = (middle + doubt * noise).clamp(0, 0.5)
    telling = (similarity - chance).clamp(min=0) / (1 - chance)
    nearest = telling.clone().fill_diagonal_(-math.inf).amax(1)
    likeness = telling.diagonal_scatter(nearest) / nearest.clamp(min=enough)[:, None]
    return torch.softmax((math.log(count) if tau is None else tau) * likeness, dim=1)
