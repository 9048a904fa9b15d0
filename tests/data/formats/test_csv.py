"""A csv file becomes the tensors that were written into it."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.data.formats.csv import header, read
from amity.data.memory import MemoryBudget
from amity.data.schema.columns import Wanted, choose
from amity.data.schema.labels import MISSING

words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6).filter(
    lambda word: word.lower() not in MISSING
)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(
    rows=st.lists(st.tuples(numbers, numbers, words), min_size=2, max_size=12),
    label=st.sampled_from(["label", "TARGET", "y", "Outcome", "class"]),
    place=st.integers(0, 2),
)
def test_a_csv_file_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, float, str]], label: str, place: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        for a, b, mark in [("one", "two", label), *rows]:
            cells: list[object] = [a, b]
            cells.insert(place, mark)
            writer.writerow(cells)
    part = read(path, choose(header(path), Wanted()), MemoryBudget())
    assert part.columns == ("one", "two")
    assert part.x.tolist() == [[a, b] for a, b, _ in rows]
    assert part.y.tolist() == [mark for _, _, mark in rows]
