"""Every data set in the layout of its official files, and the published counts of the real ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from data.sets import official
from data.sets.official import Files, Made
from data.sources import Loaded

from amity.contract import InputError
from amity.data import SOURCES, deal, load
from amity.data.source import scale_pixels

CIFAR10, CIFAR100, EMNIST, EMNIST_ZIP = (
    official.cifar10(),
    official.cifar100(),
    official.emnist(),
    official.emnist_zip(),
)
CIFAR10_TAR = official.tarred("cifar-10-batches-bin", "cifar-10-binary.tar.gz", CIFAR10[0]), CIFAR10[1]
CIFAR100_TAR = official.tarred("cifar-100-binary", "cifar-100-binary.tar.gz", CIFAR100[0]), CIFAR100[1]
ORGAN, PATH = official.medmnist("organamnist", 11, 28, 28), official.medmnist("pathmnist", 9, 28, 28, 3)

LAYOUTS = {
    "emnist, as it is fetched": ("emnist", "emnist", EMNIST_ZIP),
    "emnist, unpacked": ("emnist", "emnist/gzip", EMNIST),
    "emnist, where torchvision puts it": ("emnist", "EMNIST/raw", EMNIST),
    "cifar10, as it is fetched": ("cifar10", "cifar10", CIFAR10_TAR),
    "cifar10, unpacked": ("cifar10", "cifar-10-batches-bin", CIFAR10),
    "cifar10, unpacked in place": ("cifar10", "cifar10/cifar-10-batches-bin", CIFAR10),
    "cifar100, as it is fetched": ("cifar100", "cifar100", CIFAR100_TAR),
    "cifar100, unpacked": ("cifar100", "cifar-100-binary", CIFAR100),
    "organamnist": ("organamnist", "organamnist", ORGAN),
    "pathmnist": ("pathmnist", "pathmnist", PATH),
    "pathmnist, where medmnist is told to put it": ("pathmnist", "medmnist", PATH),
}


def same(x: torch.Tensor, pixels: np.ndarray) -> bool:
    return x.dtype == torch.uint8 and x.tolist() == pixels.tolist()


@pytest.mark.parametrize(("name", "folder", "made"), LAYOUTS.values(), ids=LAYOUTS)
def test_official_layouts_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, folder: str, made: Made
) -> None:
    files, known = made
    official.place(tmp_path / folder, files)
    official.without_digests(monkeypatch, name)
    for _ in range(2):  # decoded, then from the cache
        source = load(name, tmp_path)
        for part, split in (("train", source.train), ("val", source.val), ("test", source.test)):
            assert (split is None) == (f"{part}_x" not in known)
            if split is not None:
                assert same(split.x, known[f"{part}_x"]) and split.y.tolist() == known[f"{part}_y"].tolist()
        counts = len(known["train_y"]), len(known["test_y"])
        assert any(f"not complete here: {counts[0]} of" in n and f"{counts[1]} of" in n for n in source.notes)


@pytest.mark.parametrize("made", [CIFAR100, CIFAR100_TAR], ids=["unpacked", "packed"])
def test_cifar100_has_superclasses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Made) -> None:
    official.place(tmp_path / "cifar100", made[0])
    for name in ("cifar100", "cifar100-coarse"):
        official.without_digests(monkeypatch, name)
    coarse = load("cifar100-coarse", tmp_path)
    fine = load("cifar100", tmp_path)
    assert coarse.classes == 20 and fine.classes == 100
    assert coarse.train.y.tolist() == [label // 5 for label in fine.train.y.tolist()]
    assert torch.equal(coarse.test.x, fine.test.x)
    for label in fine.train.y.tolist():
        assert fine.superclass[label] == label // 5


def test_a_class_has_one_superclass(tmp_path: Path) -> None:
    files, _ = official.cifar100()
    files["test.bin"] = bytes([7]) + files["test.bin"][1:]
    official.place(tmp_path / "cifar100", files)
    with pytest.raises(InputError, match="class 0 must have one superclass, found 0 and 7"):
        load("cifar100", tmp_path)


def spoilt(name: str, how: Callable[[Files], Files]) -> tuple[str, str, Files]:
    """A data set with one of its files changed."""
    folder, files = {
        "emnist": ("emnist", EMNIST[0]),
        "cifar10": ("cifar10", CIFAR10[0]),
        "cifar10 tar": ("cifar10", CIFAR10_TAR[0]),
        "emnist zip": ("emnist", EMNIST_ZIP[0]),
        "pathmnist": ("pathmnist", PATH[0]),
    }[name]
    return name.split()[0], folder, how(dict(files))


def with_last(files: Files, content: Callable[[bytes], bytes]) -> Files:
    last = list(files)[-1]
    return {**files, last: content(files[last])}


def arrays_of(files: Files, **changes: np.ndarray | None) -> Files:
    import io

    (name, content), *_ = files.items()
    arrays = {**np.load(io.BytesIO(content)), **changes}
    packed = io.BytesIO()
    np.savez(packed, **{key: value for key, value in arrays.items() if value is not None})
    return {name: packed.getvalue()}


DAMAGE = {
    "cifar10 cut": (
        spoilt("cifar10", lambda f: with_last(f, lambda c: c[:-1])),
        "test_batch.bin.*whole records of 3073",
    ),
    "cifar10 empty": (spoilt("cifar10", lambda f: with_last(f, lambda c: b"")), "test_batch.bin.*whole records"),
    "cifar10 label": (spoilt("cifar10", lambda f: with_last(f, lambda c: b"\x0a" + c[1:])), "0 to 9.*up to 10"),
    "tar cut": (spoilt("cifar10 tar", lambda f: with_last(f, lambda c: c[: len(c) // 2])), "not a complete tar"),
    "tar of nothing": (spoilt("cifar10 tar", lambda f: with_last(f, lambda c: b"<html>")), "not a complete tar"),
    "tar without batches": (
        spoilt("cifar10 tar", lambda f: official.tarred("x", "cifar-10-binary.tar.gz", {})),
        "must contain data_batch_1.bin",
    ),
    "zip cut": (spoilt("emnist zip", lambda f: with_last(f, lambda c: c[:-100])), "not a complete zip"),
    "emnist labels": (
        spoilt("emnist", lambda f: with_last(f, lambda c: official.idx(np.zeros(3, dtype=np.uint8)))),
        "one label per image, found 3 for 4",
    ),
    "npz of nothing": (spoilt("pathmnist", lambda f: with_last(f, lambda c: b"no")), "not an npz file"),
    "npz cut": (spoilt("pathmnist", lambda f: with_last(f, lambda c: c[:-50])), "not an npz file"),
    "npz pickled": (
        spoilt("pathmnist", lambda f: arrays_of(f, train_labels=np.array([{}, None], dtype=object))),
        "plain arrays",
    ),
    "npz without test": (spoilt("pathmnist", lambda f: arrays_of(f, test_images=None)), "must contain test_images"),
    "npz of another size": (
        spoilt("pathmnist", lambda f: arrays_of(f, train_images=np.zeros((6, 64, 64, 3), dtype=np.uint8))),
        "uint8 images of 3 x 28 x 28, found uint8",
    ),
    "npz of floats": (
        spoilt("pathmnist", lambda f: arrays_of(f, train_images=np.zeros((6, 28, 28, 3)))),
        "found float64",
    ),
    "npz labels": (
        spoilt("pathmnist", lambda f: arrays_of(f, train_labels=np.full((6, 1), 9, dtype=np.uint8))),
        "from 0 to 8.*up to 9",
    ),
}


@pytest.mark.parametrize(("made", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_refused_in_one_line_with_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: tuple[str, str, Files], reason: str
) -> None:
    name, folder, files = made
    official.place(tmp_path / folder, files)
    official.without_digests(monkeypatch, name)
    with pytest.raises(InputError, match=reason) as caught:
        load(name, tmp_path)
    assert str(tmp_path / folder) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "folder", "made"), [row for row in LAYOUTS.values() if len(row[2][0]) == 1], ids=lambda row: str(row)[:20]
)
def test_what_has_a_checksum_must_match_it(tmp_path: Path, name: str, folder: str, made: Made) -> None:
    official.place(tmp_path / folder, made[0])
    with pytest.raises(InputError, match=f"{next(iter(made[0]))} must have the official content \\(md5"):
        load(name, tmp_path)


def test_the_first_directory_wins_and_parts_may_lie_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, _ = official.cifar100()
    official.place(tmp_path / "a" / "cifar100", {"train.bin": files["train.bin"]})
    official.place(tmp_path / "b" / "cifar100", files)
    monkeypatch.setenv("AMITY_DATA", str(tmp_path / "b"))
    found = SOURCES["cifar100"].find(tmp_path / "a")
    assert found is not None and {path.parts[-3] for path in found.paths} == {"b"}
    (tmp_path / "b" / "cifar100" / "train.bin").unlink()
    found = SOURCES["cifar100"].find(tmp_path / "a")
    assert found is not None and [path.parts[-3] for path in found.paths] == ["a", "b"]


def test_pixels_are_scaled_by_constants() -> None:
    x = torch.tensor([[0, 51, 204, 255]], dtype=torch.uint8)
    torch.testing.assert_close(scale_pixels(x), torch.tensor([[-1.0, -0.6, 0.6, 1.0]]))
    assert x.dtype == torch.uint8 and x.tolist() == [[0, 51, 204, 255]]
    numbers = torch.tensor([[0.0, 51.0]])
    assert scale_pixels(numbers) is numbers


def test_dealt_pixels_are_scale_pixels(tmp_path: Path) -> None:
    files, known = official.cifar10()
    official.place(tmp_path / "cifar10", files)
    silos = deal(load("cifar10", tmp_path), "iid", 1, seed=0)
    (silo,) = silos.silos
    expected = torch.tensor(known["train_x"], dtype=torch.float32) / 255 * 2 - 1
    torch.testing.assert_close(silo.train.x, expected, atol=1e-6, rtol=0)


# Counts per class that the publishers state, or that follow from how a subset was drawn (its README).
MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
PER_CLASS = {
    "mnist": [(MNIST_TRAIN, MNIST_TEST)],
    "fmnist": [([6000] * 10, [1000] * 10)],
    "cifar10": [([5000] * 10, [1000] * 10), ([1200] * 10, [240] * 10)],
    "cifar100": [([500] * 100, [100] * 100), ([350] * 100, [100] * 100)],
    "cifar100-coarse": [([2500] * 20, [500] * 20), ([1750] * 20, [500] * 20)],
}


@pytest.mark.parametrize("name", PER_CLASS)
def test_real_files_have_the_published_counts_per_class(loaded: Loaded, name: str) -> None:
    source = loaded(name)
    assert (source.train.y.bincount().tolist(), source.test.y.bincount().tolist()) in PER_CLASS[name]


def test_emnist_has_the_published_counts(loaded: Loaded) -> None:
    source = loaded("emnist")
    if len(source.train.y) == 697_932:
        assert len(source.test.y) == 116_323
        return
    for split, sums, low, high in (
        (source.train, [10_620, 19_667, 15_672], 269, 1062),
        (source.test, [1880, 3477, 2771], 48, 188),
    ):
        counts = split.y.bincount(minlength=62)
        assert [int(part.sum()) for part in counts.split([10, 26, 26])] == sums
        assert (int(counts.min()), int(counts.max())) == (low, high)
    assert any("45,959 of 697,932" in note and "8,128 of 116,323" in note for note in source.notes)


def test_emnist_stands_upright(loaded: Loaded) -> None:
    """A 1 is taller than wide, as it is in MNIST; an image on its side is not."""
    for name in ("mnist", "emnist"):
        x, y = loaded(name).train
        ones = (x[y == 1][:, 0] > 127).float()  # [n, H, W]
        rows, columns = ones.amax(2).sum(1).mean(), ones.amax(1).sum(1).mean()
        assert rows > 1.5 * columns


def test_organamnist_has_the_published_counts(loaded: Loaded) -> None:
    source = loaded("organamnist")
    assert (len(source.train.y), len(source.test.y)) in [(34_561, 17_778), (20_000, 5_000)]


def test_superclasses_of_cifar100(loaded: Loaded) -> None:
    """The published hierarchy has five classes in each; a few pairs of it."""
    superclass = loaded("cifar100").superclass
    assert [superclass.count(group) for group in range(20)] == [5] * 20
    beaver, dolphin, apple, maple, willow = 4, 30, 0, 47, 96
    assert superclass[beaver] == superclass[dolphin] == 0  # aquatic mammals
    assert superclass[apple] == 4 and superclass[maple] == superclass[willow] == 17  # fruit and vegetables, trees
