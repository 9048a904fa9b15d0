"""What noisy gradients add up to: epsilon, by Opacus' own accountant (Renyi differential privacy, `RDPAccountant`).

A *use* is a number of steps of the sampled Gaussian mechanism (Mironov, Talwar and Zhang, 2019): every example is in a
step with probability `rate`, independently of all others, and the sum of their clipped gradients gets noise whose
deviation is `noise` times the clip. Uses add up, whatever else happens between them:

    epsilon(delta) = min over orders a of  [sum over uses of steps * RDP_a(rate, noise)]  turned into (epsilon, delta)

Opacus is an extra (`amity[privacy]`), and is imported here alone.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amity.errors import InputError

ACCOUNTANT = "rdp"
"""Which of Opacus' accountants it is."""

_MOST_NOISE = 1e6


class Use(NamedTuple):
    """Noisy gradients of one kind."""

    noise: float  # sigma
    rate: float  # q, the probability that an example is in one of them
    steps: int


def require_opacus() -> None:
    """Refuse to go on where the accountant is not installed."""
    if importlib.util.find_spec("opacus") is None:
        raise InputError("differential privacy needs opacus, it is not installed: pip install 'amity[privacy]'")


@functools.cache
def _load_opacus() -> None:
    """Import Opacus, and take away the handler that it gives the root logger: it would say every error twice."""
    root = logging.getLogger()
    before = list(root.handlers)
    import opacus  # noqa: F401

    for handler in [one for one in root.handlers if one not in before]:
        root.removeHandler(handler)


def epsilon_of(uses: Iterable[Use], delta: float) -> float:
    """The epsilon of these uses together, for a delta."""
    _load_opacus()
    from opacus.accountants.analysis.rdp import get_privacy_spent

    total: NDArray[np.float64] = np.zeros(len(_orders()))
    for noise, rate, steps in uses:
        if steps and rate:
            total = total + steps * _one_step(noise, rate)
    if not total.any():
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an order beyond these might give a smaller epsilon: this one holds too
        epsilon, _ = get_privacy_spent(orders=_orders(), rdp=total, delta=delta)
    return float(epsilon)


@functools.lru_cache(maxsize=1024)
def noise_for(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """The noise with which so many steps come to at most this epsilon."""
    _load_opacus()
    from opacus.accountants.utils import get_noise_multiplier

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = get_noise_multiplier(
                target_epsilon=epsilon,
                target_delta=delta,
                sample_rate=rate,
                steps=steps,
                accountant=ACCOUNTANT,
                epsilon_tolerance=max(1e-9, min(0.01, epsilon / 100)),  # a finer one might never be met
            )
    except ValueError:  # Opacus gives up above sigma = 10^6
        found = _MOST_NOISE
    if found >= _MOST_NOISE:
        raise InputError(
            f"no noise keeps {steps} noisy gradients within dp_epsilon {epsilon:g}: take fewer rounds or epochs, "
            "or a larger epsilon"
        )
    return float(found)


@functools.lru_cache(maxsize=1024)
def _one_step(noise: float, rate: float) -> NDArray[np.float64]:
    """The Renyi divergence of one step at each order."""
    _load_opacus()
    from opacus.accountants.analysis.rdp import compute_rdp

    try:
        found: NDArray[np.float64] = np.asarray(compute_rdp(q=rate, noise_multiplier=noise, steps=1, orders=_orders()))
    except (ZeroDivisionError, OverflowError):  # its square is no number any more
        rule = "differential privacy needs noise that hides something"
        raise InputError(f"{rule}, got dp_noise {noise:g}: try dp_noise=1") from None
    return found


@functools.cache
def _orders() -> list[Any]:
    """The orders that Opacus' accountant looks at."""
    _load_opacus()
    from opacus.accountants import RDPAccountant

    return list(RDPAccountant.DEFAULT_ALPHAS)
