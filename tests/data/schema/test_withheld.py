"""What a silo withholds: nothing that rests on fewer rows than the least count leaves, and all else is told exactly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amity.data.schema.cells import table_of_rows
from amity.data.schema.summary import Summary, summarise
from amity.data.schema.summary_json import LONGEST_NAME, summary_of, summary_text
from amity.data.schema.withheld import withheld
from amity.errors import InputError

CELLS = st.sampled_from(["", "1", "2.5", "yes", "no", "never", "Schmidt", "2024-03-31", "1/2/2024"])


def summary(**columns: list[str]) -> Summary:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return summarise(table_of_rows(rows, columns))


def test_what_few_rows_have_is_not_told() -> None:
    found = withheld(
        summary(
            word=["never"] * 8 + ["pipe"] * 6 + ["Schmidt"] * 2,
            rare=["183.5"] + [""] * 15,
            remark=["asks for Schmidt"] * 2 + [""] * 14,
            vip=["yes"] + ["no"] * 15,
        ),
        7,
    )["columns"]
    assert found["word"]["named"] == {"never": 8} and found["word"]["words"] == 16
    assert (found["rare"]["numbers"], found["rare"]["missing"], found["rare"]["mean"]) == (0, 16, 0.0)
    assert (found["remark"]["words"], found["remark"]["named"]) == (0, {})
    assert found["vip"]["yes"] == 0
    assert "Schmidt" not in json.dumps(found) and "183.5" not in json.dumps(found)


def test_what_enough_rows_have_is_told_exactly() -> None:
    whole = summary(age=[str(40 + i) for i in range(12)], insured=["yes"] * 6 + ["no"] * 6, sex=["f"] * 5 + ["m"] * 7)
    assert withheld(whole, 5) == whole


def test_words_that_no_contract_can_hold_are_not_named() -> None:
    long, hidden = "x" * (LONGEST_NAME + 1), "a\u202eb"
    found = withheld(summary(word=[long] * 6 + [hidden] * 6 + ["plain"] * 6), 5)
    assert set(found["columns"]["word"]["named"]) == {"plain"}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=30), st.integers(5, 9))
def test_what_is_withheld_is_what_a_server_takes(rows: list[tuple[str, str]], least: int) -> None:
    first, second = ([row[part] for row in rows] for part in (0, 1))
    found = withheld(summary(a=first, b=second), least)
    assert summary_of(summary_text(found), least) == found
    assert withheld(found, least) == found
    for name, cells in (("a", first), ("b", second)):
        column = found["columns"][name]
        assert all(cells.count(word) >= least for word in column["named"] if word == "never")
        assert all(count == 0 or count >= least for count in (column["numbers"], column["words"]))


def test_a_table_that_is_too_wide_is_refused_in_one_line() -> None:
    wide = summary(**{f"column {place}": ["1"] * 6 for place in range(4000)})
    with pytest.raises(InputError, match="a summary has at most 900,000 characters, that of these 4,000 columns"):
        summary_text(wide)
