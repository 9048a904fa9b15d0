"""Schema files: what is wrong with one is said at once, what was decided is read back."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from amity.data.schema.schema_file import read_schema
from amity.errors import InputError, InputErrors

AGE = {"name": "age", "kind": "number", "centre": 50, "scale": 10}


def refusal(path: Path, content: dict[str, Any]) -> tuple[str, ...]:
    path.write_text(tomli_w.dumps(content))
    with pytest.raises(InputError) as caught:
        read_schema(path)
    return caught.value.lines if isinstance(caught.value, InputErrors) else (str(caught.value),)


def test_all_mistakes_of_a_schema_at_once(tmp_path: Path) -> None:
    columns = [
        {**AGE, "scale": 0},
        {"name": "sex", "kind": "catgory"},
        {"name": "word", "kind": "category"},
        {"name": "day", "kind": "date", "order": "ydm", "parts": ["hour"]},
        {"kind": "number"},
        {**AGE, "colour": "red", "missing": 1},
    ]
    lines = refusal(tmp_path / "s.toml", {"version": 2, "columns": columns, "more": 1})
    for words in (
        "version must be 1, got 2",
        "label must name the column of the labels",
        "unknown key 'more'",
        "column 'age': scale must be a number > 0, got 0",
        "column 'sex': kind must be one of number, yes/no, category",
        "column 'word': a category needs categories",
        "column 'day': order must be ymd, dmy or mdy, got 'ydm'",
        "column 'day': parts must be a list of days, month, weekday",
        "column number 5 must have a name",
        "column 'age': unknown key 'colour'",
        "column 'age': missing must be true or false",
    ):
        assert sum(words in line for line in lines) == 1, (words, lines)
    assert len(lines) == 11 and all(line.startswith(str(tmp_path / "s.toml")) for line in lines)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"version": 1, "label": "y", "columns": [AGE, AGE]}, "column 'age' must stand there once"),
        ({"version": 1, "label": "age", "columns": [AGE]}, "column 'age' must stand there once, and not be the label"),
        ({"version": 1, "label": "y", "columns": [{**AGE, "scale": 10**400}]}, "a whole number has at most 19 digits"),
        ({"version": 1, "label": "y", "columns": [{"name": "x", "kind": "id"}]}, "can be a feature, found none"),
        ({"version": 1, "label": "y", "columns": [AGE, {"name": "x", "kind": "unclear"}]}, "x is still unclear"),
        (
            {"version": 1, "label": "y", "columns": [{**AGE, "missing": True}, {**AGE, "name": "age missing"}]},
            "two columns give 'age missing'",
        ),
    ],
)
def test_a_schema_that_cannot_be_used(tmp_path: Path, content: dict[str, Any], words: str) -> None:
    (line,) = refusal(tmp_path / "s.toml", content)
    assert words in line


def test_a_file_that_is_no_schema(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the schema .*nowhere.toml"):
        read_schema(tmp_path / "nowhere.toml")
    (tmp_path / "s.toml").write_text("version = ")
    with pytest.raises(InputError, match="s.toml is not valid TOML"):
        read_schema(tmp_path / "s.toml")


def test_what_is_left_out_of_a_file_has_its_usual_value(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(tomli_w.dumps({"version": 1, "label": "y", "columns": [AGE]}))
    schema = read_schema(tmp_path / "s.toml")
    assert schema.columns[0].fill == 50.0 and schema.features == ("age",)
    assert schema.transform([{"age": "60"}, {}]).tolist() == [[1.0], [0.0]]
