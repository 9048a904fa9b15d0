"""Who takes part: exact counts, uniform over clients, by the clients' keys and not by their places."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import silos

from amity.config.participation import Participation
from amity.contract import Federation, InputError
from amity.federation.participation import draw, epochs_of
from amity.federation.plan import federation_of
from amity.learn.streams import key_of

shares = st.floats(0.01, 1.0)
drops = st.floats(0.0, 1.0, exclude_max=True)


def federation(clients: int, seed: int = 1) -> Federation:
    keys = torch.tensor([key_of(f"silo {i}") for i in range(clients)])
    return Federation(torch.full((clients,), 9), keys, None, 10, seed)


def nearest(value: float) -> int:
    """To the nearest whole number, halves upwards."""
    return math.floor(value + 0.5)


@given(
    clients=st.integers(1, 40),
    share=shares,
    drop=drops,
    round=st.integers(1, 9),
    phase=st.sampled_from(["before", "after"]),
)
def test_counts_follow_the_rule(clients: int, share: float, drop: float, round: int, phase: str) -> None:
    """max(1, round(C m)) are sampled, round(rho * count) of them drop, at least one is kept."""
    lot = draw(Participation(participation=share, drop=drop, drop_phase=phase), federation(clients), round)  # type: ignore[arg-type]
    sampled = max(1, nearest(share * clients))
    gone = min(sampled - 1, nearest(drop * sampled))
    asked = lot.asked.tolist()
    assert asked == sorted(set(asked)) and set(asked) <= set(range(clients))
    assert len(lot.dropped) == gone
    if phase == "before":
        assert len(asked) == sampled - gone >= 1
        assert not set(asked) & set(lot.dropped) and lot.lost == frozenset()
        assert set(lot.dropped.values()) <= {"dropped before training"}
    else:
        assert len(asked) == sampled and sampled - len(lot.lost) >= 1
        assert lot.lost == set(lot.dropped) <= set(asked)
        assert set(lot.dropped.values()) <= {"upload lost after training"}


@pytest.mark.parametrize(
    ("clients", "share", "drop", "asked", "gone"),
    [(10, 1.0, 0.3, 7, 3), (10, 0.5, 0.5, 2, 3), (10, 0.01, 0.9, 1, 0), (5, 0.3, 0.3, 1, 1), (3, 1.0, 0.9, 1, 2)],
)
def test_counts_by_hand(clients: int, share: float, drop: float, asked: int, gone: int) -> None:
    """Halves are rounded up: 2.5 of 5 drop as 3, 1.5 of 5 sampled as 2."""
    lot = draw(Participation(participation=share, drop=drop), federation(clients), 1)
    assert (len(lot.asked), len(lot.dropped)) == (asked, gone)


@given(clients=st.integers(2, 12), share=shares, drop=drops, chance=st.randoms(use_true_random=False))
def test_com_1_relabelling_permutes_the_lot(clients: int, share: float, drop: float, chance: object) -> None:
    order = list(range(clients))
    chance.shuffle(order)  # type: ignore[attr-defined]
    fed = federation(clients)
    rule = Participation(participation=share, drop=drop, local_epochs_range=(1, 9))
    one, other = draw(rule, fed, 3), draw(rule, fed._replace(keys=fed.keys[order]), 3)
    assert sorted(order[i] for i in other.asked.tolist()) == one.asked.tolist()
    assert {order[i]: why for i, why in other.dropped.items()} == one.dropped
    moved = fed._replace(keys=fed.keys[order])
    assert [epochs_of(rule, moved, i, 3) for i in range(clients)] == [epochs_of(rule, fed, i, 3) for i in order]


def test_all_clients_are_drawn_alike() -> None:
    """2000 rounds of 3 out of 10, of which one drops: 600 and 200 expected, six standard deviations allowed."""
    fed, rule = federation(10), Participation(participation=0.3, drop=0.3)
    sampled: Counter[int] = Counter()
    gone: Counter[int] = Counter()
    for round in range(1, 2001):
        lot = draw(rule, fed, round)
        sampled.update([*lot.asked.tolist(), *lot.dropped])
        gone.update(list(lot.dropped))
    assert all(abs(sampled[i] - 600) < 6 * math.sqrt(2000 * 0.3 * 0.7) for i in range(10))
    assert all(abs(gone[i] - 200) < 6 * math.sqrt(2000 * 0.1 * 0.9) for i in range(10))


def test_the_lot_is_redrawn_every_round_and_follows_the_seed() -> None:
    rule = Participation(participation=0.5)
    lots = [tuple(draw(rule, federation(10), round).asked.tolist()) for round in range(1, 9)]
    assert len(set(lots)) > 4
    assert lots == [tuple(draw(rule, federation(10), round).asked.tolist()) for round in range(1, 9)]
    assert lots != [tuple(draw(rule, federation(10, seed=2), round).asked.tolist()) for round in range(1, 9)]


def test_the_same_clients_drop_before_and_after() -> None:
    """So that the two phases are compared on equal lots."""
    fed = federation(10)
    before, after = (draw(Participation(drop=0.4, drop_phase=phase), fed, 2) for phase in ("before", "after"))
    assert set(before.dropped) == set(after.dropped) == after.lost


def test_epochs_are_one_number_or_drawn_from_a_range() -> None:
    fed = federation_of(silos(), 5, 1)
    assert {epochs_of(Participation(epochs=4), fed, i, 1) for i in range(5)} == {4}
    wide = Participation(local_epochs_range=(1, 9))
    drawn = Counter(epochs_of(wide, fed, i, round) for i in range(5) for round in range(1, 101))
    assert set(drawn) == set(range(1, 10))  # both ends are reached
    assert max(drawn.values()) < 3 * min(drawn.values())
    assert {epochs_of(Participation(local_epochs_range=(3, 3)), fed, i, 2) for i in range(5)} == {3}
    first, second = ([epochs_of(wide, fed, i, round) for i in range(5)] for round in (1, 2))
    assert first != second


@pytest.mark.parametrize(
    "values",
    [
        {"participation": 0.0},
        {"participation": 1.1},
        {"drop": -0.1},
        {"drop": 1.1},
        {"drop_phase": "during"},
        {"epochs": 0},
    ],
)
def test_values_outside_their_range_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(values))):
        Participation(**values)  # type: ignore[arg-type]
