"""Random streams depend on what they are for, and draws over clients on the clients' keys."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from amity.learn.streams import key_of, order, orders, seed_of, shuffled, stream, uniforms

names = st.lists(st.text(max_size=8), min_size=1, max_size=8, unique=True)


def first(*key: object) -> float:
    return torch.rand((), generator=stream(*key), dtype=torch.float64).item()  # type: ignore[arg-type]


def test_equal_keys_give_equal_streams() -> None:
    assert torch.equal(
        torch.rand(9, generator=stream(1, "train", 2, 3, 4)), torch.rand(9, generator=stream(1, "train", 2, 3, 4))
    )


def test_every_part_of_the_key_matters() -> None:
    keys = itertools.product((0, 1), ("train", "drop"), (0, 7), (0, 1), (0, 1))
    drawn = [first(*key) for key in keys]
    assert len(set(drawn)) == 32


def test_parts_do_not_run_into_each_other() -> None:
    assert first(1, "a", 12, 3) != first(1, "a", 1, 23)
    assert first(1, "a", 1, 11, 1) != first(1, "a", 11, 1, 1)


def test_the_process_wide_generator_has_no_part_in_it() -> None:
    torch.manual_seed(1)
    one = first(1, "train")
    state = torch.get_rng_state()
    assert first(1, "train") == one and torch.equal(torch.get_rng_state(), state)


@given(names)
def test_names_have_keys_of_their_own(names: list[str]) -> None:
    keys = [key_of(name) for name in names]
    assert len(set(keys)) == len(names)
    assert all(0 <= key < 2**63 for key in keys)
    assert torch.tensor(keys).tolist() == keys  # they fit an int64


@given(names, st.integers(0, 99), st.randoms(use_true_random=False))
def test_draws_follow_the_keys(names: list[str], seed: int, chance: object) -> None:
    """Clients in another order: every client draws the same number and stands at the same place in the shuffle."""
    keys = torch.tensor([key_of(name) for name in names])
    order = list(range(len(names)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    moved = keys[order]

    one, other = (shuffled(k, stream(seed, "order")) for k in (keys, moved))
    assert sorted(one.tolist()) == list(range(len(names)))
    assert keys[one].tolist() == moved[other].tolist()

    numbers, again = (uniforms(k, stream(seed, "luck")) for k in (keys, moved))
    assert numbers[order].tolist() == again.tolist()
    assert numbers.dtype == torch.float64 and ((numbers >= 0) & (numbers < 1)).all()


def test_shuffles_reach_every_order() -> None:
    keys = torch.tensor([30, 10, 20])
    seen = {tuple(shuffled(keys, stream(seed, "order")).tolist()) for seed in range(60)}
    assert seen == set(itertools.permutations(range(3)))


def test_equal_keys_keep_their_order_in_the_draw() -> None:
    """Twins: the draw is defined though their keys tie."""
    keys = torch.tensor([5, 5, 5])
    assert shuffled(keys, stream(1, "x")).tolist() == shuffled(keys, stream(1, "x")).tolist()
    assert len(set(uniforms(keys, stream(1, "x")).tolist())) == 3


seeds = st.integers(0, 2**63 - 1)


def as_published(seed: int, size: int) -> list[int]:
    """Positions by their numbers, those of SplitMix64 as its authors give it, in whole numbers of any length."""
    numbers, cut = [], 2**64 - 1
    for _ in range(size):
        seed = (seed + 0x9E3779B97F4A7C15) & cut
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & cut
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & cut
        numbers.append(z ^ (z >> 31))
    return sorted(range(size), key=numbers.__getitem__)


def test_orders_by_published_numbers() -> None:
    """Seed 1234567 gives 6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431 and
    16408922859458223821."""
    assert order(1234567, 5).tolist() == [1, 3, 0, 2, 4]


@given(st.lists(seeds, max_size=5), st.integers(0, 40))
def test_orders_are_permutations_and_do_not_see_each_other(seeds: list[int], size: int) -> None:
    together = orders(seeds, size)
    assert together.shape == (len(seeds), size)
    for seed, one in zip(seeds, together.tolist(), strict=True):
        assert one == order(seed, size).tolist() == as_published(seed, size)
        assert sorted(one) == list(range(size))


@pytest.mark.parametrize("size", [0, 1, 2, 100_000])
def test_orders_of_any_size(size: int) -> None:
    found = order(seed_of(1, "train"), size)
    assert found.dtype == torch.int64 and torch.equal(found.sort().values, torch.arange(size))


def test_every_part_of_the_key_changes_the_order() -> None:
    keys = itertools.product((0, 1), ("train", "drop"), (0, 7), (0, 1), (0, 1))
    assert len({tuple(order(seed_of(*key), 30).tolist()) for key in keys}) == 32


def unlikely(counts: Counter[tuple[int, ...]], cells: int) -> bool:
    """Whether counts that should be equal differ as much as chance lets them once in a million."""
    mean = counts.total() / cells
    distance = sum((count - mean) ** 2 / mean for count in counts.values()) + mean * (cells - len(counts))
    return bool(distance > chi2.ppf(1 - 1e-6, cells - 1))


def test_all_orders_are_equally_likely() -> None:
    drawn = orders([seed_of(0, "train", key) for key in range(24_000)], 4)
    assert not unlikely(Counter(map(tuple, drawn.tolist())), math.factorial(4))


@pytest.mark.parametrize(
    "next_to", [lambda k: (0, "train", k + 1, 1, 1), lambda k: (0, "train", k, 2, 1), lambda k: (0, "train", k, 1, 2)]
)
def test_orders_of_the_next_client_round_and_epoch_are_independent(
    next_to: Callable[[int], tuple[int, str, int, int, int]],
) -> None:
    one, other = (
        orders([seed_of(*key) for key in keys], 3).tolist()
        for keys in ([(0, "train", k, 1, 1) for k in range(18_000)], map(next_to, range(18_000)))
    )
    pairs = Counter((*mine, *theirs) for mine, theirs in zip(one, other, strict=True))
    assert not unlikely(pairs, math.factorial(3) ** 2)


def test_places_in_a_longer_order_are_equally_likely() -> None:
    """The batch in which an example comes: 40 examples in batches of 10."""
    drawn = orders([seed_of(0, "train", key) for key in range(2_000)], 40)
    for example in range(40):
        assert not unlikely(Counter((int(at),) for at in (drawn == example).argmax(1) // 10), 4)
