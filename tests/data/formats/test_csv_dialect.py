"""csv files of other programs and countries: recognised, or refused in one line that says what to do."""

from pathlib import Path

import numpy as np
import pytest

from amity.contract import InputError
from amity.data import load
from amity.data.formats.csv import read_table
from amity.data.formats.csv_dialect import dialect_of
from amity.data.memory import MemoryBudget
from amity.data.schema.cells import MARKS, ColumnReader
from amity.data.schema.columns import Wanted, choose

ROWS = [(i + 0.5, ("süß", "herb")[i % 2], 1000 + i % 7, i % 2) for i in range(30)]
HEADER = ("größe", "geschmack", "zahl", "label")


def text(divider: str = ",", decimal: str = ".") -> str:
    rows = [tuple(str(cell).replace(".", decimal) for cell in row) for row in ROWS]
    return "\n".join(divider.join(row) for row in (HEADER, *rows))


FILES = {
    "utf-8": text().encode(),
    "with a mark": text().encode("utf-8-sig"),
    "utf-16": text().encode("utf-16"),
    "windows": text().encode("cp1252"),
    "semicolons": text(";").encode(),
    "semicolons and commas": text(";", ",").encode(),
    "tabs and commas": text("\t", ",").encode("cp1252"),
    "bars": text("|").encode(),
    "lines of windows": text(";", ",").replace("\n", "\r\n").encode("utf-8-sig"),
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_every_way_of_writing_gives_the_same(tmp_path: Path, content: bytes) -> None:
    for name, text in (("a", content), ("b", FILES["utf-8"])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "north.csv").write_bytes(text)
    one, other = (load(f"folder:{tmp_path / name}") for name in "ab")
    assert one.features == other.features == ("größe", "geschmack=herb", "geschmack=süß", "zahl")
    assert one.train.x.tolist() == other.train.x.tolist() and one.schema == other.schema
    usual = content in (FILES["utf-8"], FILES["with a mark"])
    assert [("north.csv: " in note) for note in one.notes] == [True] * (not usual)


def test_two_decimal_signs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "north.csv"
    path.write_text("x;label\n1,5;a\n1.234;b\n2,5;a\n")
    with pytest.raises(InputError, match="north.csv: x must have one decimal sign, found numbers with commas and with"):
        read_table(path, choose(["x", "label"], Wanted()), MemoryBudget())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\3\4\x81\0\0x", r"must be a csv file in UTF-8 \(it is no text in Windows-1252 either\): save"),
        (b"\xff\xfea", r"must be a csv file in UTF-8 \(.*\): save it as one"),
        (b'x,label\n1,"a\n', r"must be a csv file \(unexpected end of data\): save it as one"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=words):
        load(f"folder:{tmp_path}", label="label")


def test_dividers_in_quotes_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"a;b;c","d;e",label\n')
    assert dialect_of(tmp_path / "a.csv").divider == ","


@pytest.mark.parametrize("block", [1, 2, 7])
def test_cells_are_numbers_words_or_gaps(block: int) -> None:
    cells = ["1", " 2.5 ", "-3e2", "", "NA", "007", "Old", " old", "1_000", "inf", "1e999", "?", "4", *MARKS, "n/A"]
    reader = ColumnReader()
    for start in range(0, len(cells), block):
        reader.add(cells[start : start + block])
    column = reader.column()
    numbers = {0: 1, 1: 2.5, 2: -300, 12: 4}
    words = {5: "007", 6: "old", 7: "old", 8: "1_000", 9: "inf", 10: "1e999"}
    assert column.used() == {"007": 1, "old": 2, "1_000": 1, "inf": 1, "1e999": 1}
    for row in range(len(cells)):
        assert np.isnan(column.numbers[row]) == (row not in numbers)
        assert column.missing[row] == (row not in numbers and row not in words)
        assert column.example(row) == words.get(row, f"{numbers[row]:g}" if row in numbers else "")
