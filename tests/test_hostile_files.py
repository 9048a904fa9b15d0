"""Hostile files, given to everything that reads: refused in one line, in little time and memory, and nothing is run.

Whoever reads `csv` may be given a pickle, and whoever reads TOML a zip bomb: every reader meets every file. What a file
of its own format could do to it beyond that stands with the reader (`tests/data/test_memory.py` has the bombs).
"""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import time
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from amity.data.memory import VARIABLE
from benchmarks.soak.command import alone_on_disk
from benchmarks.soak.files import Kind, kinds, outcome

MIB = 2**20
MOST = 40 * MIB  # that Python may take for one file; they hold a hundred times as much when unpacked
SECONDS = 5.0  # of work, for one file


class Evil:
    """Leaves a file where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.mark,)


def png(side: int) -> bytes:
    """A picture that claims to have so many pixels on each side."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(MIB))) + chunk(b"IEND", b"")


def npy(shape: str, kind: str = "<f8") -> bytes:
    """An array of which there is only the beginning."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "../").replace("_npy", ".npy"), content)
    return out.getvalue()


def tarred(name: str, size: int = MIB) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = size
        archive.addfile(info, io.BytesIO(bytes(size)))
        link = tarfile.TarInfo("train.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return out.getvalue()


def tensors(header: bytes, length: int | None = None) -> bytes:
    """A safetensors file with this header, which claims a length."""
    return struct.pack("<Q", len(header) if length is None else length) + header + bytes(64)


def hostile(mark: Path) -> Mapping[str, bytes]:
    """Hostile contents; whoever unpickles one leaves a file at `mark`."""
    saved, objects, bomb = io.BytesIO(), io.BytesIO(), zlib.compress(bytes(64 * MIB), 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save({"params": Evil(mark)}, saved)
    np.savez(objects, x=np.array([Evil(mark)], dtype=object), y=np.array([0]))
    long = b'{"params": {"dtype": "F32", "shape": [%d], "data_offsets": [0, %d]}}' % (2**61, 2**63)
    return {
        "empty": b"",
        "a pickle": pickle.dumps(Evil(mark)),
        "a pickle of protocol 0": pickle.dumps(Evil(mark), protocol=0),
        "a pickled model": saved.getvalue(),
        "objects in npz": objects.getvalue(),
        "names that lead out": zipped(____up_npy=npy("(1,)") + bytes(8), x_npy=npy("(1,)") + bytes(8)),
        "a zip bomb": zipped(x_npy=npy(f"({8 * MIB},)") + bytes(64 * MIB), y_npy=npy("(1,)") + bytes(8)),
        "a gzip bomb": gzip.compress(bytes((0, 0, 8, 3)) + bytes(64 * MIB)),
        "a tar file that leads out": tarred("../../../outside/test.bin"),
        "an array without an end": npy(f"({2**58},)"),
        "an array with many axes": npy("(" + "1," * 400 + ")"),
        "an array of another kind": npy("(1,)", "|O"),
        "a huge picture": png(60_000),
        "a picture of no size": png(0),
        "a header without an end": tensors(b"{}", 2**63 - 1),
        "tensors without an end": tensors(long),
        "tensors on top of each other": tensors(
            b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}}'
        ),
        "lists in lists": b"[" * 200_000,
        "tables in tables": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "TOML in TOML": b"a = " + b"[" * 100_000 + b"]" * 100_000,
        "a long number": b"rounds = " + b"9" * 5_000,
        "a long number in JSON": b'{"round": ' + b"9" * 5_000 + b"}",
        "a long line": b"x," * 100_000 + b"label\n",
        "a long cell": b'a,b,ward,label\n1,2,"' + b"u" * 300_000 + b'",ill\n',
        "no letters": bytes(range(256)) * 40,
        "a message with a long header": b"amity/1\n" + struct.pack(">I", 2**32 - 1) + b"{" * 100,
        "markup": b"<script>alert(1)</script>" * 40,
        "zlib alone": bomb,
    }


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Kind]]:
    place = tmp_path_factory.mktemp("readers")
    with alone_on_disk(place):
        yield kinds(place)


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_no_reader_runs_hangs_or_swells(
    readers: Mapping[str, Kind], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.setenv(VARIABLE, str(10 / 1024))  # GiB of data
    mark, wrong, refused = tmp_path / "mark", list[str](), 0
    contents = hostile(mark)
    pickle.loads(contents["a pickle"])
    assert mark.exists(), "the pickle does what it is there for"
    mark.unlink()
    for number, (name, kind) in enumerate(readers.items()):
        place = tmp_path / str(number)
        path = place / "silos" / kind.name
        path.parent.mkdir(parents=True)
        for what, content in list(contents.items())[number % every :: every]:
            path.write_bytes(content)
            begun = time.process_time()
            tracemalloc.start()
            try:
                refusal = outcome(kind, path, seconds=100)
                peak = tracemalloc.get_traced_memory()[1]
            except BaseException as error:
                wrong.append(f"{name}, {what}: {type(error).__name__}: {str(error)[:200]}")
                continue
            finally:
                tracemalloc.stop()
            refused += refusal is not None
            if refusal is not None and ("\n" in refusal or len(refusal) > 20_000):
                wrong.append(f"{name}, {what}: not a line: {refusal[:200]!r}")
            if (taken := time.process_time() - begun) > SECONDS:
                wrong.append(f"{name}, {what}: {taken:.1f} s")
            if peak > MOST + 20 * len(content):
                wrong.append(f"{name}, {what}: {peak / MIB:.0f} MiB")
        if strays := [file for file in tmp_path.iterdir() if not file.name.isdigit()]:
            wrong.append(f"{name} leaves {strays}")
    assert not wrong, f"{len(wrong)} of which:\n" + "\n".join(wrong[:40])
    assert refused > 20 * len(readers) / every
