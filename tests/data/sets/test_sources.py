"""Data sets: shapes, ranges, the search for files, and what happens when they are missing or wrong."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from data.sources import Loaded

from amity.contract import InputError
from amity.data import SOURCES, load
from amity.data.sets.files import search_path
from amity.data.source import scale_pixels


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_is_what_its_entry_says(loaded: Loaded, name: str) -> None:
    source, entry = loaded(name), SOURCES[name]
    for x, y in (source.train, source.test):
        assert tuple(x.shape[1:]) == entry.shape and len(x) == len(y)
        assert x.dtype == torch.uint8 or entry.official is None or entry.natural  # pixels are kept as bytes
        x = scale_pixels(x)
        assert x.dtype == torch.float32
        if entry.classes:
            assert y.dtype == torch.int64 and set(y.tolist()) == set(range(entry.classes))
        else:
            assert y.dtype == torch.float64 and y.isfinite().all()
        assert x.isfinite().all()
        if len(entry.shape) == 3:
            assert x.min() == -1 and x.max() == 1
    assert (source.name, source.classes) == (name, entry.classes)
    counts = [len(source.train.y), len(source.test.y)]
    counts = [sum(counts)] if entry.natural else counts
    complete = all(f" {count:,} " in f" {entry.description} " for count in counts)
    assert complete != any("not complete" in note for note in source.notes)


@pytest.mark.parametrize("name", ["digits", "synthetic"])
def test_embedded_sources_never_change(name: str) -> None:
    torch.manual_seed(1)
    first = load(name)
    torch.manual_seed(2)
    second = load(name)
    assert torch.equal(first.train.x, second.train.x) and torch.equal(first.test.y, second.test.y)


def test_digits_are_divided_once_and_by_class() -> None:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    source = load("digits")
    together = torch.cat([source.train.x, source.test.x]).flatten(1).add(1).mul(8)
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, pixels.tolist()))
    total = torch.tensor(labels).bincount()
    assert ((source.test.y.bincount() - 0.3 * total).abs() <= 0.5).all()


def test_synthetic_classes_overlap_and_need_more_than_a_line() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    (x, y), (x_test, y_test) = load("synthetic").train, load("synthetic").test
    linear, near = LogisticRegression(max_iter=500), KNeighborsClassifier(15)
    linear_score, near_score = (m.fit(x, y).score(x_test, y_test) for m in (linear, near))
    assert 0.4 < linear_score < near_score - 0.05
    assert near_score < 0.95


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without data: no variable set, an empty working directory and cache."""
    monkeypatch.delenv("AMITY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_search_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMITY_DATA", "/from/variable")
    expected = [Path("/given"), Path("/from/variable"), Path("data"), nowhere / "cache" / "amity"]
    assert search_path("/given") == expected
    monkeypatch.setenv("AMITY_DATA", "")
    assert search_path() == expected[2:]


def test_home_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert search_path()[-1] == Path.home() / ".cache" / "amity"


@pytest.mark.parametrize("name", [name for name, entry in SOURCES.items() if entry.files])
def test_missing_files_say_which_where_and_what_to_do(nowhere: Path, name: str) -> None:
    (nowhere / "given").mkdir()
    with pytest.raises(InputError) as caught:
        load(name, nowhere / "given")
    message = str(caught.value)
    assert "\n" not in message
    for word in (*SOURCES[name].files, str(nowhere / "given"), str(nowhere / "cache" / "amity"), "AMITY_DATA"):
        assert word in message


def test_only_the_missing_files_are_named(nowhere: Path) -> None:
    folder = nowhere / "data" / "mnist"
    folder.mkdir(parents=True)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"")
    with pytest.raises(InputError) as caught:
        load("mnist")
    assert "t10k-labels" not in str(caught.value) and "t10k-images" in str(caught.value)


@pytest.mark.parametrize("folder", ["fashion-mnist", "fmnist", "FashionMNIST/raw"])
def test_foreign_content_is_refused_by_its_checksum(nowhere: Path, folder: str) -> None:
    """Well-formed files of the right names, wherever they may lie, are not believed."""
    place = nowhere / folder
    place.mkdir(parents=True)
    for file in SOURCES["fmnist"].files:
        axes = 3 if "images" in file else 1
        content = bytes((0, 0, 8, axes)) + bytes((0, 0, 0, 1)) * axes + b"\x07"
        (place / file).write_bytes(gzip.compress(content))
    with pytest.raises(InputError, match="train-images-idx3-ubyte.gz must have the official content") as caught:
        load("fmnist", nowhere)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown data set 'mnits': did you mean mnist"):
        load("mnits")


def test_import_is_light() -> None:
    """`amity --help` must not wait for scikit-learn."""
    code = "import sys, amity.data, amity.models; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
