"""Differential privacy as a run asks for it: how much noise, or how much may be told about any one example.

No torch here. What follows from it for each silo stands in `federation/spending.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from amity.errors import InputError

if TYPE_CHECKING:
    from amity.config.run import Run

CLIP = 1.0
"""The longest gradient of one example, in the Euclidean norm, where a run with noise does not say it."""

Noise = float | Literal["none"]
Bound = float | Literal["auto"]


class Privacy(NamedTuple):
    """What silos promise about any one training example. Either the noise is given, or epsilon is."""

    clip: float  # C: each example's gradient is at most this long
    noise: float | None  # sigma, the noise's deviation as a multiple of C
    epsilon: float | None  # what a silo may spend in the whole run; each finds its own sigma for it
    delta: float | None  # None: each silo's own, 1 / (10 n)

    def delta_of(self, size: int) -> float:
        """The delta of a silo with so many training examples."""
        return 1 / (10 * max(1, size)) if self.delta is None else self.delta

    def words(self) -> dict[str, float | str]:
        """Return it as a contract holds it, by name."""
        asked: dict[str, float | str] = {"noise": self.noise} if self.noise is not None else {}
        if self.epsilon is not None:
            asked["epsilon"] = self.epsilon
        return {**asked, "clip": self.clip, "delta": "1 / (10 n)" if self.delta is None else self.delta}


def privacy_of(run: Run) -> Privacy | None:
    """Return the privacy that a run asks for, or None. Refuse options that contradict each other."""
    noise = None if run.dp_noise == "none" else float(run.dp_noise)
    epsilon = None if run.dp_epsilon == "none" else float(run.dp_epsilon)
    if noise is not None and epsilon is not None:
        raise InputError(
            f"dp_noise and dp_epsilon exclude each other, got {noise:g} and {epsilon:g}: give the noise, or "
            "the epsilon that it is to be found for"
        )
    if noise is None and epsilon is None:
        for name in ("dp_clip", "dp_delta"):
            if (value := getattr(run, name)) != "auto":
                raise InputError(
                    f"{name} is a part of differential privacy, got {value:g} without noise: set dp_noise or dp_epsilon"
                )
        return None
    clip = CLIP if run.dp_clip == "auto" else float(run.dp_clip)
    return Privacy(clip, noise, epsilon, None if run.dp_delta == "auto" else float(run.dp_delta))
