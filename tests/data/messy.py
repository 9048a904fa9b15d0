"""Tables as people have them, made at random: every kind of column, gaps in all spellings, columns in any order."""

import csv
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

from hypothesis import strategies as st

GAPS = ("", "NA", "n/a", "NaN", "null", "?", "-", " ")
LABEL = "finding"

Row = dict[str, str]

_DAY = date(2020, 1, 1)


def _cell(kind: str, row: int) -> st.SearchStrategy[str]:
    numbers = st.floats(-1e6, 1e6).map(lambda number: repr(round(number, 3)))
    kinds: dict[str, st.SearchStrategy[str]] = {
        "number": numbers,
        "count": st.integers(-5, 10**7).map(str),
        "answer": st.sampled_from(["yes", "No", "Y", "n", "TRUE", "false", "1", "0"]),
        "word": st.sampled_from(["red", "Red", "green", "dark blue", "other", "3+"]),
        "date": st.integers(0, 2000).map(lambda days: (_DAY + timedelta(days)).isoformat()),
        "id": st.just(f"P-{row:04}"),
        "same": st.just("7"),
        "nothing": st.sampled_from(GAPS),
    }
    return kinds[kind]


KINDS = ("number", "count", "answer", "word", "date", "id", "same", "nothing")


@st.composite
def silos(draw: st.DrawFn) -> dict[str, list[Row]]:
    """Between one and three silos with the same columns, in an order of each silo's own."""
    kinds = {f"c{place}": kind for place, kind in enumerate(draw(st.lists(st.sampled_from(KINDS), max_size=5)))}
    kinds["sure"] = "number"  # one column at least can be a feature
    gappy = draw(st.sets(st.sampled_from(sorted(kinds))))
    found = {}
    for name in ("north", "south", "west")[: draw(st.integers(1, 3))]:
        order = draw(st.permutations([*kinds, LABEL]))
        rows = []
        for row in range(draw(st.integers(4, 14))):
            cells = {LABEL: ("ill", "well")[row % 2]}
            for column, kind in kinds.items():
                gap = column in gappy and draw(st.integers(0, 3)) == 0
                cells[column] = draw(st.sampled_from(GAPS) if gap else _cell(kind, row))
            cells["sure"] = f"{row + 0.5}"
            rows.append({column: cells[column] for column in order})
        found[name] = rows
    return found


def write(folder: Path, tables: Mapping[str, Sequence[Row]]) -> Path:
    """Write each silo as a csv file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    return folder
