"""APPLE's settings: shares, and counts that are cut down to whole numbers."""

import pytest
import torch
from data.sources import Numbered
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

from amity.contract import InputError
from amity.data import Silos, deal


def held(silos: Silos, part: str = "train") -> Tensor:
    """Counts per silo and class.  # [m, classes]"""
    return torch.stack([getattr(silo, part).y.bincount(minlength=silos.classes) for silo in silos.silos])


@hypothesis_settings(max_examples=30)
@given(
    stock=st.lists(st.tuples(st.integers(100, 400), st.integers(100, 200)), min_size=2, max_size=11),
    seed=st.integers(0, 2**31),
)
def test_shards_are_80_10_and_ten_times_1_percent_of_every_class(
    numbered: Numbered, stock: list[tuple[int, int]], seed: int
) -> None:
    train, test = (list(part) for part in zip(*stock, strict=True))
    silos = deal(numbered(train, test), "shards", None, seed)
    for part, sizes in (("train", train), ("test", test)):
        counts = held(silos, part)
        assert (counts > 0).all()  # every silo has every class, where a class has 100
        for label, size in enumerate(sizes):
            expected = [size * 80 // 100, size * 10 // 100] + [size // 100] * 10
            assert sorted(counts[:, label].tolist(), reverse=True) == expected
    assert torch.equal(held(silos).argmax(0), held(silos, "test").argmax(0))  # one matrix for both


def test_the_large_shares_fall_to_anybody(numbered: Numbered) -> None:
    source = numbered([100] * 6, [100] * 6)
    owners = torch.stack([held(deal(source, "shards", None, seed)).argmax(0) for seed in range(40)])
    assert len(owners.unique()) == 12  # 240 draws
    assert (owners[:, :1] != owners).any()  # drawn anew for each class


@pytest.mark.parametrize("clients", [3, 4, 7, 20])
def test_shards_for_other_numbers_of_silos_share_the_last_tenth(numbered: Numbered, clients: int) -> None:
    silos = deal(numbered([3600] * 3, [3600] * 3), "shards", clients, seed=0)
    small = 360 // (clients - 2)
    assert sorted(held(silos)[:, 0].tolist(), reverse=True) == [2880, 360] + [small] * (clients - 2)


def test_shards_refuse_what_they_cannot_serve(numbered: Numbered) -> None:
    source = numbered([120] * 3, [60] * 3)
    with pytest.raises(InputError, match="shards on own serves at most 8 clients, got 12"):
        deal(source, "shards", None, seed=0)
    assert len(deal(source, "shards", 8, seed=0).silos) == 8
    with pytest.raises(InputError, match="at least 3 clients, got 2"):
        deal(source, "shards", 2, seed=0)
    with pytest.raises(InputError, match="serves no silo at all"):
        deal(numbered([9] * 3, [9] * 3), "shards", 3, seed=0)


@hypothesis_settings(max_examples=40)
@given(
    classes=st.integers(2, 13),
    clients=st.integers(1, 30),
    share=st.sampled_from(["normalised", "free"]),
    seed=st.integers(0, 2**31),
)
def test_pairs_have_two_classes_each_used_equally_often(
    numbered: Numbered, classes: int, clients: int, share: str, seed: int
) -> None:
    train, test = [500 + label for label in range(classes)], [90 + label for label in range(classes)]
    try:
        silos = deal(numbered(train, test), f"pathological-apple:share={share}", clients, seed)
    except InputError as error:  # the last of many holders finds nothing left
        assert share == "free" and clients > 2 * classes and "lower --clients" in str(error)
        return
    groups = torch.tensor([silo.group for silo in silos.silos])
    counts, tested = held(silos), held(silos, "test")
    assert (counts > 0).sum(1).max() <= 2
    for label in range(classes):
        total = int(counts[:, label].sum())
        holders = int((counts[:, label] > 0).sum())
        assert holders <= -(-2 * clients // classes)
        assert total <= train[label]
        if share == "normalised" and 2 * clients >= classes:
            assert train[label] - total <= -(-2 * clients // classes)  # less than one for each holder is lost
    # One share for both sides: it must lie where both counts can come from.
    low = torch.maximum(counts / torch.tensor(train), tested / torch.tensor(test))
    high = torch.minimum((counts + 1) / torch.tensor(train), (tested + 1) / torch.tensor(test))
    assert (low < high).all()
    for group in groups.unique():
        assert len((counts[groups == group] > 0).any(0).nonzero()) <= 2


def test_free_shares_leave_some_of_a_class_to_nobody(numbered: Numbered) -> None:
    source = numbered([1000] * 10, [200] * 10)
    used = {
        share: sum(deal(source, f"pathological-apple:share={share}", None, seed=0).sizes)
        for share in ("normalised", "free")
    }
    assert used["free"] < 0.95 * 10_000 < 10_000 - 24 <= used["normalised"]


def test_a_pair_of_one_class_only_if_that_is_allowed(numbered: Numbered) -> None:
    source = numbered([1000] * 3, [200] * 3)

    def groups(allow: str, seed: int) -> int:
        silos = deal(source, f"pathological-apple:allow_duplicate={allow}", 12, seed)
        return len({silo.group for silo in silos.silos})

    # Three classes make three pairs; every second of the orders straddles, and then one in three begins alike.
    assert max(groups("false", seed) for seed in range(20)) == 3
    assert max(groups("true", seed) for seed in range(20)) > 3


def test_pairs_refuse_what_they_cannot_serve(numbered: Numbered) -> None:
    with pytest.raises(InputError, match="2 classes or more, own has 1"):
        deal(numbered([50], [50]), "pathological-apple", 2, seed=0)
    with pytest.raises(InputError, match="pathological-apple on own serves at most 30 clients, got 31"):
        deal(numbered([50] * 3, [10] * 3), "pathological-apple", 31, seed=0)
    with pytest.raises(InputError, match="without examples in 100 draws of the shares: lower --clients, got 30"):
        deal(numbered([50] * 3, [10] * 3), "pathological-apple", 30, seed=0)
