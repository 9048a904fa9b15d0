"""Random numbers from a key: what they are distributed like, and that no key and no call gives another's."""

from __future__ import annotations

import torch
from scipy import stats

from amity.learn.secret_numbers import SecretNumbers


def test_uniform_and_normal_numbers_are_distributed_as_they_say() -> None:
    numbers = SecretNumbers(b"a key")
    uniform, normal = numbers.uniform(20_000), numbers.normal(20_001)
    assert 0 < uniform.min() and uniform.max() < 1 and len(normal) == 20_001
    assert stats.kstest(uniform.numpy(), "uniform").pvalue > 1e-3
    assert stats.kstest(normal.numpy(), "norm").pvalue > 1e-3
    assert abs(torch.corrcoef(torch.stack([normal[:10_000], normal[10_001:20_001]]))[0, 1]) < 0.04


def test_a_key_gives_its_own_numbers_and_none_of_them_twice() -> None:
    one, again, other = SecretNumbers(b"one"), SecretNumbers(b"one"), SecretNumbers(b"other")
    first = one.normal(100)
    assert torch.equal(first, again.normal(100))
    assert not set(first.tolist()) & set(one.normal(100).tolist())
    assert not set(first.tolist()) & set(other.normal(100).tolist())
    assert "one" not in repr(one)
