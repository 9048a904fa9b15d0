"""Weights that show no silo: at most one part in N of what comes from others comes from any one of them.

    s_j = xi_ij / (1 - xi_ii)                    the shares of the others in what they give silo i together
    s_j <= 1/N                                   what is above goes to those below, in proportion to their shares

A silo that takes its own part out of such a mixture is left with at least N models at once, since then sum_j s_j^2 is
at most 1/N. With fewer than N others, or where a weight is negative, nothing of theirs is sent: xi_ii = 1. The self
weight stays as it is otherwise.
"""

from __future__ import annotations

import torch
from torch import Tensor


def spread(weights: Tensor, own: Tensor, there: Tensor, least: int) -> Tensor:
    """Weights of which no other silo has more than one part in `least`.  # [r, n], [r], [n] -> [r, n]

    `own` is the place of each receiver itself, `there` says whose models there are to be mixed.
    """
    return torch.stack([_row(row, int(place), there, least) for row, place in zip(weights, own, strict=True)])


def _row(row: Tensor, own: int, there: Tensor, least: int) -> Tensor:
    others = there.clone()
    others[own] = False
    given = float(row[others].sum())
    if bool((row < 0).any()) or int(others.sum()) < least:
        return torch.zeros_like(row).index_fill(0, torch.tensor([own]), 1.0)
    if not given:
        return row
    shares = capped(row[others] / given, 1.0 / least)
    return row.masked_scatter(others, given * shares)


def capped(shares: Tensor, most: float) -> Tensor:
    """The same shares, none above `most`: the rest of a larger one goes to those below, in proportion.  # [n] -> [n]

    >>> capped(torch.tensor([0.9, 0.08, 0.02]), 0.5)
    tensor([0.5000, 0.4000, 0.1000])
    """
    full = torch.zeros_like(shares, dtype=torch.bool)
    while bool((shares > most * (1 + 1e-12)).any()):
        full = full | (shares >= most)
        rest = 1.0 - most * int(full.sum())
        below = torch.where(full, 0.0, shares)
        below = below if below.sum() > 0 else torch.where(full, 0.0, torch.ones_like(shares))
        shares = torch.where(full, most, rest * below / below.sum().clamp(min=torch.finfo(shares.dtype).tiny))
    return shares
