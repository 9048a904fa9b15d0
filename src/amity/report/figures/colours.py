"""Colours of figures on paper. The page has its own, light and dark, by the same ideas: `page/style/colours.css`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#555555")
"""Colours after Okabe and Ito, which colour-blind readers can tell apart too."""
INK, PALE, ABSENT = "#1f2933", "#e4e7eb", "#d5dae0"

VERDICTS = {
    "gains": "#0a66a8",
    "better alone": "#b8470a",
    "no clear difference": "#7b828b",
    "cannot be compared": "#7b828b",
}

PAPER, EVEN, MORE, MOST, NEGATIVE = "#ffffff", "#e9e7e1", "#6aa5d4", "#08305c", "#d55e00"
"""From nothing over an even share to all, and what pushes away."""

Floats = npt.NDArray[np.float64]


def weight_colours(weights: Floats) -> Floats:
    """Return red, green and blue of weights [m, m], from 0 to 1, by how many times an even share 1/m each is.

    An even share is a pale grey, so a uniform matrix reads as nothing special; less fades into the paper, and more goes
    through blue to the darkest ink, on a logarithmic scale that ends at all. Negative weights are orange.
    """
    m = weights.shape[1]
    shares = weights * m
    span = np.log(max(2, m))
    some = np.nan_to_num(shares, nan=0.0, posinf=m, neginf=-m)
    below = _along((PAPER, EVEN), np.clip(some, 0, 1))
    above = _along((EVEN, MORE, MOST), np.log(np.maximum(some, 1)) / span)
    against = _along((PAPER, NEGATIVE), 0.25 + 0.75 * np.log1p(np.maximum(-some, 0)) / span)
    found = np.where((some > 1)[..., None], above, np.where((some < 0)[..., None], against, below))
    return np.where(np.isfinite(shares)[..., None], found, channels(ABSENT))


def count_colours(counts: Floats) -> Floats:
    """Return red, green and blue of counts, by their square roots; none is blank."""
    top = float(counts.max(initial=0)) or 1.0
    return np.where((counts > 0)[..., None], _along((EVEN, MORE, MOST), np.sqrt(counts / top)), channels(PAPER))


def channels(colour: str) -> Floats:
    """Return red, green and blue of a colour, from 0 to 1."""
    return np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255


def _along(colours: tuple[str, ...], share: npt.NDArray[Any]) -> Floats:
    """Return the colours at shares of the way along several.  # [..., 3]"""
    stops = np.linspace(0, 1, len(colours))
    parts = np.stack([channels(colour) for colour in colours])  # [stops, 3]
    return np.stack([np.interp(share, stops, parts[:, channel]) for channel in range(3)], axis=-1)
