"""A federation's data: validation parts, the manifest, and a user's own arrays."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from amity.contract import InputError, Silo, Split
from amity.data import Silos, own_silos
from amity.data.own.tensors import Array

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def arrays(n: int = 6, features: int = 3, classes: int = 2) -> Arrays:
    x = np.arange(n * features, dtype=np.float32).reshape(n, features)
    y = np.arange(n) % classes
    return x, y, x.copy(), y.copy()


def test_arrays_become_tensors() -> None:
    x, y, x_test, y_test = arrays()
    silos = own_silos({"north": (x, y, x_test, y_test), "south": (x.tolist(), y.tolist(), x_test, y_test)})
    assert (silos.classes, silos.shape, silos.sizes) == (2, (3,), (6, 6))
    assert (silos.data, silos.setting, silos.notes) == ("own", "own", ())
    north, south = silos.silos
    for silo in (north, south):
        assert silo.train.x.dtype == torch.float32 and silo.train.y.dtype == torch.int64
        assert silo.train.x.tolist() == x.tolist() and silo.test.y.tolist() == y_test.tolist()
    assert (north.name, north.val, north.group) == ("north", None, None)


def test_user_arrays_stay_their_own() -> None:
    x, y, x_test, y_test = arrays()
    x.flags.writeable = False
    silos = own_silos({"a": (x, y, x_test, y_test)})
    x_test[:] = 99
    assert silos.silos[0].test.x.max() < 99


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.uint8])
def test_accepted_features_are_kept_as_float32(dtype: type[np.generic]) -> None:
    x, y, *_ = arrays()
    silo = own_silos({"a": (x.astype(dtype), y, x.astype(dtype), y)}).silos[0]
    assert silo.train.x.dtype == torch.float32 and silo.train.x.tolist() == x.tolist()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64, bool])
def test_labels_of_any_whole_type(dtype: type[np.generic] | type[bool]) -> None:
    x, y, *_ = arrays()
    silo = own_silos({"a": (x, y.astype(dtype), x, y.astype(dtype))}).silos[0]
    assert silo.train.y.dtype == torch.int64 and silo.train.y.tolist() == y.tolist()


def test_silos_are_accepted_as_they_are() -> None:
    x, y = torch.randn(4, 2, requires_grad=True), torch.tensor([0, 1, 2, 0])
    silo = Silo("a", Split(x, y), Split(x, y), val=Split(x, y), group=3)
    made = own_silos([silo], classes=5, data="mine")
    assert (made.classes, made.data) == (5, "mine")
    assert made.silos[0].group == 3 and made.silos[0].val is not None
    assert not made.silos[0].train.x.requires_grad


def test_silos_may_hold_arrays() -> None:
    x, y, *_ = arrays()
    part = Split(x, y)  # type: ignore[arg-type]
    made = own_silos([Silo("a", part, part)]).silos[0]
    assert isinstance(made.train.x, torch.Tensor) and made.test.y.tolist() == y.tolist()


def spoilt(**changes: Any) -> dict[str, Any]:
    """The arrays of one silo with some replaced."""
    parts = dict(zip(("x", "y", "x_test", "y_test"), arrays(), strict=True)) | changes
    return {"good": arrays(), "bad": tuple(parts.values())}


X, Y = arrays()[:2]
NAN, FAR = X.copy(), X.astype(np.float64)
NAN[4, 1] = np.nan
FAR[2, 0] = 1e300  # finite in float64 only

VIOLATIONS = {
    "nan": (spoilt(x=NAN), "bad.*train: x must be finite.*row 4"),
    "overflow": (spoilt(x_test=FAR), "bad.*test: x must be finite.*row 2"),
    "int features": (spoilt(x=X.astype(np.int64)), "bad.*int64.*float32"),
    "flat features": (spoilt(x=X[:, 0]), r"bad.*shape \(6,\)"),
    "text": (spoilt(x=np.array([["a"]] * 6)), "bad.*numbers"),
    "objects": (spoilt(y=[None] * 6), "bad.*numbers"),
    "ragged": (spoilt(x=[[1.0], [1.0, 2.0]]), "bad.*numbers"),
    "float labels": (spoilt(y=Y.astype(np.float32)), "bad.*train: labels must be whole numbers, got float32"),
    "column labels": (spoilt(y=Y[:, None]), r"bad.*shape \(6, 1\)"),
    "negative labels": (spoilt(y_test=Y - 1), "bad.*test: labels must be >= 0, got -1"),
    "lengths": (spoilt(y=Y[:-1]), "bad.*train: needs one label per example, got 6 examples and 5 labels"),
    "empty train": (spoilt(x=X[:0], y=Y[:0]), "bad.*train: needs at least one example"),
    "empty test": (spoilt(x_test=X[:0], y_test=Y[:0]), "bad.*test: needs at least one example"),
    "shape": (spoilt(x_test=X[:, :2]), r"bad.*test.*\(3,\) of 'good', got \(2,\)"),
    "three arrays": ({"bad": arrays()[:3]}, "bad.*got 3 items"),
    "no tuple": ({"bad": X}, "bad.*got ndarray"),
    "nobody": ({}, "at least one silo"),
    "no silo": ([arrays()], "got tuple"),
    "name": ({"../up": arrays()}, "name.*'../up'"),
    "two lines": ({"a\nb": arrays()}, "name"),
    "no name": ({"": arrays()}, "name"),
    "number for a name": ({7: arrays()}, "name.*7"),
    "number for a name of two": ({7: arrays()[:2]}, "name.*7"),
    "nothing for a name": ({None: arrays()[:2]}, "name.*None"),
    "a mark for a name": ({"\u0301a": arrays()}, "name"),
    "a long name": ({"a" + "\u0301" * 100: arrays()}, "name"),
    "same name, composed": ({"Z\u00fcrich": arrays(), "Zu\u0308rich": arrays()}, "differ.*'Z\u00fcrich' 2 times"),
    "no features": (spoilt(x=X[:, :0]), r"bad.*at least one feature, got shape \(6, 0\)"),
    "sparse": (spoilt(x=torch.ones(6, 3).to_sparse()), "bad.*x must be dense, got sparse_coo"),
    "sparse labels": (spoilt(y=torch.ones(6).long().to_sparse()), "bad.*labels must be dense, got sparse_coo"),
    "tensors in a list": (spoilt(x=[torch.ones(3, requires_grad=True)] * 6), "bad.*numbers"),
    "same name": ([Silo("twin", Split(torch.ones(1, 1), torch.zeros(1).long()), Split(torch.ones(1, 1),
                  torch.zeros(1).long()))] * 2, "differ.*'twin' 2 times"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("silos", "words", "reason"),
    [
        (None, {}, "got NoneType"),
        ("north", {}, "got str"),
        ({"a": arrays()}, {"classes": "2"}, "whole number, got '2'"),
        ({"a": arrays()}, {"classes": 2.0}, "whole number, got 2.0"),
        ({"a": arrays()[:2]}, {"test_fraction": "x"}, "> 0 and < 1, got 'x'"),
    ],
)
def test_arguments_of_another_kind_are_refused(silos: Any, words: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        own_silos(silos, **words)


@pytest.mark.parametrize(("silos", "reason"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_violations_name_the_silo_the_rule_and_the_remedy(silos: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        own_silos(silos)
    assert "\n" not in str(caught.value) and ": " in str(caught.value)


WORDS = ["ill", "well"] * 3


@pytest.mark.parametrize(
    ("y", "reason"),
    [
        (Y, "one kind in all silos, got 0 in silo 'bad' and 'well' in silo 'good'"),
        (torch.full((6,), torch.nan), "'bad': labels must be whole numbers, got float32"),
        (torch.zeros(6, dtype=torch.bfloat16), "'bad': labels must be whole numbers, got bfloat16"),
        (torch.zeros(6, dtype=torch.complex64), "'bad': labels must be whole numbers, got complex64"),
        (torch.zeros(6, 1).long(), r"'bad': labels must be \[n\], got shape \(6, 1\)"),
        (np.array(WORDS)[:, None], r"'bad': labels must be one label for each example, found shape \(6, 1\)"),
        ([b"\xff"] * 6, "'bad': labels must be words in UTF-8"),
        (["ill", ""] * 3, "'bad': labels row 1 must have a label, found ''"),
    ],
)
def test_labels_that_do_not_go_with_words(y: Array, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        own_silos({"good": (X, WORDS), "bad": (X, y)})


def test_truth_goes_with_its_words() -> None:
    made = own_silos({"a": (X, torch.tensor([True, False] * 3)), "b": (X, ["True", "False"] * 3)})
    assert made.labels == ("False", "True")


def test_labels_must_fit_the_classes_given() -> None:
    with pytest.raises(InputError, match="'bad', test: labels must be 0 to 1, got 2"):
        own_silos(spoilt(y_test=Y + 1), classes=2)
    with pytest.raises(InputError, match="at least 1 class, or 0 for quantities, got -1"):
        own_silos({"a": arrays()}, classes=-1)


def numbered(y: list[int], name: str = "a") -> Silos:
    """One silo whose examples carry their position."""
    x = torch.arange(len(y), dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(y)
    return own_silos([Silo(name, Split(x, labels), Split(x, labels))])


def set_aside(silos: Silos, place: int = 0) -> Tensor:
    """A silo's validation examples."""
    val = silos.silos[place].val
    assert val is not None
    return val.x


@settings(max_examples=60)
@given(
    y=st.lists(st.integers(0, 4), min_size=2, max_size=60),
    fraction=st.floats(0.01, 0.9),
    seed=st.integers(0, 2**31),
)
def test_validation_is_a_stratified_part_of_the_training_data(y: list[int], fraction: float, seed: int) -> None:
    whole = numbered(y)
    count = max(1, round(fraction * len(y)))
    if count >= len(y):
        return
    silo = whole.with_validation(fraction, seed).silos[0]
    assert silo.val is not None and len(silo.val.y) == count
    together = torch.cat([silo.train.x, silo.val.x]).flatten().sort().values
    assert torch.equal(together, whole.silos[0].train.x.flatten())
    for split in (silo.train, silo.val):
        assert [y[int(i)] for i in split.x.flatten()] == split.y.tolist()
    for label in set(y):
        share = count * y.count(label) / len(y)
        assert abs(silo.val.y.tolist().count(label) - share) < 1 + 1e-9
    assert silo.test is whole.silos[0].test


def test_validation_follows_the_silo_not_its_place() -> None:
    y = [0, 1] * 20
    alone = numbered(y, "b").with_validation(0.25, seed=1)
    among = own_silos([numbered(y, "a").silos[0], numbered(y, "b").silos[0]]).with_validation(0.25, seed=1)
    assert torch.equal(set_aside(alone), set_aside(among, 1))
    assert not torch.equal(set_aside(among), set_aside(among, 1))
    assert not torch.equal(set_aside(numbered(y, "b").with_validation(0.25, seed=2)), set_aside(alone))


def test_every_example_is_as_likely_to_be_set_aside() -> None:
    y = [0] * 7 + [1] * 3
    hits = torch.zeros(10)
    for seed in range(400):
        hits[set_aside(numbered(y).with_validation(0.3, seed)).flatten().long()] += 1
    assert (hits - 120).abs().max() < 5 * (400 * 0.3 * 0.7) ** 0.5  # five standard deviations


def test_no_validation_changes_nothing() -> None:
    silos = numbered([0, 1])
    assert silos.with_validation(0, seed=0) is silos


@pytest.mark.parametrize("fraction", [-0.1, 1, 1.5, float("nan")])
def test_a_fraction_is_a_fraction(fraction: float) -> None:
    with pytest.raises(InputError, match="validation fraction must be >= 0 and < 1"):
        numbered([0, 1]).with_validation(fraction, seed=0)


def test_training_data_must_remain() -> None:
    with pytest.raises(InputError, match="'a' needs a training example.*none of 1"):
        numbered([0]).with_validation(0.1, seed=0)


def test_given_validation_data_are_not_replaced() -> None:
    once = numbered([0, 1] * 5).with_validation(0.2, seed=0)
    assert once.with_validation(0.4, seed=1).sha256 == once.sha256


@settings(max_examples=60)
@given(size=st.integers(1, 60), count=st.integers(1, 70), seed=st.integers(0, 2**31))
def test_at_most_so_many_training_examples(size: int, count: int, seed: int) -> None:
    whole = numbered([i % 3 for i in range(size)])
    silo = whole.at_most(count, seed).silos[0]
    kept = silo.train.x.flatten().tolist()
    assert len(kept) == min(size, count) and kept == sorted(set(kept)) and set(kept) <= set(range(size))
    assert [i % 3 for i in map(int, kept)] == silo.train.y.tolist()
    assert silo.test is whole.silos[0].test
    more = whole.at_most(count + 5, seed).silos[0].train.x.flatten().tolist()
    assert set(kept) <= set(more)


def test_a_part_follows_seed_and_silo_and_favours_nobody() -> None:
    y = [0, 1] * 10
    among = own_silos([numbered(y, "a").silos[0], numbered(y, "b").silos[0]]).at_most(5, seed=1).silos
    assert torch.equal(numbered(y, "b").at_most(5, seed=1).silos[0].train.x, among[1].train.x)
    assert not torch.equal(among[0].train.x, among[1].train.x)
    hits = torch.zeros(10)
    for seed in range(400):
        hits[numbered([0] * 10).at_most(3, seed).silos[0].train.x.flatten().long()] += 1
    assert (hits - 120).abs().max() < 5 * (400 * 0.3 * 0.7) ** 0.5  # five standard deviations


def test_without_a_limit_nothing_changes() -> None:
    silos = numbered([0, 1])
    assert silos.at_most(0, seed=0) is silos
    with pytest.raises(InputError, match="examples per silo must be >= 0, got -1"):
        silos.at_most(-1, seed=0)


def test_given_validation_data_are_not_reduced() -> None:
    once = numbered([0, 1] * 5).with_validation(0.4, seed=0)
    (silo,) = once.at_most(3, seed=0).silos
    assert len(silo.train.y) == 3 and silo.val is once.silos[0].val


def test_manifest_counts_and_is_json() -> None:
    silos = numbered([0, 1, 1, 2]).with_validation(0.25, seed=0)
    manifest = json.loads(json.dumps(silos.manifest()))
    assert (manifest["data"], manifest["setting"], manifest["classes"], manifest["shape"]) == ("own", "own", 3, [1])
    (entry,) = manifest["silos"]
    assert (entry["name"], entry["group"], entry["test"]) == ("a", None, [1, 2, 1])
    assert sum(entry["val"]) == 1
    assert [t + v for t, v in zip(entry["train"], entry["val"], strict=True)] == [1, 2, 1]


def test_the_hash_sees_every_part() -> None:
    base = numbered([0, 1, 2, 0])
    silo = base.silos[0]
    x, y = silo.train
    others = [
        silo._replace(name="b"),
        silo._replace(train=Split(x + 1, y)),
        silo._replace(train=Split(x, y.flip(0))),
        silo._replace(test=Split(x, y.roll(1))),
        silo._replace(val=silo.test),
        silo._replace(train=Split(x.view(4, 1, 1), y), test=Split(x.view(4, 1, 1), y)),
    ]
    hashes = [own_silos([other]).manifest()["sha256"] for other in others]
    assert len({base.manifest()["sha256"], *hashes}) == 1 + len(others)
    assert numbered([0, 1, 2, 0]).manifest() == base.manifest()


class Pairs(Dataset[Any]):
    """A torch data set of one's own."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]


class Stream(IterableDataset[tuple[Tensor, int]]):
    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        yield from ((torch.tensor([float(i)]), i % 2) for i in range(10))


class Counted(Stream):
    def __len__(self) -> int:
        return 10


ITEMS = [(torch.tensor([float(i), 0.0]), i % 2) for i in range(10)]


@pytest.mark.parametrize(
    "items",
    [
        ITEMS,
        [(x.numpy(), np.int64(y)) for x, y in ITEMS],
        [(x.tolist(), torch.tensor(y)) for x, y in ITEMS],
        [[x, y] for x, y in ITEMS],
    ],
    ids=["tensors", "arrays", "lists", "pairs as lists"],
)
def test_torch_data_sets(items: list[Any]) -> None:
    silos = own_silos({"one": Pairs(items), "two": (Pairs(items[:6]), Pairs(items[6:]))}, seed=3)
    one, two = silos.silos
    assert silos.classes == 2 and silos.sizes == (8, 6)
    together = torch.cat([one.train.x, one.test.x])[:, 0].tolist()
    assert sorted(together) == list(range(10))
    assert one.test.y.tolist() == [int(x) % 2 for x in one.test.x[:, 0]] and sorted(one.test.y.tolist()) == [0, 1]
    assert two.test.x[:, 0].tolist() == [6, 7, 8, 9]


def test_ready_made_torch_data_sets() -> None:
    x, y = torch.randn(10, 2), torch.arange(10) % 3
    made = own_silos({"a": TensorDataset(x, y), "b": Subset(TensorDataset(x, y), range(5)), "c": (x, y)})
    assert made.classes == 3 and made.sizes == (8, 4, 8)
    assert own_silos({"a": Stream(), "b": Counted()}).sizes == (8, 8)


def test_the_seed_and_share_of_what_is_held_out() -> None:
    def held_out(**how: Any) -> list[list[float]]:
        return own_silos({"a": Pairs(ITEMS), "b": Pairs(ITEMS)}, **how).silos[0].test.x.tolist()

    assert len(held_out(test_fraction=0.4)) == 4
    assert held_out(seed=1) == held_out(seed=1)
    assert len({str(held_out(seed=seed)) for seed in range(8)}) > 1


def test_labels_may_be_words() -> None:
    x = torch.randn(4, 2)
    words = ["dog", "cat", "dog", "cat"]
    silos = own_silos(
        {
            "a": (x, words, x, np.array(words)),
            "b": (Pairs([(row, "cow") for row in x]), Pairs([(row, "dog") for row in x])),
        }
    )
    assert (silos.classes, silos.labels) == (3, ("cat", "cow", "dog"))
    assert silos.silos[0].train.y.tolist() == silos.silos[0].test.y.tolist() == [2, 0, 2, 0]
    assert silos.silos[1].train.y.tolist() == [1] * 4 and silos.silos[1].test.y.tolist() == [2] * 4
    with pytest.raises(InputError, match="name 3 classes, got classes=2"):
        own_silos({"a": (x, ["a", "b", "c", "a"], x, ["a"] * 4)}, classes=2)


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (Pairs([(torch.ones(2), 0), (torch.ones(3), 1)]), r"'a', example 1: must have the shape \(2,\)"),
        (Pairs([{"x": 1, "y": 0}]), "'a', example 0: must be a pair x, y, got dict"),
        (Pairs([(torch.ones(2), torch.tensor([0, 1]))] * 3), r"labels must be \[n\], got shape \(3, 2\)"),
        (Pairs([(object(), 0)]), "'a' must hold arrays of numbers"),
        (Pairs([(Image.new("RGB", (4, 4)), 0)] * 4), "'a', example 0: must be numbers, got a PIL image: .*ToTensor"),
        (Pairs([]), "'a', all: needs at least one example"),
        (Pairs(ITEMS[:1]), "'a' needs 2 examples or more"),
        ((Pairs(ITEMS), Pairs(ITEMS), Pairs(ITEMS)), "got 3 items"),
        ((Pairs(ITEMS), torch.ones(3)), "got 2 items"),
    ],
)
def test_data_sets_that_cannot_be_used(own: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        own_silos({"a": own})
    assert "\n" not in str(caught.value)
