"""Encrypted numbers: computed with correctly, told of with noise, and read by nobody without the key."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from amity.learn import ciphers
from amity.learn.ciphers import ERROR, FLOOD, SLOTS, Damaged, Evaluator, Holder, loaded


@cache
def keys() -> ciphers.Keys:
    return ciphers.new_keys()


@cache
def holder() -> Holder:
    return Holder(keys().secret)


@cache
def evaluator() -> Evaluator:
    return Evaluator(keys().evaluation)


def exact(one: torch.Tensor, other: torch.Tensor) -> tuple[float, float]:
    """An inner product as it is decrypted before noise is added to it, and its error."""
    product = evaluator().inner_product(*(loaded(holder().encrypted(each)) for each in (one, other)))
    found = float(holder()._numbers(product, ciphers._product(ciphers._seal()))[0])
    return found, abs(found - float(one @ other))


vectors = st.integers(1, 40).flatmap(
    lambda size: st.lists(st.lists(st.floats(-50, 50, width=32), min_size=size, max_size=size), min_size=2, max_size=2)
)


@settings(max_examples=6, deadline=None)
@given(vectors)
def test_inner_products_are_right_within_the_error_that_noise_is_to_hide(numbers: list[list[float]]) -> None:
    one, other = (torch.tensor(each, dtype=torch.float64) for each in numbers)
    size = float(one.norm() + other.norm())
    assert exact(one, other)[1] <= 6 * ERROR * (size + ERROR * SLOTS**0.5) + 1e-13 * size**2


def test_the_error_of_inner_products_is_as_small_as_said_and_the_noise_as_large() -> None:
    """The error deviates by at most ERROR (|x| + |y|), for vectors of several blocks; the noise by FLOOD times that."""
    rng = torch.Generator().manual_seed(0)
    errors = []
    for _ in range(6):
        one, other = (torch.randn(SLOTS + 100, generator=rng, dtype=torch.float64) for _ in range(2))
        errors.append(exact(one, other)[1] / (ERROR * float(one.norm() + other.norm())))
    assert 0 < max(errors) < 3 and sum(error**2 for error in errors) / len(errors) < 1

    product = evaluator().inner_product(loaded(holder().encrypted(one)), loaded(holder().encrypted(other)))
    size, true = float(one.norm() + other.norm()), float(one @ other)
    told = torch.tensor([holder().inner_product(product, size, len(one)) for _ in range(200)], dtype=torch.float64)
    noise = FLOOD * ERROR * size
    assert 0.8 * noise < float(told.std()) < 1.25 * noise and abs(float(told.mean()) - true) < noise / 2
    assert float((told - true).abs().max()) < 6 * noise
    grain = 2.0 ** torch.tensor(noise).log2().floor() / 2**ciphers.GRAINS
    assert torch.equal((told / grain).round() * grain, told)


@settings(max_examples=6, deadline=None)
@given(vectors, st.floats(-1, 2), st.sampled_from([0.0, 1e-30, 0.25, 1.0]))
def test_mixtures_are_right(numbers: list[list[float]], first: float, second: float) -> None:
    one, other = (torch.tensor(each, dtype=torch.float64) for each in numbers)
    sent = evaluator().mixture(
        {3: first, 5: second}, {3: loaded(holder().encrypted(one)), 5: loaded(holder().encrypted(other))}
    )
    found = holder().decrypted(sent, len(one))
    assert torch.allclose(found, first * one + second * other, atol=1e-7)


def test_nothing_has_no_blocks() -> None:
    nothing = holder().encrypted(torch.zeros(0))
    assert nothing.shape == (0, ciphers.SEALED)
    mixed = evaluator().mixture({0: 1.0}, {0: loaded(nothing)})
    assert mixed.shape == (0, ciphers.MIXED) and holder().decrypted(mixed, 0).shape == (0,)


def test_sizes_are_those_that_letters_have_room_for() -> None:
    made = keys()
    assert len(made.secret) + 4 <= ciphers.SECRET and len(made.evaluation) + 4 <= ciphers.EVALUATION
    assert ciphers.blocks_of(SLOTS) == 1 and ciphers.blocks_of(SLOTS + 1) == 2
    context = ciphers._seal().context
    assert context.parameters_set() and context.key_context_data().total_coeff_modulus_bit_count() == 180


def test_without_the_key_nothing_is_decrypted() -> None:
    """What the server has is no secret key, holds none, and another silo's key reads noise."""
    x = torch.linspace(-1, 1, 50, dtype=torch.float64)
    made, block = keys(), holder().encrypted(x)
    with pytest.raises(Damaged):
        Holder(made.evaluation)
    assert made.secret[200:260] not in made.evaluation
    mixed = evaluator().mixture({0: 1.0}, {0: loaded(block)})
    assert torch.allclose(holder().decrypted(mixed, 50), x, atol=1e-7)
    stranger = Holder(ciphers.new_keys().secret).decrypted(mixed, 50)
    assert not torch.allclose(stranger, x, atol=1) and float(stranger.abs().median()) > 1000


def test_equal_vectors_look_different_each_time() -> None:
    x = torch.ones(10)
    assert not torch.equal(holder().encrypted(x), holder().encrypted(x))


@pytest.mark.parametrize("change", ["cut", "longer", "header", "empty", "noise", "another kind"])
def test_what_is_no_ciphertext_is_refused(change: str) -> None:
    block = holder().encrypted(torch.ones(5))[0]
    rng = torch.Generator().manual_seed(1)
    if change == "cut":
        block = torch.cat([block[:1000], torch.zeros(len(block) - 1000, dtype=torch.uint8)])
    elif change == "longer":
        block[:4] = 255
    elif change == "header":
        block[4:60] = torch.randint(256, (56,), generator=rng, dtype=torch.uint8)
    elif change == "empty":
        block = torch.zeros_like(block)
    elif change == "noise":
        block = torch.randint(256, block.shape, generator=rng, dtype=torch.uint8)
    else:
        mixed = evaluator().mixture({0: 1.0}, {0: loaded(block[None])})[0]
        block = mixed
    with pytest.raises(Damaged, match="what is encrypted cannot be used"):
        loaded(block[None])


def test_a_flipped_bit_is_refused_or_changes_numbers_and_never_ends_the_process() -> None:
    block = holder().encrypted(torch.ones(5))[0]
    rng = torch.Generator().manual_seed(2)
    outcomes: set[int | str] = set()
    for _ in range(60):
        bad = block.clone()
        bad[4 + int(torch.randint(200, (1,), generator=rng))] ^= 1 << int(torch.randint(8, (1,), generator=rng))
        try:
            outcomes.add(len(loaded(bad[None])))
        except Damaged:
            outcomes.add("refused")
    assert "refused" in outcomes
