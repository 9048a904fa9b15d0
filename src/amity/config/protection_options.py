"""Options of a run: what protects silos from each other, and from what is learnt about them."""

from __future__ import annotations

from dataclasses import dataclass

from amity.config.options import option
from amity.config.participation import MANY
from amity.config.privacy import Bound, Noise
from amity.config.robust import Robust


@dataclass(frozen=True)
class ProtectionOptions:
    """The part of a `Run` that says what silos refuse, mix and keep back."""

    robust: Robust = option(
        "off",
        "protection against bad silos; norm: refuse uploads that moved much further than the median one, or came "
        "before; median, trimmed, krum, clip: that, and this mean of models in methods that average",
        per_method=True,
    )
    min_mix: int = option(
        1,
        "what a silo is sent mixes models of at least so many others, or of none, so that it can work out no single "
        "one; 1: as the method says",
        at_least=1,
        at_most=MANY,
    )
    min_count: int = option(
        1,
        "a silo tells nothing of its own examples that rests on fewer than so many of them: no score where fewer were "
        "tested, right or wrong; 1: it tells all",
        at_least=1,
        at_most=MANY,
    )
    encrypted: bool = option(
        False,
        "the server computes with models that it cannot read (CKKS): for fedamp, heurfedamp, fedacs and twin, in a "
        "simulation; docs/encrypted.md says what it protects from",
    )
    dp_noise: Noise = option(
        "none",
        "differential privacy: noise in every gradient, as a multiple of dp_clip; epsilon is on record",
        symbol="sigma",
        above=0,
        at_most=1e6,
    )
    dp_epsilon: Noise = option(
        "none",
        "the same, with the noise that keeps every silo's epsilon of the whole run within this",
        symbol="epsilon",
        above=0,
        at_most=1e6,
    )
    dp_clip: Bound = option(
        "auto", "longest gradient of one example, under differential privacy; auto: 1", symbol="C", above=0
    )
    dp_delta: Bound = option(
        "auto",
        "delta that goes with epsilon; auto: 1 / (10 n) at a silo with n training examples",
        symbol="delta",
        above=0,
        below=1,
    )
