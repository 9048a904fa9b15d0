"""How data fall to silos. Counts come from the paper's table, never from a run of this code."""

from dataclasses import replace

import pytest
import torch
from data.sources import Loaded, Numbered
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

from amity.contract import InputError, Silo, Split
from amity.data import SETTINGS, Silos, Source, deal
from amity.data.settings.registry import resolve
from amity.data.source import NaturalSilo

ENOUGH = {"shards": 7}  # silos that a small data set can serve, where it is fewer than others can
PAPER = {"mnist": (500, 400, 300, 200, 100), "fmnist": (600, 500, 400, 300, 200)}  # methods.md, table 5.3


DEALT = [name for name in SETTINGS if name != "natural"]  # natural silos are taken as they are


def counts(split: Split, classes: int = 10) -> Tensor:
    return split.y.bincount(minlength=classes)


def pair_of(silo: Silo) -> list[int]:
    """The classes of which its group has most."""
    assert silo.group is not None
    return [2 * silo.group, 2 * silo.group + 1]


def positions(silos: Silos, part: str) -> list[list[int]]:
    """Which examples of a `numbered` data set each silo holds."""
    return [getattr(silo, part).x.flatten().long().tolist() for silo in silos.silos]


@pytest.mark.parametrize("clients", [20, 100])
@pytest.mark.parametrize("name", PAPER)
def test_practical_has_the_counts_of_the_paper(loaded: Loaded, name: str, clients: int) -> None:
    silos = deal(loaded(name), "practical", clients, seed=0)
    per_group = clients // 5
    for i, silo in enumerate(silos.silos):
        group = i // per_group
        dominating = [2 * group, 2 * group + 1]
        others = [label for label in range(10) if label not in dominating]
        assert silo.group == group
        for split, total in ((silo.train, PAPER[name][group]), (silo.test, 100)):
            found = counts(split)
            assert found.sum() == total
            assert found[dominating].tolist() == [total * 4 // 10] * 2
            assert found[others].max() - found[others].min() <= 1  # as evenly as possible
    assert silos.notes == ()


def traceable(source: Source) -> Source:
    """The same labels, with examples that carry their position."""
    train, test = (
        s._replace(x=torch.arange(len(s.y), dtype=torch.float32).unsqueeze(1)) for s in (source.train, source.test)
    )
    return Source(source.name, train, test, source.classes)


@pytest.mark.parametrize("setting", DEALT)
@pytest.mark.parametrize("name", ["digits", "synthetic", "mnist", "fmnist"])
def test_training_parts_are_disjoint_and_no_silo_has_an_example_twice(loaded: Loaded, name: str, setting: str) -> None:
    silos = deal(traceable(loaded(name)), setting, ENOUGH.get(setting, 20), seed=3)
    train = [p for silo in positions(silos, "train") for p in silo]
    assert len(train) == len(set(train))
    tests = positions(silos, "test")
    assert all(len(part) == len(set(part)) for part in tests)
    if setting != "practical":
        together = [p for part in tests for p in part]
        assert len(together) == len(set(together))


@pytest.mark.parametrize("setting", DEALT)
def test_examples_keep_their_labels(loaded: Loaded, setting: str) -> None:
    source = loaded("digits")
    for silo in deal(traceable(source), setting, 7, seed=0).silos:
        for split, whole in ((silo.train, source.train), (silo.test, source.test)):
            assert torch.equal(whole.y[split.x.flatten().long()], split.y)


@pytest.mark.parametrize("setting", DEALT)
def test_the_seed_decides_and_nothing_else(loaded: Loaded, setting: str) -> None:
    source = loaded("digits")
    torch.manual_seed(1)
    clients = ENOUGH.get(setting, 10)
    first = deal(source, setting, clients, seed=5).manifest()
    torch.manual_seed(2)
    assert deal(source, setting, clients, seed=5).manifest() == first
    assert deal(source, setting, clients, seed=6).manifest()["sha256"] != first["sha256"]


def test_practical_on_digits_keeps_the_shape(loaded: Loaded) -> None:
    silos = deal(loaded("digits"), "practical", 20, seed=0)
    unit = silos.sizes[-1]
    assert silos.sizes == tuple(unit * weight for weight in (5, 4, 3, 2, 1) for _ in range(4))
    assert 50 <= silos.sizes[0] <= 70
    # The two classes that group 0 asks most of set the scale; a step more is too many, up to one lost to rounding.
    scarce = counts(loaded("digits").train)[:2].sum()
    assert (0.8 * 20 + 0.2 * 40 / 4) * (unit + 2) > scarce
    for silo in silos.silos:
        size = len(silo.train.y)
        dominating = counts(silo.train)[pair_of(silo)].sum()
        assert dominating == round(0.8 * size)
    assert all(len(silo.test.y) >= 20 for silo in silos.silos)


def test_sizes_do_not_depend_on_the_seed(loaded: Loaded) -> None:
    sizes = {deal(loaded("digits"), "practical", 12, seed).sizes for seed in range(5)}
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("clients", "groups"),
    [(1, [0]), (3, [0, 1, 2]), (7, [0, 0, 1, 1, 2, 3, 4]), (12, [0] * 3 + [1] * 3 + [2] * 2 + [3] * 2 + [4] * 2)],
)
def test_groups_are_consecutive_and_as_equal_as_possible(loaded: Loaded, clients: int, groups: list[int]) -> None:
    silos = deal(loaded("synthetic"), "practical", clients, seed=0)
    assert [silo.group for silo in silos.silos] == groups
    assert any("groups" in note for note in silos.notes) == (clients < 5)


def test_a_class_that_runs_out_is_replaced_by_its_pair_and_noted(numbered: Numbered) -> None:
    source = numbered([20, 300] + [300] * 8, [200] * 10)
    silos = deal(source, "practical", 10, seed=0)
    train = torch.stack([counts(silo.train) for silo in silos.silos])
    assert train[:, 0].sum() == 20  # all there are
    for silo, size in zip(silos.silos, silos.sizes, strict=True):
        assert counts(silo.train)[pair_of(silo)].sum() == round(0.8 * size)
    assert any(note.startswith("class 0 ran out of training examples: class 1 gave") for note in silos.notes)
    assert not any("test" in note for note in silos.notes)


def test_practical_takes_any_even_number_of_classes(numbered: Numbered) -> None:
    silos = deal(numbered([50] * 4, [20] * 4), "practical", 4, seed=0)
    assert [silo.group for silo in silos.silos] == [0, 0, 1, 1]
    assert silos.sizes[0] == silos.sizes[1] == 2 * silos.sizes[2] == 2 * silos.sizes[3]


@pytest.mark.parametrize("clients", [1, 3, 7, 10, 45])
def test_pathological_gives_two_classes_and_uses_each_equally(loaded: Loaded, clients: int) -> None:
    silos = deal(traceable(loaded("digits")), "pathological", clients, seed=0)
    held = torch.stack([counts(silo.train) > 0 for silo in silos.silos])  # [m, classes]
    assert (held.sum(1) == 2).all()
    assert held.sum(0).max() - held.sum(0).min() <= 1
    groups: dict[int | None, set[tuple[bool, ...]]] = {}
    for silo, row in zip(silos.silos, held, strict=True):
        assert torch.equal(counts(silo.test) > 0, row)  # test as train
        groups.setdefault(silo.group, set()).add(tuple(row.tolist()))
    assert all(len(pairs) == 1 for pairs in groups.values())
    assert len(set.union(*groups.values())) == len(groups)
    if clients >= 5:  # every class has a holder: nothing is left over
        assert sum(silos.sizes) == len(loaded("digits").train.y)


@hypothesis_settings(max_examples=40)
@given(clients=st.integers(1, 40), classes=st.integers(2, 12), seed=st.integers(0, 2**31))
def test_pathological_pairs_always_differ(numbered: Numbered, clients: int, classes: int, seed: int) -> None:
    silos = deal(numbered([100] * classes, [80] * classes), "pathological", clients, seed)
    assert all((counts(silo.train, classes) > 0).sum() == 2 for silo in silos.silos)


few = st.tuples(st.integers(0, 60), st.integers(0, 30))  # of a class: most settings cannot serve many silos
more = st.tuples(st.integers(40, 160), st.integers(40, 80))


@hypothesis_settings(max_examples=80)
@given(
    stock=st.lists(few, min_size=4, max_size=8) | st.lists(more, min_size=4, max_size=8),
    clients=st.integers(1, 30),
    setting=st.sampled_from(sorted(DEALT)),
    seed=st.integers(0, 2**31),
)
def test_whatever_the_data_silos_are_served_in_full_or_refused_in_one_line(
    numbered: Numbered, stock: list[tuple[int, int]], clients: int, setting: str, seed: int
) -> None:
    train, test = (list(part) for part in zip(*stock, strict=True))
    source = numbered(train, test)
    try:
        silos = deal(source, setting, clients, seed)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert len(silos.silos) == clients
    used = [p for part in positions(silos, "train") for p in part]
    assert len(used) == len(set(used))
    for silo, tested in zip(silos.silos, positions(silos, "test"), strict=True):
        assert len(silo.train.y) > 0 and len(tested) == len(set(tested)) > 0
        if setting == "practical":
            for split in (silo.train, silo.test):
                assert counts(split, source.classes)[pair_of(silo)].sum() == round(0.8 * len(split.y))


def test_iid_parts_are_equal_up_to_one_and_use_everything(loaded: Loaded) -> None:
    silos = deal(loaded("digits"), "iid", 11, seed=0)
    assert sum(silos.sizes) == len(loaded("digits").train.y)
    assert max(silos.sizes) - min(silos.sizes) <= 1
    assert {silo.group for silo in silos.silos} == {0}


@pytest.mark.parametrize(("clients", "first", "last"), [(3, "silo-00", "silo-02"), (101, "silo-000", "silo-100")])
def test_names_have_equal_width(loaded: Loaded, clients: int, first: str, last: str) -> None:
    names = [silo.name for silo in deal(loaded("synthetic"), "iid", clients, seed=0).silos]
    assert (names[0], names[-1]) == (first, last) and names == sorted(names)


@pytest.mark.parametrize("setting", [name for name in DEALT if name != "pathological-apple"])
def test_too_many_clients_are_told_how_many_can_be_served(loaded: Loaded, setting: str) -> None:
    source = loaded("digits")
    with pytest.raises(InputError, match=rf"{setting} on digits serves at most \d+ clients, got 1000000000000"):
        deal(source, setting, 10**12, seed=0)
    with pytest.raises(InputError, match="at most ") as caught:
        deal(source, setting, 5000, seed=0)
    most = int(str(caught.value).split("at most ")[1].split()[0])
    assert len(deal(source, setting, most, seed=0).silos) == most
    with pytest.raises(InputError):
        deal(source, setting, most + 1, seed=0)


@pytest.mark.parametrize(
    ("setting", "classes", "rule"), [("practical", 5, "even"), ("practical", 2, "4 or more"), ("pathological", 1, "2")]
)
def test_classes_that_a_setting_cannot_use(numbered: Numbered, setting: str, classes: int, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        deal(numbered([50] * classes, [50] * classes), setting, 2, seed=0)


def test_test_data_that_cannot_serve(numbered: Numbered) -> None:
    with pytest.raises(InputError, match="test examples"):
        deal(numbered([50] * 4, [0, 0, 9, 9]), "practical", 4, seed=0)
    with pytest.raises(InputError, match="mnist serves 75"):
        deal(numbered([6000] * 10, [30] * 10, name="mnist"), "practical", 100, seed=0)


@pytest.mark.parametrize("clients", [0, -3])
def test_a_federation_needs_a_client(loaded: Loaded, clients: int) -> None:
    with pytest.raises(InputError, match=f"at least 1 client, got {clients}"):
        deal(loaded("synthetic"), "iid", clients, seed=0)


def test_an_unknown_setting_gets_the_nearest(loaded: Loaded) -> None:
    with pytest.raises(InputError, match="unknown setting 'practicle': did you mean practical"):
        deal(loaded("synthetic"), "practicle", 3, seed=0)


def natural(numbered: Numbered) -> Source:
    """Two silos of 3 + 2 and 1 + 4 examples."""
    return replace(
        numbered([2, 2], [3, 3]), silos=(NaturalSilo("north", 3, 2), NaturalSilo("south", 1, 4)), notes=("as found",)
    )


@pytest.mark.parametrize("clients", [2, None])
def test_natural_silos_are_taken_as_they_are(numbered: Numbered, clients: int | None) -> None:
    silos = deal(natural(numbered), "natural", clients, seed=0)
    assert [(silo.name, silo.group) for silo in silos.silos] == [("north", None), ("south", None)]
    assert positions(silos, "train") == [[0, 1, 2], [3]]
    assert positions(silos, "test") == [[0, 1], [2, 3, 4, 5]]
    assert silos.notes == ("as found",)
    assert deal(natural(numbered), "natural", clients, seed=1).sha256 == silos.sha256


def test_natural_refuses_another_number_of_silos_and_data_without_any(numbered: Numbered) -> None:
    with pytest.raises(InputError, match="natural on own has 2 silos, got 3 clients: leave --clients out"):
        deal(natural(numbered), "natural", 3, seed=0)
    with pytest.raises(InputError, match="data that come as silos, own does not"):
        deal(numbered([9, 9], [9, 9]), "natural", None, seed=0)


def test_natural_silos_can_be_dealt_otherwise(numbered: Numbered) -> None:
    silos = deal(natural(numbered), "iid", 4, seed=0)
    assert sorted(p for part in positions(silos, "train") for p in part) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("data", "setting"), [("heart", "natural"), ("folder:a/b", "natural"), ("mnist", "practical"), ("own", "practical")]
)
def test_auto_means_natural_silos_where_there_are_any(data: str, setting: str) -> None:
    assert resolve("auto", data) == setting
    assert resolve("iid", data) == "iid"


def test_twenty_silos_where_nobody_says_how_many(loaded: Loaded) -> None:
    assert len(deal(loaded("synthetic"), "auto", None, seed=0).silos) == 20
