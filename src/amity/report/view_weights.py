"""Who learns from whom, packed for a page: two bytes for each weight, and orders in which groups of silos show.

A hundred silos over ninety rounds are 900,000 weights: 2.4 MB of text. Where runs have more than a page can hold,
rounds are left out evenly, never the last one.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from amity.record.files import Array
from amity.report.contents import WeightsView

MOST_TEXT = 11_000_000
"""Characters that the weights of all runs of a view may take together: a page is to stay well under 15 MB."""

STEPS = 65534
UNDEFINED = 65535

Floats = npt.NDArray[np.float64]


def weights_of(
    weights: Mapping[int, Array], places: Sequence[int], silos: int, groups: Sequence[int | None], text: int
) -> WeightsView | None:
    """Return the weights of a run in a view of so many silos, within so many characters of text; None without any.

    `places`: where the run's silos stand among those of the view. `groups`: of the view's silos.
    """
    if not weights:
        return None
    rounds = kept_rounds(sorted(weights), silos, text)
    stack = np.full((len(rounds), silos, silos), np.nan)  # [rounds, m, m]
    stack[np.ix_(range(len(rounds)), places, places)] = [weights[round] for round in rounds]
    low, high, codes = packed(stack)
    last = stack[-1]
    return {
        "rounds": rounds,
        "low": low,
        "high": high,
        "codes": base64.b64encode(codes.astype("<u2").tobytes()).decode(),
        "given": sorted(range(silos), key=lambda place: (groups[place] is None, groups[place] or 0, place)),
        "clustered": clustered(last),
    }


def kept_rounds(rounds: Sequence[int], silos: int, text: int) -> list[int]:
    """Return as many rounds as the text has room for, evenly spread, the last always among them."""
    each = 8 * silos * silos / 3  # two bytes, of which base64 makes 8/3 characters
    room = max(1, int(text / each))
    if len(rounds) <= room:
        return list(rounds)
    chosen = np.linspace(len(rounds) - 1, 0, room).round().astype(int)
    return [rounds[place] for place in sorted(set(chosen.tolist()))]


def packed(stack: Floats) -> tuple[float, float, npt.NDArray[np.uint16]]:
    """Return the smallest and the largest weight, and every weight as a code between them."""
    known = np.isfinite(stack)
    low, high = (float(stack[known].min()), float(stack[known].max())) if known.any() else (0.0, 0.0)
    share = (np.where(known, stack, low) - low) / (high - low) if high > low else np.zeros(stack.shape)
    codes = np.where(known, np.rint(share * STEPS), UNDEFINED)
    return low, high, codes.astype(np.uint16)


def unpacked(view: WeightsView, silos: int) -> Floats:
    """Return the weights of a view as they were, NaN where undefined.  # [rounds, m, m]"""
    codes = np.frombuffer(base64.b64decode(view["codes"]), "<u2").reshape(-1, silos, silos)
    weights = view["low"] + codes * ((view["high"] - view["low"]) / STEPS)
    return np.where(codes == UNDEFINED, np.nan, weights)


def clustered(matrix: Floats) -> list[int]:
    """Return the silos in an order that has those side by side which listen to each other.

    Average linkage: the two clusters with the largest mean tie become one, again and again; where they are joined, the
    ends that lie next to each other are those with the strongest tie.
    """
    sizes = np.nan_to_num(np.abs(matrix), nan=0.0, posinf=0.0)
    ties = sizes + sizes.T
    np.fill_diagonal(ties, 0.0)
    orders: dict[int, list[int]] = {place: [place] for place in range(len(ties))}
    means = ties.copy()  # between clusters, by the place of each one's first silo
    np.fill_diagonal(means, -np.inf)
    for _ in range(len(ties) - 1):
        one, other = sorted(divmod(int(means.argmax()), len(ties)))
        share = len(orders[one]) / (len(orders[one]) + len(orders[other]))
        mean = share * means[one] + (1 - share) * means[other]
        means[one], means[:, one] = mean, mean
        means[one, one] = -np.inf
        means[other], means[:, other] = -np.inf, -np.inf
        orders[one] = _joined(orders[one], orders.pop(other), ties)
    return orders[0] if orders else []


def _joined(first: list[int], second: list[int], ties: Floats) -> list[int]:
    """Return two orders as one, either of them turned round where its ends then fit better."""
    ways = [(a, b) for a in (first, first[::-1]) for b in (second, second[::-1])]
    best = max(ways, key=lambda way: float(ties[way[0][-1], way[1][0]]))
    return best[0] + best[1]
