"""Random streams depend on what they are for, and draws over clients on the clients' keys."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st

from amity.streams import key_of, shuffled, stream, uniforms

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
