"""Options are declared once: type, range, help; what is outside is refused with the rule and what was got."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amity.config.options import check, describe, fields_of, names_of, nearest, option, parse, unknown
from amity.config.run import Run
from amity.contract import InputError
from amity.methods import METHODS, build, options_of, parse_option, settings_of


@dataclass(frozen=True)
class Sample:
    rate: float = option(0.5, "a rate", symbol="eta", above=0, at_most=1)
    count: int | Literal["all"] = option("all", "how many", at_least=1)
    mode: Literal["one", "two", 3] = option("one", "which")
    flag: bool = option(False, "yes or no")
    note: str = option("none", "any text")
    share: float | Literal["auto"] = option(0.0, "a share", at_least=0, below=1)
    inner_name: int = option(2, "typed by another word", key="name", on_resume="grow", neutral=True)
    plain: int = 7  # no option: it carries no help

    def __post_init__(self) -> None:
        check(self)


KEYS = ["rate", "count", "mode", "flag", "note", "share", "name"]


def refused(**values: Any) -> str:
    with pytest.raises(InputError) as caught:
        Sample(**values)
    return str(caught.value)


def test_options_are_the_fields_with_help() -> None:
    assert list(fields_of(Sample)) == KEYS
    assert [row["name"] for row in describe(Sample)] == KEYS
    rows = {row["name"]: row for row in describe(Sample)}
    want = {"rule": "a number > 0 and <= 1", "default": 0.5, "symbol": "eta", "help": "a rate"}
    assert want.items() <= rows["rate"].items()
    assert "all" in rows["count"]["rule"] and "whole number >= 1" in rows["count"]["rule"]


def test_defaults_pass() -> None:
    check(Sample())


def test_a_default_outside_its_own_range_is_refused_where_it_is_used() -> None:
    @dataclass(frozen=True)
    class Wrong:
        rate: float = option(2.0, "a rate", at_most=1)

    check(Wrong(0.5))
    for _ in range(2):
        with pytest.raises(InputError, match="needs rate to be a number <= 1, got 2.0"):
            check(Wrong())


@given(st.floats(allow_nan=True, allow_infinity=True) | st.integers(-3, 3))
def test_a_number_is_admitted_exactly_within_its_range(value: float) -> None:
    if 0 < value <= 1:
        assert Sample(rate=value).rate == value
    else:
        text = refused(rate=value)
        assert "rate" in text and "> 0 and <= 1" in text and repr(value) in text


@given(st.integers(1 - 2**63, 2**63 - 1))
def test_a_whole_number_or_a_word(value: int) -> None:
    if value >= 1:
        assert Sample(count=value).count == value
    else:
        assert ">= 1" in refused(count=value)
    assert Sample(count="all").count == "all"


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"count": 1.5}, "whole number"),
        ({"count": True}, "whole number"),
        ({"count": "some"}, "all"),
        ({"rate": "fast"}, "number"),
        ({"rate": True}, "number"),
        ({"rate": math.nan}, "number"),
        ({"mode": "three"}, "one of one, two, 3"),
        ({"mode": True}, "one of"),
        ({"flag": 1}, "true or false"),
        ({"note": 3}, "text"),
        ({"share": 1.0}, "< 1"),
        ({"share": math.inf}, "< 1"),
        ({"inner_name": "x"}, "name"),
        ({"rate": None}, "number"),
    ],
)
def test_refusals_name_the_rule(values: dict[str, Any], part: str) -> None:
    text = refused(**values)
    assert part in text and repr(next(iter(values.values()))) in text and "\n" not in text


def test_refusals_speak_the_users_word() -> None:
    assert "inner_name" not in refused(inner_name=1.5)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_survive_the_way_through_text(value: float) -> None:
    assert parse(Sample, "rate", repr(value)) == value


@given(st.integers())
def test_whole_numbers_survive_the_way_through_text(value: int) -> None:
    assert parse(Sample, "count", f" {value} ") == value and isinstance(parse(Sample, "count", str(value)), int)


@given(st.text())
def test_text_is_read_or_refused_but_never_crashes(text: str) -> None:
    for key in KEYS:
        try:
            value = parse(Sample, key, text)
        except InputError as error:
            assert key in str(error) and "\n" not in str(error)
        else:
            assert isinstance(value, (int, float, str, bool))


@given(st.text(min_size=1))
def test_free_text_is_taken_as_it_is(text: str) -> None:
    assume(text.strip() == text)
    assert parse(Sample, "note", text) == text


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("count", "ALL", "all"),
        ("mode", "two", "two"),
        ("mode", "3", 3),
        ("flag", "True", True),
        ("flag", "false", False),
        ("rate", "1e-3", 1e-3),
        ("share", "auto", "auto"),
        ("name", "4", 4),
    ],
)
def test_words_are_read(key: str, text: str, value: Any) -> None:
    got = parse(Sample, key, text)
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    ("key", "text"), [("count", "1.5"), ("flag", "1"), ("flag", "yes"), ("mode", "on"), ("rate", "")]
)
def test_words_that_cannot_be_read(key: str, text: str) -> None:
    with pytest.raises(InputError, match=f"{key} to be"):
        parse(Sample, key, text)


def test_not_a_number_is_refused_when_the_instance_is_made() -> None:
    for word in ("nan", "inf", "-inf"):
        assert "rate" in refused(rate=parse(Sample, "rate", word))


def test_nearest_words_come_first() -> None:
    assert nearest("fedanp", ["fedavg", "fedamp", "apple"]).startswith("did you mean fedamp")
    assert nearest("zzz", ["b", "a"]) == "known: a, b"
    assert str(unknown("method", "fedanp", ["fedamp"])).startswith("unknown method 'fedanp': did you mean fedamp")


# Roles


def test_options_are_listed_by_role_under_the_word_that_users_type() -> None:
    assert names_of(Sample, lambda role: role.neutral) == ("name",)
    assert names_of(Sample, lambda role: role.on_resume != "fixed") == ("name",)
    assert names_of(Sample, lambda role: role.on_resume == "fixed") == tuple(KEYS[:-1])
    assert names_of(Sample, lambda role: role.per_method or role.follows_method or role.repeatable or role.deals) == ()


def test_what_changes_no_result_may_change_on_resume_but_for_the_device() -> None:
    """Models lie on one device from the first round on; all else that is neutral may be another when a run goes on."""
    neutral = names_of(Run, lambda role: role.neutral)
    free = names_of(Run, lambda role: role.on_resume == "free")
    assert {*neutral} - {*free} == {"device"}
    assert {*free} - {*neutral} == {"evaluate_every"}
    assert names_of(Run, lambda role: role.on_resume == "grow") == ("rounds",)


def test_what_follows_the_method_is_auto_unless_it_is_given() -> None:
    for name in names_of(Run, lambda role: role.follows_method):
        assert fields_of(Run)[name].default == "auto", name


def test_a_flag_that_may_be_repeated_takes_text() -> None:
    rows = {row["name"]: row for row in describe(Run)}
    assert all(rows[name]["type"] == ["str"] for name in names_of(Run, lambda role: role.repeatable))


# The methods' own options


@pytest.mark.parametrize("name", METHODS)
def test_methods_say_what_they_were_made_with(name: str) -> None:
    rows = options_of(name)
    assert settings_of(build(name)) == {row["name"]: row["default"] for row in rows}
    assert build(name, settings_of(build(name))) == build(name)
    assert all(row["help"] for row in rows)


@pytest.mark.parametrize("name", METHODS)
def test_defaults_survive_the_way_through_text(name: str) -> None:
    for row in options_of(name):
        value = parse_option(name, row["name"], str(row["default"]))
        assert value == row["default"] and type(value) is type(row["default"])


@pytest.mark.parametrize("name", METHODS)
def test_unknown_options_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"unknown option of {name} 'sigmaa'"):
        build(name, {"sigmaa": 1})
    with pytest.raises(InputError, match="unknown option"):
        parse_option(name, "sigmaa", "1")


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(InputError, match="unknown method 'fedampp': did you mean fedamp"):
        build("fedampp")


def test_settings_change_what_they_name() -> None:
    method = build("fedprox-ft", {"mu": 0.5, "ft_epochs": 3})
    assert settings_of(method) == {"mu": 0.5, "ft_epochs": 3, "ft_lr": "same", "weighting": "samples"}


def test_choices_keep_the_order_of_their_own_class() -> None:
    """Literal["a", "b"] == Literal["b", "a"]: what is remembered of one must not be told of the other."""

    @dataclass(frozen=True)
    class One:
        word: Literal["a", "b"] = option("a", "a word")

    @dataclass(frozen=True)
    class Other:
        word: Literal["b", "a"] = option("a", "a word")

    rules = [describe(cls)[0]["rule"] for cls in (One, Other)]
    assert rules == ["one of a, b", "one of b, a"]


@pytest.mark.parametrize("name", ["rounds", "checkpoint_every", "evaluate_every", "seed", "lr", "clients"])
@pytest.mark.parametrize("number", [2**63, -(2**63), 10**400], ids=lambda number: str(number)[:6])
def test_numbers_that_no_file_has_are_refused(name: str, number: int) -> None:
    """A configuration is written down, and read again."""

    def make(name: str, value: Any) -> Run:
        options: dict[str, Any] = {name: value}
        return Run("fedavg", **options)

    with pytest.raises(InputError, match=f"needs {name} to be a number of at most 19 digits, got -?[0-9]"):
        make(name, number)
    make("checkpoint_every", 2**63 - 1)
