"""Means that a few bad rows cannot carry away: what `--robust` puts in place of the mean of uploaded models.

Each is a function of n vectors of d numbers, [n, d] -> [d]. At most a fifth of them is taken to be bad, f = floor(n/5):
with fewer than five, trimmed and krum are the plain mean.

    median     x_j = median_i x_ij                                      Yin et al., ICML 2018, definition 1
    trimmed    x_j = mean of x_ij without its f largest and f smallest  Yin et al., ICML 2018, definition 2
    krum       mean of the n - f rows with the smallest s_i,            Blanchard et al., NeurIPS 2017 (Multi-Krum)
               s_i = sum of |x_i - x_j|^2 over the n - f - 2 rows j nearest to i
    clip       v + mean_i (x_i - v) min(1, tau / |x_i - v|)             Karimireddy et al., ICML 2021, eq. 3

Departures. Sizes play no part: a silo says its own, and a bad one could claim to be large. `clip` takes one step, from
the coordinate-wise median instead of the mean of the round before, and tau is the median of |x_i - v|, where the paper
leaves it to be tuned.

Everything is streamed over blocks of columns, so that beyond the rows no more than one vector is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from amity.learn.vectors import by_columns, mix, squared_distances

SHARE = 5
"""One row in so many may be bad."""


def bad_rows(count: int) -> int:
    """f: how many of so many rows may be bad.

    >>> [bad_rows(count) for count in (4, 5, 20)]
    [0, 1, 4]
    """
    return count // SHARE


def median(rows: Tensor) -> Tensor:
    """The coordinate-wise median; of an even number, the mean of the middle two.  # [n, d] -> [d]

    >>> median(torch.tensor([[1.0], [2.0], [99.0]]))
    tensor([2.])
    """
    low, high = (len(rows) - 1) // 2, len(rows) // 2
    return by_columns(rows, lambda block: block.sort(0).values[low : high + 1].mean(0))


def trimmed(rows: Tensor) -> Tensor:
    """The coordinate-wise trimmed mean.  # [n, d] -> [d]"""
    cut = bad_rows(len(rows))
    return by_columns(rows, lambda block: block.sort(0).values[cut : len(rows) - cut].mean(0))


def krum_choice(rows: Tensor) -> Tensor:
    """The rows that Multi-Krum takes the mean of, in ascending order.  # [n, d] -> [n - f]"""
    count = len(rows)
    bad = bad_rows(count)  # n >= 5 f, so that the rule's n >= 2 f + 3 holds
    if not bad:
        return torch.arange(count)
    apart = squared_distances(rows).sort(1).values[:, 1:]  # without itself, the nearest
    scores = apart[:, : count - bad - 2].sum(1)
    return scores.argsort(stable=True)[: count - bad].sort().values.cpu()


def krum(rows: Tensor) -> Tensor:
    """The mean of the rows that Multi-Krum chooses.  # [n, d] -> [d]"""
    return mean_of(rows, krum_choice(rows))


def mean_of(rows: Tensor, chosen: Tensor) -> Tensor:
    """The mean of the chosen rows.  # [n, d], [k] -> [d]"""
    shares = torch.zeros(1, len(rows), dtype=torch.float64).index_fill(1, chosen, 1 / len(chosen))
    return mix(shares, rows)[0]


def clip(rows: Tensor) -> Tensor:
    """Centred clipping about the coordinate-wise median.  # [n, d] -> [d]"""
    centre = median(rows)
    lengths = torch.stack([torch.linalg.vector_norm(row - centre, dtype=torch.float64) for row in rows])
    longest = lengths.quantile(0.5)
    factors = torch.where(lengths > longest, longest / lengths.clamp(min=torch.finfo(lengths.dtype).tiny), 1.0)
    shares = factors / len(rows)
    rest = (1 - shares.sum()) * centre.double()
    return (mix(shares[None], rows)[0].double() + rest).to(rows.dtype)


MEANS: Mapping[str, Callable[[Tensor], Tensor]] = {"median": median, "trimmed": trimmed, "krum": krum, "clip": clip}
"""By the words of `--robust`."""
