"""A folder of one's own silos: every layout and format, the union of labels, and refusals with file and row."""

import builtins
import io
import unicodedata
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from amity.contract import InputError
from amity.data import Source, deal, load

X = np.arange(20, dtype=np.float32).reshape(10, 2) / 4
Y = np.array([0, 1] * 5)

Files = Mapping[str, str | bytes]
"""Content by name."""


class Read(Protocol):
    def __call__(self, files: Files, **how: Any) -> Source: ...


def table(x: np.ndarray = X, y: Any = Y, header: str = "a,b,label") -> str:
    return header + "\n" + "".join(f"{','.join(map(str, row))},{label}\n" for row, label in zip(x, y, strict=True))


def npz(**arrays: Any) -> bytes:
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


def parquet(**columns: Any) -> bytes:
    packed = io.BytesIO()
    pq.write_table(pa.table(columns), packed)
    return packed.getvalue()


def picture(value: Any, size: tuple[int, int] = (4, 3), mode: str = "L", kind: str = "PNG") -> bytes:
    packed = io.BytesIO()
    Image.new(mode, size, value).save(packed, kind)
    return packed.getvalue()


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """The source that a folder with these files is."""

    def make(files: Files, **how: Any) -> Source:
        for name, content in files.items():
            path = tmp_path / "silos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return load(f"folder:{tmp_path / 'silos'}", **{"scale": "none", **how})

    return make


def whole(source: Source, silo: int = 0) -> list[tuple[list[float], int]]:
    """All examples of a silo with their labels, in order."""
    one = deal(source, "natural", None, 0).silos[silo]
    rows = zip(
        [*one.train.x.tolist(), *one.test.x.tolist()], [*one.train.y.tolist(), *one.test.y.tolist()], strict=True
    )
    return sorted(rows)


EXPECTED = sorted(zip(X.tolist(), Y.tolist(), strict=True))
HALVES = {"x_train": X[:6], "y_train": Y[:6], "x_test": X[6:], "y_test": Y[6:]}
COLUMNS = {"a": X[:, 0], "b": X[:, 1], "label": Y}

FORMS: dict[str, Files] = {
    "csv": {"north.csv": table()},
    "csv, label first": {
        "north.csv": "Label,a,b\n" + "".join(f"{y},{a},{b}\n" for (a, b), y in zip(X, Y, strict=True))
    },
    "csv, outcome": {"north.csv": table(header="a,b,OUTCOME")},
    "csv, class": {"north.csv": table(header="a,b,class")},
    "csv with quotes, blanks and a mark": {"north.csv": "\ufeff" + table(header='"a", b ,"target"') + "\n"},
    "csv in a folder": {"north/data.csv": table()},
    "csv halves": {"north/train.csv": table(X[:6], Y[:6]), "north/test.csv": table(X[6:], Y[6:])},
    "npz": {"north.npz": npz(x=X, y=Y)},
    "npz halves": {"north.npz": npz(**HALVES)},
    "npz in two files": {"north/train.npz": npz(x=X[:6], y=Y[:6]), "north/test.npz": npz(x=X[6:], y=Y[6:])},
    "parquet": {"north.parquet": parquet(**COLUMNS)},
    "parquet and csv": {
        "north/train.parquet": parquet(**{name: column[:6] for name, column in COLUMNS.items()}),
        "north/test.csv": table(X[6:], Y[6:]),
    },
}


@pytest.mark.parametrize("files", FORMS.values(), ids=FORMS)
def test_every_form_gives_the_same_silo(read: Read, files: Files) -> None:
    source = read({**files, ".hidden": "", "south.csv": table()})
    assert [silo.name for silo in source.silos] == ["north", "south"]
    assert (source.classes, source.labels, source.notes) == (2, ("0", "1"), ())
    assert whole(source) == whole(source, 1) == EXPECTED
    north = source.silos[0]
    divided = any("train" in name for name in files) or files.get("north.npz") == FORMS["npz halves"]["north.npz"]
    assert (north.train, north.test) == ((6, 4) if divided else (8, 2))
    if divided:
        assert deal(source, "natural", None, 0).silos[0].test.x.tolist() == X[6:].tolist()


def test_files_are_divided_by_seed_share_and_class(read: Read) -> None:
    x, y = np.arange(40, dtype=np.float32)[:, None], np.arange(40) % 4
    files = {"a.npz": npz(x=x, y=y), "b.npz": npz(x=x, y=y)}
    one = deal(read(files, test_fraction=0.3), "natural", None, 0).silos
    again = deal(read(files, test_fraction=0.3), "natural", None, 0).silos
    other = deal(read(files, test_fraction=0.3, seed=1), "natural", None, 0).silos
    assert one[0].test.y.bincount().tolist() == [3, 3, 3, 3]
    assert torch.equal(one[0].test.x, again[0].test.x)
    assert not torch.equal(one[0].test.x, other[0].test.x)
    assert not torch.equal(one[0].test.x, one[1].test.x)  # each silo draws its own
    alone = deal(read({}, test_fraction=0.3), "natural", None, 0).silos
    assert torch.equal(alone[0].test.x, one[0].test.x)


def test_classes_are_the_union_of_words(read: Read) -> None:
    source = read({"a.csv": table(y=["cat", "dog"] * 5), "b.csv": table(y=["cow", "dog"] * 5)})
    assert (source.classes, source.labels) == (3, ("cat", "cow", "dog"))
    silos = deal(source, "natural", None, 0)
    assert silos.labels == ("cat", "cow", "dog") and silos.manifest()["labels"] == ["cat", "cow", "dog"]
    assert [y for _, y in whole(source, 1)] == [1, 2] * 5


def test_whole_numbers_are_classes_in_their_order(read: Read) -> None:
    source = read({"a.csv": table(y=["10", "9"] * 5), "b.npz": npz(x=X, y=[-3, 10] * 5)})
    assert (source.classes, source.labels) == (3, ("-3", "9", "10"))


def test_numbers_among_words_are_words(read: Read) -> None:
    source = read({"a.csv": table(y=["1", "x"] * 5), "b.npz": npz(x=X, y=[1, 2] * 5)})
    assert source.labels == ("1", "2", "x")


def test_fractions_are_quantities(read: Read) -> None:
    source = read({"a.csv": table(y=[0.5, 1] * 5), "b.csv": table(y=[1, 2] * 5)})
    assert source.classes == 0 and source.labels == () and source.train.y.dtype == torch.float64
    silos = deal(source, "natural", None, 0)
    assert silos.manifest()["silos"][0]["train"] == [8]
    assert sorted({*silos.silos[0].train.y.tolist(), *silos.silos[0].test.y.tolist()}) == [0.5, 1.0]
    assert silos.with_validation(0.25, seed=0).silos[0].val is not None


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        (npz(x=X, y=[True, False] * 5), table(y=["True", "False"] * 5), ("False", "True")),
        (npz(x=X, y=["ill ", "well"] * 5), table(y=["ill", "well"] * 5), ("ill", "well")),
        (npz(x=X, y=[3, 3] * 5), table(y=["1.0", "x"] * 5), ("1", "3", "x")),  # x shows that the numbers are names
        (npz(x=X, y=[2**53, 2**53 + 1] * 5), table(y=[2**53, 2**53 + 2] * 5), tuple(str(2**53 + i) for i in range(3))),
        (
            parquet(**{**COLUMNS, "label": pa.array([2**64 - 1, 0] * 5, pa.uint64())}),
            table(y=[2**64 - 2, 0] * 5),
            ("0", str(2**64 - 2), str(2**64 - 1)),
        ),
        (npz(x=X, y=[1, 10] * 5), table(y=["1_0", "10"] * 5), ("1", "10", "1_0")),
        (npz(x=X, y=["\u00fc", "a"] * 5), table(y=["u\u0308", "a"] * 5), ("a", "\u00fc")),
        (npz(x=X, y=["02", "10"] * 5), table(y=["02", "10"] * 5), ("02", "10")),
    ],
)  # fmt: skip
def test_classes_are_equal_where_they_mean_the_same(read: Read, one: bytes, other: str, names: tuple[str, ...]) -> None:
    suffix = "parquet" if one.startswith(b"PAR1") else "npz"
    assert read({f"a.{suffix}": one, "b.csv": other}).labels == names


def test_quantities_keep_their_digits(read: Read) -> None:
    times = 1.7e9 + np.arange(10) + 0.5
    source = read({"a.npz": npz(x=X, y=times), "b.csv": table(y=times)})
    assert sorted([*source.train.y.tolist(), *source.test.y.tolist()]) == sorted([*times, *times])
    for silo in deal(source, "natural", None, 0).standardised().silos:
        assert silo.train.y.dtype == torch.float32 and len(silo.train.y.unique()) == 8


def test_labels_are_what_the_user_says(read: Read) -> None:
    counts = read({"a.csv": table(y=[3, 7] * 5)}, labels="quantities")
    assert counts.classes == 0 and sorted({*counts.train.y.tolist(), *counts.test.y.tolist()}) == [3.0, 7.0]
    grades = read({"a.csv": table(y=[1.5, 2] * 5)}, labels="classes")
    assert (grades.classes, grades.labels) == (2, ("1.5", "2")) and grades.train.y.dtype == torch.int64
    assert read({"a.csv": table(y=["1.5", "x"] * 5)}, labels="classes").labels == ("1.5", "x")
    with pytest.raises(InputError, match="quantities must be finite numbers, got words"):
        read({"a.csv": table(y=["cat", "dog"] * 5)}, labels="quantities")
    with pytest.raises(InputError, match="labels of digits are classes"):
        load("digits", labels="quantities")


def test_whole_numbers_that_hardly_repeat_are_quantities(read: Read) -> None:
    """As classes they would show an accuracy near 0."""
    prices = {f"{name}.csv": table(y=1000 + 7 * np.arange(10)) for name in "ab"}
    source = read(prices)
    (note,) = source.notes
    assert source.classes == 0 and source.train.y.dtype == torch.float64
    assert read({"a.csv": table(y=25 + np.arange(10)), "b.csv": table(y=np.arange(10) ** 2)}).classes == 0
    assert "20 examples have 10 different whole numbers" in note and "--labels classes" in note
    assert deal(source, "natural", None, 0).notes[0] == note
    told = [read(prices, labels=kind) for kind in ("classes", "quantities")]
    assert [(source.classes, source.notes) for source in told] == [(10, ()), (0, ())]


@pytest.mark.parametrize(
    ("y", "classes", "said"),
    [
        (np.arange(10), 10, False),  # codes from 0 on
        (1 + np.arange(10), 10, False),
        (np.delete(np.arange(20), [3, 7, 8]), 17, False),  # of which some happen to be missing
        (7 * np.arange(9), 9, False),  # too few to tell
        (np.repeat(29 + np.arange(30), 2), 30, True),  # ages that repeat: nobody knows
        (np.repeat(np.arange(30), 2), 30, True),  # codes, or days
        (np.repeat(29 + np.arange(20), 2), 20, False),
        ([f"w{i}" for i in range(30)], 30, False),  # words are no quantities
    ],
)
def test_other_whole_numbers_are_classes_and_many_are_doubted(
    read: Read, y: np.ndarray | list[str], classes: int, said: bool
) -> None:
    source = read({"a.csv": table(x=np.arange(2.0 * len(y)).reshape(-1, 2) / 4, y=y)})
    assert source.classes == classes
    assert [("--labels quantities" in note) for note in source.notes] == [True] * said


def test_bytes_are_pixels(read: Read) -> None:
    images = np.full((10, 1, 2, 2), 255, dtype=np.uint8)
    source = read({"a.npz": npz(x=images, y=Y)})
    assert source.train.x.dtype == torch.uint8
    assert deal(source, "natural", None, 0).silos[0].train.x.unique().tolist() == [1.0]
    grey = read({"a.npz": npz(x=images[:, 0], y=Y)})
    assert torch.equal(grey.train.x, source.train.x)
    mixed = read({"a.npz": npz(x=images, y=Y), "b.npz": npz(x=np.zeros((10, 1, 2, 2), dtype=np.float32), y=Y)})
    assert [silo.train.x.unique().tolist() for silo in deal(mixed, "natural", None, 0).silos] == [[1.0], [0.0]]


def pictures(folder: str, **how: Any) -> dict[str, bytes]:
    values = {"cat": 0, "dog": 255}
    return {
        f"{folder}/{name}/{i}.{suffix}": picture(value, kind=kind, **how)
        for name, value in values.items()
        for i, (suffix, kind) in enumerate([("png", "PNG"), ("jpg", "JPEG"), ("JPEG", "JPEG")])
    }


def test_images_in_class_folders(read: Read) -> None:
    source = read({**pictures("north"), **pictures("south/train"), **pictures("south/test")})
    assert source.labels == ("cat", "dog") and tuple(source.train.x.shape[1:]) == (1, 3, 4)
    assert [(silo.train, silo.test) for silo in source.silos] == [(5, 1), (6, 6)]
    for silo in deal(source, "natural", None, 0).silos:
        for x, y in (silo.train, silo.test):
            assert torch.equal(x[:, 0, 0, 0], y * 2.0 - 1)  # black cats, white dogs


def test_colours_are_kept_where_there_are_any(read: Read) -> None:
    coloured = {
        "south/cat/1.png": picture((255, 0, 51), mode="RGB"),
        "south/dog/1.png": picture((0, 255, 0, 255), mode="RGBA"),
        "south/dog/2.png": picture(51),
    }
    source = read({**pictures("north"), **coloured})
    assert tuple(source.train.x.shape[1:]) == (3, 3, 4)
    south = deal(source, "natural", None, 0).silos[1]
    colours = torch.cat([south.train.x, south.test.x])[:, :, 0, 0]
    expected = [[1, -1, -0.6], [-1, 1, -1], [-0.6] * 3]
    torch.testing.assert_close(colours.sort(0).values, torch.tensor(expected).sort(0).values)


@pytest.mark.parametrize("names", [("0.5", "1.0"), ("01", "1"), ("2", "10"), ("1", "ill")])
def test_a_folder_is_a_class_by_its_name(read: Read, names: tuple[str, ...]) -> None:
    source = read({f"a/{name}/{i}.png": picture(0) for name in names for i in range(3)})
    assert source.labels == names


def test_folders_of_letters_beside_folders_of_digits(read: Read) -> None:
    files = {
        f"{silo}/{name}/{i}.png": picture(0)
        for silo, own in {"a": "01", "b": "xy"}.items()
        for name in own
        for i in "12"
    }
    assert read(files).labels == ("0", "1", "x", "y")


def test_sixteen_bits_are_scaled_not_cut(read: Read) -> None:
    deep = Image.fromarray(np.full((3, 4), 0x8000, dtype=np.uint16))
    packed = io.BytesIO()
    deep.save(packed, "PNG")
    source = read({f"a/{name}/{i}.png": packed.getvalue() for name in "xy" for i in range(2)})
    assert source.train.x.unique().tolist() == [0x80]


def locked() -> bytes:
    """An npz file whose entries say that they are encrypted."""
    packed = bytearray(npz(x=X, y=Y))
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        start = -1
        while (start := packed.find(mark, start + 1)) >= 0:
            packed[start + place] |= 1
    return bytes(packed)


def entry(header: str, content: bytes = b"") -> bytes:
    """An npz file with an array under this header."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        text = header.encode().ljust(117) + b"\n"
        archive.writestr("x.npy", b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + content)
    return packed.getvalue()


PLAIN = "is not an npz file of plain arrays, or is damaged"
BAD = table(X, ["cat"] * 10)
REFUSED: dict[str, tuple[Files, str]] = {
    "nothing there": ({}, "must be a folder with one file or folder per silo"),
    "an empty folder": ({".hidden": ""}, "must hold one file or folder per silo, found nothing"),
    "another format": ({"a.csv": table(), "b.tsv": "x"}, r"b.tsv must be a silo \(npz, csv, parquet, or a folder\)"),
    "two files in a silo": ({"a/one.csv": table(), "a/two.csv": table()}, "a must hold.*found one.csv, two.csv"),
    "test without train": ({"a/test.csv": table(), "a/other.csv": table()}, "a must hold train and test"),
    "one silo's parts": ({"train.csv": table(), "test.csv": table()}, "found train and test, .*folder above"),
    "one silo's images": ({**pictures("train"), **pictures("val")}, "found train and val, .*folder above"),
    "same name twice": ({"a.csv": table(), "a.npz": npz(x=X, y=Y)}, "names must differ, got 'a' 2 times"),
    "a name that is no name": ({"-a.csv": table()}, "name must start with a letter"),
    "one class": ({"a.csv": BAD, "b.csv": BAD}, "two classes or more, found 'cat' only"),
    "one example": ({"a.csv": table(X[:1], [0]), "b.csv": table()}, "silo 'a' needs 2 examples or more"),
    "an empty file": ({"a.csv": ""}, "a.csv must have a header of two columns"),
    "only a header": ({"a.csv": "x,label\n"}, "a.csv must have one row per example below its header"),
    "no header": ({"a.csv": "1,2,3\n4,5,6\n"}, "a.csv must start with a header, found a row of numbers"),
    "columns twice": ({"a.csv": "x,x,label\n1,2,3\n"}, "found 'x' twice"),
    "columns thrice": ({"a.csv": "x,a,x,x,label\n1,2,3,4,5\n"}, "found 'x' 3 times"),
    "no column of labels": (
        {"a.csv": table(header="a,b,kind")},
        "a.csv must have a column of labels called label, target, y, outcome or class, found a, b, kind: .*--label C",
    ),
    "labels in other words": ({"a.csv": "x,label,Class\n1,2,3\n"}, "one column of labels, found label, Class: .*--l"),
    "two columns of labels": ({"a.csv": "x,y,label\n1,2,3\n"}, "one column of labels, found y, label"),
    "a short row": ({"a.csv": "x,label\n1,a\n2\n"}, "a.csv, line 3: must have 2 values, found 1"),
    "a missing label": ({"a.csv": "x,label\n1,a\n2,?\n"}, "a.csv, line 3: label is missing"),
    "an open quote": ({"a.csv": 'x,label\n1,"a\n'}, "a.csv must be a csv file"),
    "a column too few": ({"a.csv": table(), "b.csv": "a,label\n1,0\n2,1\n"}, "b.csv: columns.*lacks 'b'"),
    "a column too many": ({"a.csv": "a,label\n1,0\n2,1\n", "b.csv": table()}, "b.csv: columns.*has also 'b'"),
    "more columns": ({"a.csv": table(), "b.npz": npz(x=np.ones((4, 3)), y=[0, 1] * 2)}, r"b.npz: .*\(2,\) of .*\(3,\)"),
    "npz without x": ({"a.npz": npz(y=Y)}, "a.npz must contain x and y, or x_train.*found y"),
    "npz with NaN": ({"a.npz": npz(x=X * np.nan, y=Y)}, "a.npz, x: x must be finite, got NaN or infinity in row 0"),
    "npz with words": ({"a.npz": npz(x=X.astype(str), y=Y)}, "a.npz, x: must be floating point or uint8"),
    "npz with counts": ({"a.npz": npz(x=X.astype(np.int64), y=Y)}, "convert it to float32"),
    "npz with a table of bytes": (
        {"a.npz": npz(x=X.astype(np.uint8), y=Y)},
        r"a.npz, x: uint8 must be pixels \[n, channels, height, width\], found shape \(10, 2\): .*float32",
    ),
    "npz with channels last": ({"a.npz": npz(x=np.zeros((10, 8, 8, 3), np.uint8), y=Y)}, r"pixels .* \(10, 8, 8, 3\)"),
    "npz with few labels": ({"a.npz": npz(x=X, y=Y[:3])}, "a.npz, y: must be one label for each of 10 examples"),
    "other columns, after an npz": (
        {"a.npz": npz(x=X, y=Y), "b.csv": table(), "c.csv": table(header="a,c,label")},
        "c.csv: columns must be those of .*b.csv, lacks 'b' and has also 'c'",
    ),
    "a gap beside an npz": ({"a.npz": npz(x=X, y=Y), "b.csv": "a,b,label\n1,,0\n"}, "b.csv, line 2: b is missing"),
    "words beside an npz": ({"a.npz": npz(x=X, y=Y), "b.csv": "a,b,label\n1,u,0\n"}, "b.csv, line 2: b must be a num"),
    "infinity in parquet": ({"a.parquet": parquet(x=[1.0, np.inf], label=[0, 1])}, "row 1: x must be finite"),
    "lists in parquet": ({"a.parquet": parquet(x=[[1.0], [2.0]], label=[0, 1])}, "x must be numbers, words or dates"),
    "an index": ({"a.csv": ",a,label\n0,1,u\n1,2,v\n"}, "a.csv must name every column, found ''.*without the index"),
    "an index read again": ({"a.csv": "Unnamed: 0,a,label\n0,1,u\n"}, "found 'Unnamed: 0' as number 1"),
    "an index in parquet": ({"a.parquet": parquet(a=[1.0], label=[0], __index_level_0__=[0])}, "without the index"),
    "no header, words": ({"a.csv": "1.2,0.3,ill\n0.1,2,well\n"}, "must start with a header, found '1.2,0.3,ill'"),
    "no header, words twice": ({"a.csv": "1,1,ill\n0,2,well\n"}, "must start with a header, found '1,1,ill'"),
    "no header, y and n": ({"a.csv": "1.2,0.3,y\n0.1,2,n\n"}, "must start with a header"),
    "numbers and words": (
        {"a.csv": table(), "b.csv": table(y=["ill", "well"] * 5)},
        "labels must be of one kind in all silos, got 0 in .*a.csv and 'well' in .*b.csv",
    ),
    "quantities and words": (
        {"a.csv": table(y=[1.5, 2] * 5), "b.csv": table(y=["ill", "2"] * 5)},
        "one kind in all silos, got 1.5 in .*a.csv and 'ill' in .*b.csv",
    ),
    "a quantity that is none": ({"a.csv": table(y=["0.5", "<0.1"] * 5)}, "got 0.5 in .*a.csv and '<0.1' in .*a.csv"),
    "an infinite quantity": ({"a.csv": table(y=["0.5", "inf"] * 5)}, "got 0.5 in .* and 'inf' in .*labels classes"),
    "codes": ({"a.csv": table(y=["01", "2"] * 5), "b.npz": npz(x=X, y=[1, 2] * 5)}, "'1' in .*b.npz and '01' in .*a"),
    "powers": ({"a.csv": table(y=["12e4", "120000"] * 5)}, "a label must be spelt in one way"),
    "too large a quantity": ({"a.csv": table(y=["1e400", "0.5"] * 5)}, "a.csv: quantities must fit.*got 1e400"),
    "an empty test part": (
        {"a.npz": npz(x_train=X, y_train=Y, x_test=X[:0], y_test=Y[:0])},
        "a.npz, x_test: must have one example or more",
    ),
    "a file among classes": (
        {**pictures("a/train"), **pictures("a/test"), "a/train/labels.csv": ""},
        "labels.csv must be a folder",
    ),
    "images without classes": ({"a/train/1.png": picture(0), "a/test/1.png": picture(0)}, "1.png must be a folder"),
    "npz without features": ({"a.npz": npz(x=X[:, :0], y=Y)}, "a.npz, x: x must have at least one feature"),
    "npz with validation": ({"a.npz": npz(**HALVES, x_val=X, y_val=Y)}, "a.npz .*found x_val: .*--val-fraction"),
    "npz with objects": ({"a.npz": npz(x=X, y=np.array([None] * 10))}, "must hold plain arrays, found Python objects"),
    "npz with other bytes": ({"a.npz": npz(x=X, y=[b"\xff"] * 10)}, "a.npz, y: must be words in UTF-8"),
    "npz with an empty label": ({"a.npz": npz(x=X, y=["", "b"] * 5)}, "a.npz, y: row 0 must have a label, found ''"),
    "npz with NA": ({"a.npz": npz(x=X, y=["a", " NA"] * 5)}, "a.npz, y: row 1 must have a label, found 'NA'"),
    "npz under a password": ({"a.npz": locked()}, PLAIN),
    "npz with half a header": ({"a.npz": entry("{'descr': '<f4', 'shape': (")}, PLAIN),
    "npz of an absurd shape": (
        {"a.npz": entry(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**58},)}}")},
        PLAIN,
    ),
    "parquet with ragged labels": (
        {"a.parquet": parquet(x=[1.0, 2.0], label=[[1], [1, 2]])},
        "a.parquet, label: must be numbers or words, found list",
    ),
    "parquet with other bytes": ({"a.parquet": parquet(x=[1.0], label=[b"\xff"])}, "a.parquet, label: .*in UTF-8"),
    "parquet with NA": ({"a.parquet": parquet(x=[1.0, 2.0], label=["a", "NA"])}, "label: row 1 must have a label"),
    "npz with a NaN label": ({"a.npz": npz(x=X, y=[np.nan, *Y[1:]])}, "a.npz, y: row 0 must have a label"),
    "npz halves in a half": (
        {"a/train.npz": npz(**HALVES), "a/test.npz": npz(x=X, y=Y)},
        "train.npz must hold x and y",
    ),
    "parquet that is none": ({"a.parquet": b"PAR1"}, "a.parquet is not a parquet file"),
    "no images": ({"a/cat/.hidden": ""}, "a must hold images in one folder per class"),
    "text among images": ({**pictures("a"), "a/cat/notes.txt": ""}, "notes.txt must be a PNG or JPEG"),
    "a broken image": ({**pictures("a"), "a/cat/9.png": picture(0)[:40]}, "9.png is not a whole PNG or JPEG"),
    "another size": ({**pictures("a"), "a/dog/9.png": picture(0, (5, 3))}, "9.png must have 4x3 pixels.*found 5x3"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "reason"), REFUSED.values(), ids=REFUSED)
def test_refusals_name_the_file_the_rule_and_the_remedy(read: Read, files: Files, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        read(files)
    assert "\n" not in str(caught.value) and ": " in str(caught.value)


@pytest.mark.parametrize("dtype", [">f4", ">f8", np.longdouble])
def test_numbers_of_other_machines(read: Read, dtype: str | type[np.longdouble]) -> None:
    assert whole(read({"north.npz": npz(x=X.astype(dtype), y=Y.astype(">i4"))})) == EXPECTED


def test_numbered_columns_are_a_header_where_the_labels_have_a_name(read: Read) -> None:
    assert whole(read({"north.csv": table(header="0,1,label")})) == EXPECTED


@pytest.mark.parametrize("name", ["दिल्ली", "Zu\u0308rich"])
def test_names_of_any_script(read: Read, name: str) -> None:
    (silo,) = read({f"{name}.csv": table()}).silos
    assert silo.name == unicodedata.normalize("NFC", name)


@pytest.mark.parametrize(
    ("method", "name"), [("is_dir", "a"), ("is_file", "a"), ("iterdir", "cat"), ("is_file", "0.png")]
)
def test_what_may_not_be_read_is_named(read: Read, monkeypatch: pytest.MonkeyPatch, method: str, name: str) -> None:
    real = getattr(Path, method)

    def forbidden(path: Path, *rest: Any, **more: Any) -> Any:
        if path.name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *rest, **more)

    files = pictures("a")
    read(files)
    monkeypatch.setattr(Path, method, forbidden)
    with pytest.raises(InputError, match=rf"{name} cannot be read \(Permission denied\): check its permissions"):
        read({})


@pytest.mark.parametrize(
    ("files", "module", "extra"),
    [({"a.parquet": parquet(**COLUMNS)}, "pyarrow", "parquet"), (pictures("a"), "PIL", "images")],
)
def test_what_is_not_installed_is_named(
    read: Read, monkeypatch: pytest.MonkeyPatch, files: Files, module: str, extra: str
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == module:
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=rf"pip install 'amity\[{extra}\]'"):
        read(files)
