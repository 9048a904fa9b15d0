"""FedAMP's tables for EMNIST and CIFAR-100, on labels alone. Counts come from the paper (methods.md, 5.3)."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from data.sources import Loaded, Numbered
from torch import Tensor

from amity.contract import InputError, Split
from amity.data import Silos, Source, deal

SUPERCLASS = tuple(torch.randperm(100, generator=torch.Generator().manual_seed(0)).remainder(20).tolist())


@pytest.fixture
def cifar100(numbered: Numbered) -> Callable[[int], Source]:
    """`per_class` training examples of each of 100 classes in 20 superclasses of 5."""
    return lambda per_class: replace(numbered([per_class] * 100, [100] * 100, "cifar100"), superclass=SUPERCLASS)


def counts(split: Split, classes: int) -> Tensor:
    return split.y.bincount(minlength=classes)


def check(silos: Silos, classes_of: list[list[int]], sizes: list[int], tests: int = 100) -> None:
    """80 % of each silo's examples are of its group's classes, as even as can be, and so are the others."""
    for silo, size in zip(silos.silos, sizes, strict=True):
        own = torch.zeros(silos.classes, dtype=torch.bool)
        assert silo.group is not None
        own[classes_of[silo.group]] = True
        for split, total in ((silo.train, size), (silo.test, tests)):
            found = counts(split, silos.classes)
            assert found.sum() == total and found[own].sum() == round(0.8 * total)
            for part in (found[own], found[~own]):
                assert part.max() - part.min() <= 1


def test_emnist(numbered: Numbered) -> None:
    silos = deal(numbered([1300] * 62, [120] * 62, "emnist"), "practical", 62, seed=0)
    assert [silo.group for silo in silos.silos] == [0] * 10 + [1] * 26 + [2] * 26
    check(silos, [list(range(10)), list(range(10, 36)), list(range(36, 62))], [1000] * 10 + [700] * 26 + [400] * 26)
    assert sum(silos.sizes) == 38_600 and silos.notes == ()


@pytest.mark.parametrize("seed", range(3))
def test_where_classes_run_out_a_groups_silos_stay_alike_and_test_parts_follow_training_parts(
    numbered: Numbered, seed: int
) -> None:
    """Half of the letters have too few for the counts, as in the pack of the official test part."""
    stock = [1062] * 10 + [270, 1062] * 26
    silos = deal(numbered(stock, [120] * 62, "emnist"), "practical", 62, seed)
    assert silos.sizes == (1000,) * 10 + (700,) * 26 + (400,) * 26
    assert any("26 classes ran out of training examples" in note for note in silos.notes)
    train, test = (
        torch.stack([counts(part, 62) for part in parts]).double()
        for parts in ([silo.train for silo in silos.silos], [silo.test for silo in silos.silos])
    )
    assert (train.sum(0) <= torch.tensor(stock)).all()
    groups = torch.tensor([silo.group for silo in silos.silos])
    for group in range(3):
        of_group = train[groups == group]
        rounding = 2 * 62 / 2 / of_group[0].sum()  # a whole example or two for each class
        assert ((of_group - of_group[0]).abs().sum(1) / 2 / of_group[0].sum() <= rounding).all()
    shares = 100 * train / train.sum(1, keepdim=True)
    assert ((test - shares).abs() < 1).all() and (test[train == 0] == 0).all()
    dominating = [slice(0, 10), slice(10, 36), slice(36, 62)]
    assert all(row[dominating[group]].sum() == 80 for row, group in zip(test, groups.tolist(), strict=True))


def test_where_classes_run_out_every_class_is_tested_as_often_as_it_is_trained_on(numbered: Numbered) -> None:
    """A silo's 20 test examples of 52 other classes leave most of them out; which ones must be chance."""
    source = numbered([1062] * 10 + [270, 1062] * 26, [120] * 62, "emnist")
    off = []  # [silos of all seeds, classes]
    for seed in range(20):
        for silo in deal(source, "practical", 62, seed).silos[:10]:  # the digits' group
            train, test = counts(silo.train, 62), counts(silo.test, 62)
            off.append(test - 100 * train / train.sum())
    assert torch.stack(off).mean(0).abs().max() < 0.15  # four standard deviations of a mean over 200 silos


@pytest.mark.parametrize(("clients", "sizes"), [(31, [5, 13, 13]), (3, [1, 1, 1]), (10, [2, 4, 4])])
def test_emnist_groups_keep_their_proportion(numbered: Numbered, clients: int, sizes: list[int]) -> None:
    silos = deal(numbered([1300] * 62, [120] * 62, "emnist"), "practical", clients, seed=0)
    assert [[silo.group for silo in silos.silos].count(group) for group in range(3)] == sizes


def test_cifar100(cifar100: Callable[[int], Source]) -> None:
    silos = deal(cifar100(500), "practical", 100, seed=0)
    assert [silo.group for silo in silos.silos] == [i // 5 for i in range(100)]
    members = [[label for label in range(100) if SUPERCLASS[label] == group] for group in range(20)]
    check(silos, members, [count for count in (500, 400, 300, 200, 100) for _ in range(20)])
    assert sum(silos.sizes) == 30_000 and silos.notes == ()


def test_cifar100_in_part_has_three_quarters_of_the_counts_and_says_so(cifar100: Callable[[int], Source]) -> None:
    """350 of 500 per class: superclasses of the first groups would be asked for 2289 of 1750."""
    silos = deal(cifar100(350), "practical", 100, seed=0)
    assert silos.sizes == tuple(count for count in (375, 300, 225, 150, 75) for _ in range(20))
    assert any("0.75" in note and "the paper's counts" in note for note in silos.notes)
    for silo in silos.silos:
        own = [label for label in range(100) if SUPERCLASS[label] == silo.group]
        assert counts(silo.train, 100)[own].sum() == round(0.8 * len(silo.train.y))
    few = deal(cifar100(350), "practical", 20, seed=0)  # fewer silos can have all
    assert few.sizes[0] == 500 and few.notes == ()
    with pytest.raises(InputError, match="cifar100 serves at most 100 clients, got 101"):
        deal(cifar100(350), "practical", 101, seed=0)


def test_other_data_with_superclasses_are_grouped_by_them(numbered: Numbered) -> None:
    source = replace(numbered([90] * 5, [30] * 5), superclass=(7, 3, 7, 3, 7))
    silos = deal(source, "practical", 4, seed=0)
    assert [silo.group for silo in silos.silos] == [0, 0, 1, 1]
    assert silos.sizes[0] == 2 * silos.sizes[3]
    for silo in silos.silos:
        assert silo.group is not None
        own = [[1, 3], [0, 2, 4]][silo.group]
        assert counts(silo.train, 5)[own].sum() == round(0.8 * len(silo.train.y))
    with pytest.raises(InputError, match="2 superclasses or more"):
        deal(replace(source, superclass=(1,) * 5), "practical", 4, seed=0)


@pytest.mark.parametrize("seed", range(3))
def test_random_draws_have_the_same_parts_and_uneven_classes(numbered: Numbered, seed: int) -> None:
    source = numbered([6000] * 10, [1000] * 10, "mnist")
    quota, drawn = (deal(source, f"practical:draw={draw}", 100, seed) for draw in ("quota", "random"))
    assert drawn.sizes == quota.sizes and drawn.notes == ()
    spread = []
    for silo in drawn.silos:
        found = counts(silo.train, 10)
        own = torch.arange(10) // 2 == silo.group
        assert found[own].sum() == round(0.8 * len(silo.train.y)) and counts(silo.test, 10)[own].sum() == 80
        spread.append((found[own][0] - found[own][1]).square() / found[own].sum())
    assert 0.4 < torch.stack(spread).mean() < 2  # 1 in the mean, for a fair coin


def test_random_draws_that_outrun_the_data_are_noted(numbered: Numbered) -> None:
    notes: list[str] = []
    for seed in range(10):
        silos = deal(numbered([40] * 6, [40] * 6), "practical:draw=random", 6, seed)
        assert all(len(silo.train.y) for silo in silos.silos)
        taken = torch.stack([counts(silo.train, 6) for silo in silos.silos])
        assert (taken.sum(0) <= 40).all()
        notes += silos.notes
    assert any("ran out of training examples" in note for note in notes)


@pytest.mark.parametrize("clients", [1, 4, 30])
def test_mcmahans_shards_are_two_equal_pieces_of_the_sorted_data(loaded: Loaded, clients: int) -> None:
    source = loaded("digits")
    silos = deal(source, "pathological:scheme=shards", clients, seed=0)
    assert sum(silos.sizes) == len(source.train.y) and max(silos.sizes) - min(silos.sizes) <= 2
    assert sum(len(silo.test.y) for silo in silos.silos) == len(source.test.y)
    shard = len(source.train.y) // (2 * clients)
    for silo in silos.silos:
        found = counts(silo.train, 10)
        if clients == 30:  # 20 or 21 examples of about 126 per class: a shard has one class or straddles two
            assert (found > 0).sum() <= 4 and found.max() >= shard // 2
        assert (counts(silo.test, 10)[found == 0] == 0).all()
    with pytest.raises(InputError, match="pathological on digits serves at most 539 clients, got 540"):
        deal(source, "pathological:scheme=shards", 540, seed=0)
    assert len(deal(source, "pathological:scheme=shards", 539, seed=0).silos) == 539
