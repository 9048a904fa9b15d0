"""What silos' summaries become: kinds, categories and conflicts, and what a summary never tells."""

import json
from typing import Any

import pytest

from amity.data.schema.account import account_of
from amity.data.schema.agreement import Agreement, agree, pooled
from amity.data.schema.cells import table_of_rows
from amity.data.schema.column_schema import ColumnSchema
from amity.data.schema.dates import days_of, month_of, weekday_of
from amity.data.schema.summary import LEAST, MOST, encoded, summarise


def agreed(**silos: list[Any]) -> Agreement:
    """The agreement of silos with one column."""
    tables = {name: table_of_rows([{"x": cell} for cell in cells], ["x"]) for name, cells in silos.items()}
    return agree("label", {name: summarise(table) for name, table in tables.items()})


def column(**silos: list[Any]) -> ColumnSchema:
    found = agreed(**silos)
    assert found.conflicts == (), found.conflicts
    return found.schema.columns[0]


DAYS = [f"2024-0{1 + i % 9}-{1 + i % 28:02}" for i in range(20)]


@pytest.mark.parametrize(
    ("silos", "kind"),
    [
        ({"a": ["1.5", "2"] * 5}, "number"),
        ({"a": ["1", "0"] * 5}, "yes/no"),
        ({"a": ["1", "0"] * 5, "b": ["Yes", "n"] * 5}, "yes/no"),
        ({"a": ["1", "0"] * 5, "b": ["1", "7.5"] * 5}, "number"),
        ({"a": ["yes", "no"] * 5, "b": ["yes", "former"] * 5}, "category"),
        ({"a": ["m", "f"] * 5, "b": [""] * 5}, "category"),
        ({"a": ["0", "1", "3+"] * 5, "b": ["0", "1"] * 5}, "category"),  # as numbers of children
        ({"a": DAYS, "b": ["31.12.2023", "01.01.2024"] * 5}, "date"),
        ({"a": [""] * 9, "b": ["NA"] * 9}, "empty"),
        ({"a": ["7"] * 9, "b": ["8"] * 9}, "constant"),
        ({"a": ["ward"] * 9, "b": [""] * 9}, "category"),  # where it is missing tells something
        ({"a": [f"P{i}" for i in range(20)]}, "id"),
        ({"a": [f"P{i}" for i in range(20)], "b": [str(i) for i in range(20)]}, "id"),
        ({"a": [str(3 * i) for i in range(20)]}, "id"),
        ({"a": [str(7 * i % 20 / 2) for i in range(20)]}, "number"),
        ({"a": [f"{i // 2} came late" for i in range(40)]}, "text"),
        ({"a": [f"{i // 2} came late" for i in range(40)] + ["17"]}, "text"),
    ],
)
def test_kinds(silos: dict[str, list[str]], kind: str) -> None:
    assert column(**silos).kind == kind


@pytest.mark.parametrize(
    ("silos", "rule", "named"),
    [
        ({"a": [f"{i / 3}" for i in range(30)] + ["<5"]}, "has numbers and other words", ("a",)),
        ({"a": ["1", "2.5"] * 5, "b": ["1e300", "3.5"] * 5, "c": ["4", "5.5"] * 5}, "has numbers too large", ("b",)),
        ({"b": ["1.5"] * 3 + ["2"], "a": ["m", "f"] * 5}, "numbers at one silo and words at another", ("b", "a")),
        ({"a": ["1", "2"] * 5, "b": ["m", "f"] * 5}, "numbers at one silo and words at another", ("a", "b")),
        ({"a": [*DAYS, "in May"]}, "has dates and other words", ("a",)),
        ({"a": DAYS, "b": ["m", "f"] * 5}, "has dates at one silo and other words at another", ("a", "b")),
        ({"a": ["03/04/2024", "04/05/2024"] * 5}, "nobody can say whether day or month", ("a",)),
        ({"a": ["13/04/2024", "01/02/2024"], "b": ["04/13/2024", "01/02/2024"]}, "day first at one silo", ("a", "b")),
    ],
)
def test_conflicts(silos: dict[str, list[str]], rule: str, named: tuple[str, ...]) -> None:
    (conflict,) = agreed(**silos).conflicts
    assert rule in conflict.rule and conflict.silos == named
    assert agreed(**dict(reversed(silos.items()))).conflicts == (conflict,)


def test_one_silo_tells_the_order_of_day_and_month_for_all() -> None:
    found = column(a=["03/04/2024", "04/05/2024"] * 5, b=["13/04/2024", "02/05/2024"] * 5)
    assert (found.kind, found.order) == ("date", "dmy")
    days = [days_of(word, "dmy") or 0.0 for word in ("03/04/2024", "04/05/2024", "13/04/2024", "02/05/2024")]
    assert found.centre == pytest.approx(sum(days) / 4)
    assert days_of("2000-01-31 12:00", "ymd") == 30.5 and days_of("2000-02-30", "ymd") is None


def test_categories_are_the_union_of_what_enough_rows_share() -> None:
    found = column(a=["red"] * 9 + ["green"] * (LEAST - 1), b=["green"] * LEAST + ["Secret"], c=["?"])
    assert (found.categories, found.other, found.missing) == (("green", "red"), True, True)
    assert found.features == ("x=green", "x=red", "x=other", "x missing")
    many = column(a=[f"w{i:03}" for i in range(MOST + 9) for _ in range(LEAST)])
    assert len(many.categories) == MOST and many.other
    assert column(a=["other", "red"] * 9).features == ("x=red", "x=other")


def test_a_summary_names_nothing_rare() -> None:
    rows = [{"x": f"{1000.5 + i}", "word": "red"} for i in range(30)] + [{"x": "31337.25", "word": "leprosy"}]
    text = encoded(summarise(table_of_rows(rows, ["x", "word"]))).decode()
    assert "leprosy" not in text and "31337" not in text and "1000.5" not in text
    assert json.loads(text)["columns"]["word"]["named"] == {"red": 30}
    assert len(text) < 1000


def test_pooling_by_hand() -> None:
    mean, deviation = pooled([(2, 1.0, 2.0), (1, 4.0, 0.0)])  # of 0, 2 and 4
    assert mean == 2 and deviation == pytest.approx((8 / 3) ** 0.5)


def test_the_account_says_what_was_done() -> None:
    found = agreed(a=["1.5", "2.5", "NA", "1.5"])
    (told,) = account_of(found.schema, found.missing)
    assert told["kind"] == "number" and told["missing"] == 0.25 and told["features"] == ["x", "x missing"]
    assert told["done"].startswith("(x - 1.8333) / 0.4714; missing: 1.833, flagged")


def test_the_last_day_of_the_calendar_is_a_date_and_what_comes_after_it_is_none() -> None:
    """Registers write 9999-12-31 for "never"."""
    last = days_of("9999-12-31 23:59:59", "ymd")
    assert last is not None and (month_of(last), weekday_of(last)) == (12, 4)
    for after in ("9999-12-31 24:00", "9999-12-31T23:59:60"):
        assert days_of(after, "ymd") is None
    assert column(a=["2024-01-02"] * 9 + ["9999-12-31"]).kind == "date"
    assert agreed(a=["2024-01-02"] * 9 + ["9999-12-31 24:00"]).conflicts[0].rule == "has dates and other words"
