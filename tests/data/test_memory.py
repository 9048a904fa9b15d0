"""Small files that hold very much: weighed and refused before they are unpacked. The bombs here are real ones."""

import gzip
import io
import math
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from amity.contract import InputError
from amity.data import load
from amity.data.formats import cifar, idx, npz
from amity.data.memory import GIB, VARIABLE, MemoryBudget, TooLarge
from amity.free_memory import available

MIB = 2**20
ZEROS = bytes(MIB)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """MemoryBudget for 10 MiB."""
    monkeypatch.setenv(VARIABLE, str(10 / 1024))


def npz_bomb(path: Path, mib: int = 16, *, claimed: int | None = None, dtype: str = "|u1") -> Path:
    """An npz file of zeros that were never all in memory."""
    size = mib * MIB // np.dtype(dtype).itemsize
    shape = f"({claimed or size // 64}, 1, 8, 8)" if claimed is None else f"({claimed},)"
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("x.npy", "w") as member:
            member.write(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header)
            for _ in range(mib):
                member.write(ZEROS)
        packed = io.BytesIO()
        np.save(packed, np.zeros(4, dtype=np.int64))
        archive.writestr("y.npy", packed.getvalue())
    return path


def png_bomb(path: Path, width: int, height: int, rows: int | None = None) -> None:
    """A black image of one bit per pixel, of which a part may be missing."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    packer = zlib.compressobj()
    row = bytes(1 + math.ceil(width / 8))
    packed = b"".join(packer.compress(row) for _ in range(height if rows is None else rows)) + packer.flush()
    size = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", packed) + chunk(b"IEND", b""))


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        load(f"folder:{folder}")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_arrays_are_weighed_before_they_are_unpacked(tmp_path: Path, small: None) -> None:
    path = npz_bomb(tmp_path / "a.npz")
    assert path.stat().st_size < MIB
    tracemalloc.start()
    try:
        text = refusal(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()
    assert f"{path} must fit into 10.0 MiB of memory (AMITY_MAX_DATA_GIB), found 64.0 MiB when unpacked" in text
    assert "leave examples or silos out, or set AMITY_MAX_DATA_GIB=0.1 if" in text  # 16 MiB of bytes, as float32
    with pytest.raises(TooLarge, match=r"found 16.0 MiB when unpacked"):
        npz.images([path])


def test_a_header_that_promises_more_than_there_is(tmp_path: Path) -> None:
    npz_bomb(tmp_path / "a.npz", 1, claimed=2**50, dtype="<f8")
    tracemalloc.start()
    try:
        assert "is not an npz file of plain arrays, or is damaged" in refusal(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


def test_one_array_without_a_name_is_not_even_read(tmp_path: Path) -> None:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**50},), }}".ljust(117).encode() + b"\n"
    (tmp_path / "a.npz").write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header)
    assert "must be an npz file with named arrays, found none" in refusal(tmp_path)


def test_the_sum_over_silos_counts(tmp_path: Path, small: None) -> None:
    for name in "abcdefghijkl":  # a MiB each, and labels
        np.savez_compressed(tmp_path / f"{name}.npz", x=np.zeros((16, MIB // 64), dtype=np.float32), y=[0, 1] * 8)
    text = refusal(tmp_path)
    assert "j.npz must fit into 10.0 MiB of memory" in text and "beside 9.0 MiB so far" in text
    assert text.count("must fit") == 1
    for name in "jkl":
        (tmp_path / f"{name}.npz").unlink()
    assert len(load(f"folder:{tmp_path}").silos) == 9


def test_numbers_that_repeat_are_not_even_in_a_parquet_file(tmp_path: Path, small: None) -> None:
    count = 300_000
    numbers = np.arange(count) // 1000 % 2.0  # hardly any room in the file, for they repeat
    table = pa.table({"x": numbers, "z": numbers, "label": np.arange(count) % 2})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=60_000)
    assert (tmp_path / "a.parquet").stat().st_size < MIB / 2
    assert "a.parquet must fit into 10.0 MiB of memory" in refusal(tmp_path)
    assert len(load(f"folder:{tmp_path}", drop=["x"]).features) == 1  # what is not read takes no room


def test_a_long_word_that_repeats_in_a_parquet_file(tmp_path: Path, small: None) -> None:
    count, words = 20_000, ["a" * 2000, "b"]
    marks = pa.DictionaryArray.from_arrays(pa.array(np.arange(count, dtype=np.int32) % 2), words)
    for kind in (marks.type, pa.string(), pa.large_string()):
        table = pa.table({"x": np.zeros(count), "label": marks.cast(kind)})
        pq.write_table(table, tmp_path / "a.parquet", store_schema=kind == marks.type)
        del table
        assert (tmp_path / "a.parquet").stat().st_size < MIB / 2
        before = pa.total_allocated_bytes()
        text = refusal(tmp_path)
        assert "a.parquet must fit" in text and "found 0.1 GiB when unpacked, beside 0.5 MiB so far" in text
        assert pa.total_allocated_bytes() - before < 4 * MIB


def test_words_of_parquet_are_the_words_that_were_written(tmp_path: Path) -> None:
    words = [f"w{place % 7}" for place in range(700)]
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int8(), pa.string())):
        table = pa.table({"x": np.arange(700.0) / 2, "label": pa.array(words).cast(kind)})
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
        source = load(f"folder:{tmp_path}", scale="none")
        assert source.labels == tuple(f"w{place}" for place in range(7))
        assert (source.train.y == (2 * source.train.x[:, 0]).long() % 7).all()


def test_a_csv_file_takes_its_room_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"{','.join('0' * 999)},{row % 2}\n" for row in range(400))
    monkeypatch.setenv(VARIABLE, str(2 / 1024))
    (tmp_path / "a.csv").write_text(",".join(f"c{place}" for place in range(999)) + ",label\n" + rows)
    assert "a.csv must fit into 2.0 MiB" in refusal(tmp_path)


def test_a_long_label_makes_all_labels_long(tmp_path: Path, small: None) -> None:
    rows = "".join(f"0,{row % 2}\n" for row in range(100))
    (tmp_path / "a.csv").write_text(f"x,label\n{rows}1,{'a' * 100_000}\n")
    assert "a.csv must fit into 10.0 MiB" in refusal(tmp_path)


@pytest.mark.parametrize("side", [10_000, 20_000])  # Pillow warns of the first, and refuses the second
def test_an_image_of_too_many_pixels(tmp_path: Path, side: int) -> None:
    png_bomb(tmp_path / "a" / "ill" / "1.png", side, side, rows=1)  # what is missing would show if it were unpacked
    text = refusal(tmp_path)
    assert f"1.png must have at most {Image.MAX_IMAGE_PIXELS:,} pixels" in text and text.endswith(": resize it")


def test_images_are_weighed_before_they_are_unpacked(tmp_path: Path, small: None) -> None:
    png_bomb(tmp_path / "a" / "ill" / "1.png", 2000, 2000)
    assert (tmp_path / "a" / "ill" / "1.png").stat().st_size < 10_000
    assert (text := refusal(tmp_path)).startswith(f"{tmp_path}/a/ill/1.png must fit into 10.0 MiB of memory"), text


def test_the_sum_over_images_counts(tmp_path: Path, small: None) -> None:
    for place in range(12):  # a MiB each
        png_bomb(tmp_path / "a" / "ill" / f"{place:02}.png", 512, 512)
    png_bomb(tmp_path / "a" / "well" / "1.png", 512, 512, rows=1)
    assert "10.png must fit into 10.0 MiB" in refusal(tmp_path)


def test_grey_images_that_get_colours_take_their_room(tmp_path: Path, small: None) -> None:
    for place in range(4):
        png_bomb(tmp_path / "a" / "ill" / f"{place}.png", 512, 512)
    assert "must have two classes or more" in refusal(tmp_path)  # for which there was room
    (tmp_path / "a" / "well").mkdir()
    Image.new("RGB", (512, 512)).save(tmp_path / "a" / "well" / "1.png")
    assert "a must fit into 10.0 MiB" in refusal(tmp_path)  # 5 images of 3 channels


def test_official_files_are_weighed_too(tmp_path: Path, small: None) -> None:
    packed = tmp_path / "train-images-idx3-ubyte.gz"
    with gzip.open(packed, "wb") as stream:
        stream.write(bytes((0, 0, 8, 3)) + struct.pack(">III", MIB, 8, 8))
        for _ in range(16):
            stream.write(ZEROS)
    with pytest.raises(TooLarge, match=r"ubyte.gz must fit into 10.0 MiB of memory"):
        idx.read(packed, 3)
    archive = tmp_path / "gzip.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for name in "abcd":
            made.writestr(name, ZEROS * 4)
    with pytest.raises(TooLarge, match=r"gzip.zip/c must fit"):
        idx.zipped(archive, list("abcd"))
    tarred = tmp_path / "cifar.tar.gz"
    with tarfile.open(tarred, "w:gz") as made:
        info = tarfile.TarInfo("train.bin")
        info.size = 16 * MIB
        made.addfile(info, io.BytesIO(ZEROS * 16))
    with pytest.raises(TooLarge, match=r"train.bin must fit"):
        cifar.packed(tarred, cifar.HUNDRED)


def test_the_room_is_half_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    free = available()
    assert free is not None and 0 < free < 2**60
    assert MemoryBudget().limit == pytest.approx(free / 2, rel=0.2)
    room = MemoryBudget()
    room.take(int(room.limit) - 8, "a")
    room.take(8, "b")
    with pytest.raises(TooLarge, match=r"^c must fit into .* GiB of memory \(half of what is free here.*AMITY_MAX"):
        room.take(8, "c")


@pytest.mark.parametrize("text", ["much", "0", "-1", "nan"])
def test_a_limit_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InputError, match=f"AMITY_MAX_DATA_GIB must be a number of GiB > 0, got '{text}'"):
        MemoryBudget()


def test_the_limit_is_what_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1.5")
    assert MemoryBudget().limit == 1.5 * GIB
    monkeypatch.setenv(VARIABLE, "inf")
    MemoryBudget().take(2**70, "a")


def test_a_small_file_of_gigabytes_is_refused_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A millionth of a gigabyte that unpacks to 1.5: memory would suffice, but nobody has measured such numbers."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("amity.data.memory.available", lambda: 64 * GIB)
    file = tmp_path / "a.parquet"
    file.write_bytes(bytes(306_000))
    with pytest.raises(TooLarge, match=r"a.parquet must hold at most 500 times its size when unpacked, found 1.5 GiB"):
        MemoryBudget().take(3 * GIB // 2, file)
    room = MemoryBudget()
    room.take(GIB // 2, file)  # up to half a GiB it does not matter
    with pytest.raises(TooLarge, match="found 1.0 GiB and more in 0.3 MiB"):
        room.take(GIB // 2, file)  # in parts it is as much
    file.write_bytes(bytes(4 * MIB))
    MemoryBudget().take(3 * GIB // 2, file)  # not even 500 times
    monkeypatch.setenv(VARIABLE, "2")
    file.write_bytes(bytes(306_000))
    MemoryBudget().take(3 * GIB // 2, file)  # its user has said so
