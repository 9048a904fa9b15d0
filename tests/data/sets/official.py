"""Small files in the exact layout of the official ones, with content that is known."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amity.data import SOURCES
from amity.data.sets.entry import SourceEntry

TRAIN, TEST = 6, 4  # examples
RNG = np.random.default_rng(7)

Files = dict[str, bytes]
"""Content by name."""

Known = dict[str, np.ndarray]
"""What the files hold."""

Made = tuple[Files, Known]


def pixels(n: int, *shape: int) -> np.ndarray:
    images = RNG.integers(0, 256, (n, *shape), dtype=np.uint8)
    images[0].flat[:2] = 0, 255
    return images


def idx(array: np.ndarray) -> bytes:
    return gzip.compress(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


def emnist() -> Made:
    """The four files of the by-class part, and what they hold: images are stored column by column."""
    known: Known = {}
    files: Files = {}
    for part, n in (("train", TRAIN), ("test", TEST)):
        x, y = pixels(n, 28, 28), np.arange(n, dtype=np.uint8) * 10
        known |= {f"{part}_x": x, f"{part}_y": y}
        files[f"emnist-byclass-{part}-images-idx3-ubyte.gz"] = idx(np.ascontiguousarray(x.transpose(0, 2, 1)))
        files[f"emnist-byclass-{part}-labels-idx1-ubyte.gz"] = idx(y)
    return files, {**known, "train_x": known["train_x"][:, None], "test_x": known["test_x"][:, None]}


def emnist_zip() -> Made:
    """gzip.zip as NIST offers it: all parts, in a folder, with mapping files."""
    files, known = emnist()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("gzip/emnist-byclass-mapping.txt", "0 48\n")
        archive.writestr("gzip/emnist-letters-train-labels-idx1-ubyte.gz", idx(np.zeros(3, dtype=np.uint8)))
        for name, content in files.items():
            archive.writestr(f"gzip/{name}", content)
    return {"gzip.zip": packed.getvalue()}, known


def cifar10() -> Made:
    """Five batches and a test batch: label byte, red, green and blue planes."""
    batches = [(pixels(2, 3, 32, 32), np.array([i, 9 - i], dtype=np.uint8)) for i in range(6)]
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    files = {
        name: b"".join(bytes([label]) + image.tobytes() for image, label in zip(x, y, strict=True))
        for name, (x, y) in zip(names, batches, strict=True)
    }
    known = {
        "train_x": np.concatenate([x for x, _ in batches[:5]]),
        "train_y": np.concatenate([y for _, y in batches[:5]]),
        "test_x": batches[5][0],
        "test_y": batches[5][1],
    }
    return files, known


def cifar100() -> Made:
    """Two label bytes, coarse then fine. Here the superclass of class c is c // 5."""
    known: Known = {}
    files: Files = {}
    for part, n in (("train", TRAIN), ("test", TEST)):
        x, y = pixels(n, 3, 32, 32), np.arange(n, dtype=np.uint8) * 19
        known |= {f"{part}_x": x, f"{part}_y": y}
        files[f"{part}.bin"] = b"".join(
            bytes([label // 5, label]) + image.tobytes() for image, label in zip(x, y, strict=True)
        )
    return files, known


def tarred(folder: str, name: str, files: Files) -> Files:
    """An archive as Toronto offers it: a folder with the batches, names of classes and a page."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for inside, content in {"readme.html": b"<html>", **files, "batches.meta.txt": b"airplane\n"}.items():
            info = tarfile.TarInfo(f"{folder}/{inside}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return {name: packed.getvalue()}


def medmnist(name: str, classes: int, *shape: int) -> Made:
    """npz with train, val and test; labels are [n, 1]; colours come last."""
    arrays: dict[str, Any] = {}
    for part, n in (("train", TRAIN), ("val", 3), ("test", TEST)):
        arrays[f"{part}_images"] = pixels(n, *shape)
        arrays[f"{part}_labels"] = (np.arange(n, dtype=np.uint8) % classes)[:, None]
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)

    def planes(images: np.ndarray) -> np.ndarray:
        return images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)

    known = {f"{part}_x": planes(arrays[f"{part}_images"]) for part in ("train", "val", "test")}
    known |= {f"{part}_y": arrays[f"{part}_labels"][:, 0] for part in ("train", "val", "test")}
    return {f"{name}.npz": packed.getvalue()}, known


def place(folder: Path, files: Files) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def without_digests(monkeypatch: pytest.MonkeyPatch, name: str) -> SourceEntry:
    """The data set with no digest known: files are believed for their structure."""
    entry = SOURCES[name]
    assert entry.official is not None
    layouts = tuple(
        replace(layout, files=tuple(replace(file, digest=None) for file in layout.files))
        for layout in entry.official.layouts
    )
    changed = replace(entry, official=replace(entry.official, layouts=layouts))
    monkeypatch.setitem(SOURCES.built_in, name, changed)
    return changed
