"""The cache of decoded data sets: right or absent, never wrong, never in the way."""

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data.sources import Loaded

from amity.data import load
from amity.data.sets import cache


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "amity" / "decoded"


class Decoder:
    """Counts how often it was asked."""

    def __init__(self, path: Path) -> None:
        self.path, self.calls = path, 0

    def __call__(self) -> dict[str, np.ndarray]:
        self.calls += 1
        content = np.frombuffer(self.path.read_bytes(), np.uint8)
        return {"train_images": content.reshape(-1, 2).T, "labels": content.astype(np.float64)}


@pytest.fixture
def decoder(tmp_path: Path) -> Decoder:
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(range(8)))
    return Decoder(path)


def read(decoder: Decoder) -> dict[str, Any]:
    return {key: value.tolist() for key, value in cache.decoded("name", [decoder.path], decoder).items()}


def test_the_second_time_nothing_is_decoded(home: Path, decoder: Decoder) -> None:
    first = read(decoder)
    assert first == {"train_images": [[0, 2, 4, 6], [1, 3, 5, 7]], "labels": list(range(8))}
    assert read(decoder) == first and decoder.calls == 1
    assert len(list(home.iterdir())) == 1


@pytest.mark.parametrize("change", ["size", "time"])
def test_changed_files_are_decoded_again(home: Path, decoder: Decoder, change: str) -> None:
    read(decoder)
    stat = decoder.path.stat()
    if change == "size":
        decoder.path.write_bytes(bytes(10))
        os.utime(decoder.path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    else:
        decoder.path.write_bytes(bytes(8))
        os.utime(decoder.path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert sum(read(decoder)["labels"]) == 0 and decoder.calls == 2
    assert len(list(home.iterdir())) == 1  # in the place of the old one


def test_data_sets_in_two_places_do_not_disturb_each_other(home: Path, decoder: Decoder, tmp_path: Path) -> None:
    other = Decoder(tmp_path / "other.bin")
    other.path.write_bytes(bytes([9, 9]))
    for _ in range(2):
        assert len(read(decoder)["labels"]) == 8 and len(read(other)["labels"]) == 2
    assert (decoder.calls, other.calls) == (1, 1)


@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: b"", lambda raw: b"\xff" * len(raw)])
def test_a_damaged_entry_is_made_anew(home: Path, decoder: Decoder, damage: Callable[[bytes], bytes]) -> None:
    first = read(decoder)
    (entry,) = home.iterdir()
    entry.write_bytes(damage(entry.read_bytes()))
    assert read(decoder) == first and decoder.calls == 2
    assert read(decoder) == first and decoder.calls == 2


@pytest.mark.parametrize("place", [-1, -20, -66])
def test_an_entry_with_other_content_is_made_anew(home: Path, decoder: Decoder, place: int) -> None:
    """A bit that has turned in the last label, in the first words, in an image: the file's form is still right."""
    first = read(decoder)
    (entry,) = home.iterdir()
    raw = bytearray(entry.read_bytes())
    raw[place] ^= 1
    entry.write_bytes(raw)
    assert read(decoder) == first and decoder.calls == 2


def test_others_may_read_an_entry(home: Path, decoder: Decoder) -> None:
    read(decoder)
    (entry,) = home.iterdir()
    assert entry.stat().st_mode & 0o777 == 0o644


def test_a_cache_that_cannot_be_written_is_no_error(home: Path, decoder: Decoder) -> None:
    home.parent.parent.mkdir(parents=True)
    home.parent.write_text("a file where the directory should be")
    assert len(read(decoder)["labels"]) == 8
    assert home.parent.is_file()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_is_no_error(home: Path, decoder: Decoder) -> None:
    home.mkdir(parents=True)
    home.chmod(0o500)
    try:
        assert len(read(decoder)["labels"]) == 8
    finally:
        home.chmod(0o700)


def test_a_full_disk_leaves_no_half_entry(home: Path, decoder: Decoder) -> None:
    """A limit on the size of files stops the writing where a full disk would."""
    decoder.path.write_bytes(bytes(20_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        found = read(decoder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(found["labels"]) == 20_000
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("name", ["emnist", pytest.param("cifar100", marks=pytest.mark.slow), "mnist"])
def test_a_second_load_is_quick(loaded: Loaded, name: str) -> None:
    """Under a second of work; the clock on the wall depends on who else is at work."""
    loaded(name)
    began = time.process_time()
    load(name)
    assert time.process_time() - began < 1
