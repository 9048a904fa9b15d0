"""IDX files: what is written is read, and nothing damaged passes."""

import gzip
import hashlib
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amity.contract import InputError
from amity.data.formats import idx


def encode(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
MD5 = f"md5:{hashlib.md5(encode(IMAGES)).hexdigest()}"


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_reads_what_was_written(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "images"
    path.write_bytes(pack(encode(IMAGES)))
    assert np.array_equal(idx.read(path, 3, MD5), IMAGES)


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
def test_damage_is_refused_in_one_line_with_the_file(tmp_path: Path, damage: Callable[[], bytes], reason: str) -> None:
    path = tmp_path / "train-images"
    path.write_bytes(damage())
    with pytest.raises(InputError, match=reason) as caught:
        idx.read(path, 3, MD5)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=50)
@given(content=st.binary(max_size=64))
def test_arbitrary_content_is_an_array_or_an_input_error(content: bytes) -> None:
    try:
        array = idx.parse(content, 1, Path("labels"))
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert encode(array) == content


def test_an_unreadable_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        idx.read(tmp_path, 3)


def test_emnist_is_turned_upright() -> None:
    arrays: dict[str, np.ndarray] = {"train_images": IMAGES, "train_labels": np.arange(2)}
    turned = idx.upright(arrays)
    assert turned["train_images"].shape == (2, 4, 3)
    assert turned["train_images"][1, 2, 0] == IMAGES[1, 0, 2]
    assert turned["train_labels"] is arrays["train_labels"]
