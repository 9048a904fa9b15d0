"""What differential privacy means for each silo of a plan: its noise, its sampling rate, and what a round spends.

All of it follows from public facts, the number of a silo's examples among them, so the server and the silo come to the
same numbers by themselves. How many noisy gradients a silo has really made, it counts for itself (`learn/private.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from amity.contract import InputError, gradients_of
from amity.federation.plan import Plan
from amity.learn.accounting import Use, epsilon_of, noise_for
from amity.learn.private import Guard


class Spent(NamedTuple):
    """What a silo has spent in one round."""

    use: Use
    delta: float


class Terms(NamedTuple):
    """What a silo keeps to."""

    clip: float
    noise: float  # sigma, the silo's own where epsilon was asked for
    rate: float  # the probability that an example is in a sample
    delta: float
    most: int  # noisy gradients in the whole run, if it takes part in every round

    @property
    def epsilon(self) -> float:
        """What the whole run spends, if the silo takes part in every round."""
        return epsilon_of([Use(self.noise, self.rate, self.most)], self.delta)


def terms_of(plan: Plan, client: int) -> Terms:
    """Return what a silo keeps to under a plan with differential privacy."""
    privacy = plan.privacy
    assert privacy is not None
    size, rule = int(plan.fed.sizes[client]), plan.rule
    rate = min(1.0, plan.solver.batch / size) if size else 0.0
    delta = privacy.delta_of(size)
    if size and delta >= 1 / size:
        raise InputError(
            f"dp_delta needs to be below 1 / n, a silo here has n = {size} training examples, got {delta:g}: "
            f"leave it at auto ({1 / (10 * size):.2g} there)"
        )
    most = plan.fed.rounds * gradients_in(plan, client, max(rule.local_epochs_range or (rule.epochs,)))
    if privacy.noise is not None:
        noise = privacy.noise
    else:
        assert privacy.epsilon is not None  # one of them is given
        noise = noise_for(privacy.epsilon, delta, rate, most) if most else 1.0  # nobody's example is touched
    return Terms(privacy.clip, noise, rate, delta, most)


def gradients_in(plan: Plan, client: int, epochs: int) -> int:
    """Return how many noisy gradients a turn of so many epochs takes at a silo."""
    return gradients_of(plan.method, epochs, -(-int(plan.fed.sizes[client]) // plan.solver.batch))


def spent_in(plan: Plan, epochs: Mapping[int, int]) -> dict[int, Spent] | None:
    """Return what each silo that has trained for so many epochs has spent; None without differential privacy."""
    if plan.privacy is None:
        return None
    found = {}
    for client, count in epochs.items():
        terms = terms_of(plan, client)
        found[client] = Spent(Use(terms.noise, terms.rate, gradients_in(plan, client, count)), terms.delta)
    return found


def guard_of(plan: Plan, client: int) -> Guard:
    """Return what protects the examples of a silo in its training."""
    terms = terms_of(plan, client)
    return Guard(terms.clip, terms.noise, plan.solver.batch, terms.most)
