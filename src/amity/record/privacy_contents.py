"""What files of a run under differential privacy hold beside those of any other: see contents.py."""

from typing import TypedDict


class SpentPrivacy(TypedDict):
    """The noisy gradients that a silo took in a round, under differential privacy."""

    noise: float  # deviation of the noise, as a multiple of the clip
    rate: float  # the probability that an example is in a sample
    steps: int
    delta: float


class PrivacyFacts(TypedDict):
    """What a run has spent under differential privacy, for each silo: 0 where its examples were not used."""

    accountant: str  # of Opacus
    epsilon: list[float]
    delta: list[float | None]
