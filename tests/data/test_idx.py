"""IDX files: what is written is read, and nothing damaged passes."""

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from amity.contract import InputError
from amity.data import idx


def encode(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_reads_what_was_written(tmp_path: Path, pack):
    path = tmp_path / "images"
    path.write_bytes(pack(encode(IMAGES)))
    md5 = hashlib.md5(encode(IMAGES)).hexdigest()
    assert np.array_equal(idx.read(path, 3, md5), IMAGES)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda: b"", "must start with"),
        (lambda: encode(IMAGES)[:7], "must start with"),
        (lambda: encode(IMAGES.reshape(6, 4)), "must start with"),
        (lambda: b"<html>not here</html>", "must start with"),
        (lambda: encode(IMAGES)[:-1], "bytes"),
        (lambda: encode(IMAGES) + b"\0", "bytes"),
        (lambda: struct.pack(">4I", 0x803, 2**32 - 1, 2**32 - 1, 2**32 - 1), "bytes"),
        (lambda: gzip.compress(encode(IMAGES))[:-9], "gzip"),
        (lambda: gzip.compress(encode(IMAGES))[:15] + b"\xff" * 20, "gzip"),
        (lambda: encode(IMAGES + 1), "md5"),
    ],
)
def test_damage_is_refused_in_one_line_with_the_file(tmp_path: Path, damage, reason):
    path = tmp_path / "train-images"
    path.write_bytes(damage())
    with pytest.raises(InputError, match=reason) as caught:
        idx.read(path, 3, hashlib.md5(encode(IMAGES)).hexdigest())
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=50)
@given(content=st.binary(max_size=64))
def test_arbitrary_content_is_an_array_or_an_input_error(content: bytes):
    try:
        array = idx.parse(content, 1, Path("labels"))
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert encode(array) == content


def test_an_unreadable_file_is_an_input_error(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be read"):
        idx.unpack(tmp_path)


def write(tmp_path: Path, images: np.ndarray, labels: list[int]) -> tuple[Path, Path]:
    (tmp_path / "x").write_bytes(encode(images))
    (tmp_path / "y").write_bytes(encode(np.array(labels, dtype=np.uint8)))
    return tmp_path / "x", tmp_path / "y"


def test_pixels_are_scaled_by_constants(tmp_path: Path):
    images = np.array([[[0, 255], [51, 204]]], dtype=np.uint8)
    x, y = idx.labelled(*write(tmp_path, images, [3]), classes=10, sums={})
    torch.testing.assert_close(x, torch.tensor([[[[-1.0, 1.0], [-0.6, 0.6]]]]))
    assert x.dtype == torch.float32 and y.dtype == torch.int64 and y.tolist() == [3]


@pytest.mark.parametrize(("labels", "reason"), [([1], "one label per image"), ([1, 10], "0 to 9, found 10")])
def test_labels_must_match_the_images(tmp_path: Path, labels, reason):
    with pytest.raises(InputError, match=reason):
        idx.labelled(*write(tmp_path, IMAGES, labels), classes=10, sums={})
