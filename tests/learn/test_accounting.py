"""Epsilon is what Opacus' own accountant says, step by step."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opacus.accountants import RDPAccountant

from amity.contract import InputError
from amity.learn.accounting import Use, epsilon_of, noise_for, require_opacus

USES = st.builds(
    Use,
    noise=st.sampled_from([0.7, 1.0, 1.3, 2.5, 8.0]),
    rate=st.sampled_from([0.01, 0.1, 1 / 3, 1.0]),
    steps=st.integers(0, 12),
)


@settings(max_examples=6, deadline=None)
@given(st.lists(USES, max_size=3), st.sampled_from([1e-5, 1 / 3000]))
def test_epsilon_is_that_of_opacus_accountant(uses: list[Use], delta: float) -> None:
    accountant = RDPAccountant()
    for noise, rate, steps in uses:
        for _ in range(steps):
            accountant.step(noise_multiplier=noise, sample_rate=rate)
    assert epsilon_of(uses, delta) == pytest.approx(accountant.get_epsilon(delta), abs=1e-6)


@pytest.mark.parametrize(("epsilon", "rate", "steps"), [(0.5, 0.1, 30), (2.0, 0.25, 100), (16.0, 1.0, 10)])
def test_the_noise_for_an_epsilon_keeps_to_it_and_is_no_larger_than_needed(
    epsilon: float, rate: float, steps: int
) -> None:
    noise = noise_for(epsilon, 1e-4, rate, steps)
    assert 0.98 * epsilon <= epsilon_of([Use(noise, rate, steps)], 1e-4) <= epsilon
    assert epsilon_of([Use(0.98 * noise, rate, steps)], 1e-4) > epsilon_of([Use(noise, rate, steps)], 1e-4)


def test_an_epsilon_that_no_noise_keeps_is_refused() -> None:
    with pytest.raises(InputError, match="no noise keeps 10 noisy gradients within dp_epsilon 1e-06"):
        noise_for(1e-6, 1e-5, 0.1, 10)


def test_where_opacus_is_missing_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"needs opacus, it is not installed: pip install 'amity\[privacy\]'"):
        require_opacus()


def test_an_epsilon_that_is_next_to_nothing_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="no noise keeps 10 noisy gradients"):
        noise_for(1e-320, 1e-5, 0.1, 10)


def test_noise_whose_square_is_nothing_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="needs noise that hides something, got dp_noise"):
        epsilon_of([Use(1e-320, 0.1, 10)], 1e-5)


@pytest.mark.slow  # a process of its own loads torch and Opacus
def test_opacus_says_nothing_of_ours() -> None:
    """It gives the root logger a handler when it is imported: an error would then be said twice."""
    program = (
        "import logging; from amity.learn.accounting import Use, epsilon_of; epsilon_of([Use(1.0, 0.1, 1)], 1e-5)\n"
        "print(logging.getLogger().handlers)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
