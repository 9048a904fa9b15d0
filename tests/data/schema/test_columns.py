"""Columns of tables: the label is said or has a usual name, what is dropped is not read, all mistakes come at once."""

import csv
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from amity import Run
from amity.config.file import read_config
from amity.contract import InputError
from amity.data import Source, deal, load
from amity.data.schema.columns import NAMES, Wanted, choose, spelt, written
from amity.data.schema.labels import is_number
from amity.prepare import silos_of

ROWS = [(i % 5 / 2, i % 7 / 3, i % 2, f"P{i:03}") for i in range(10)]
HEADER = ("age", "dose", "ill", "patient")


def write(path: Path, header: Sequence[str] = HEADER, rows: Sequence[Sequence[object]] = ROWS, **dialect: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding=dialect.pop("encoding", "utf-8")) as stream:
        csv.writer(stream, **dialect).writerows([header, *rows])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("north", "south", "west"):
        write(tmp_path / "own" / f"{name}.csv")
    return tmp_path / "own"


def refusal(folder: Path, **how: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(f"folder:{folder}", **how)
    text = str(caught.value)
    assert "\n" not in text
    return text


def examples(source: Source, silo: int = 0) -> list[list[float]]:
    """All examples of a silo, their labels last."""
    one = deal(source, "natural", None, 0).silos[silo]
    pairs = [pair for x, y in (one.train, one.test) for pair in zip(x.tolist(), y.tolist(), strict=True)]
    return sorted([*x, y] for x, y in pairs)


def test_the_label_is_what_the_user_says_and_dropped_columns_are_not_read(folder: Path) -> None:
    source = load(f"folder:{folder}", label="ill", drop=["patient"], scale="none")
    assert (source.label, source.features, source.classes) == ("ill", ("age", "dose"), 2)
    silos = deal(source, "natural", None, 0)
    assert (silos.label, silos.features) == ("ill", ("age", "dose"))
    assert np.allclose(examples(source), sorted(row[:3] for row in ROWS))
    assert load(f"folder:{folder}", label="dose", drop="patient", labels="quantities").features == ("age", "ill")


def test_the_label_is_never_guessed(folder: Path) -> None:
    text = refusal(folder, drop=["patient"])
    assert "north.csv" in text and "south.csv" in text and "west.csv" in text
    assert text.count("must have a column of labels called label, target, y, outcome or class") == 1
    assert "found age, dose, ill: say which it is with --label COLUMN" in text


@pytest.mark.parametrize(
    ("label", "drop", "words"),
    [
        ("Ill", ["patient"], "'Ill' of --label, found age, dose, ill: did you mean ill?"),
        ("il", ["patient"], "did you mean ill?"),
        ("diagnosis", ["patient"], "found age, dose, ill: say which column it is"),
        ("ill", ["patiant"], "'patiant' is in none (columns: age, dose, ill, patient): did you mean patient?"),
        ("ill", ["zzz", "patient"], "'zzz' is in none (columns: age, dose, ill, patient): leave it out"),
        ("ill", ["ill"], "got 'ill' as both: take it out of --drop-column"),
        ("ill", ["age", "dose", "patient"], "features beside the label 'ill', found none that is not dropped"),
        (None, ["age", "dose", "ill", "patient"], "found none that is not dropped: drop fewer columns"),
        (3, [], "a column's name must be text, got 3"),
        ("ill", [3], "a column's name must be text, got 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_with_the_nearest_names(
    folder: Path, label: str | int | None, drop: list[str | int], words: str
) -> None:
    assert words in refusal(folder, label=label, drop=drop)


def test_all_mistakes_of_a_folder_are_told_at_once(folder: Path) -> None:
    write(folder / "a.csv", ("age", "dose", "il", "patient"))
    write(folder / "b.csv", ("age", "age", "ill", "patient"))
    write(folder / "c.csv", ("dose", "weight", "ill", "patient"))
    write(folder / "d.csv", ("", "dose", "ill", "patient"))
    text = refusal(folder, label="ill", drop=["patient"])
    for words in (
        "a.csv must have the column 'ill' of --label, found age, dose, il: did you mean il?; ",
        "b.csv must have different columns, found 'age' twice: rename one; ",
        "d.csv must name every column, found '' as number 1: save it without the index, name the column, "
        "or drop it with --drop-column '\"\"'; ",
        "north.csv, ",
        "west.csv: columns must be those of",
    ):
        assert words in text, text
    for name in "abcd":
        (folder / f"{name}.csv").unlink()
    write(folder / "south.csv", rows=[*ROWS, (1, 1, "", "P1"), (1, 1, 0, "P1", 7)])
    write(folder / "west.csv", rows=[*ROWS, (1, 2, "?", "P1")])
    text = refusal(folder, label="ill", drop=["patient"])
    assert "south.csv, line 13: must have 4 values, found 5" in text
    assert "south.csv, line 12: ill is missing (''), and it is the label" in text
    assert "west.csv, line 12: ill is missing ('?')" in text


def test_many_silos_with_one_mistake_make_a_short_line(tmp_path: Path) -> None:
    for place in range(40):
        write(tmp_path / f"silo{place:02}.csv")
    text = refusal(tmp_path)
    assert text.startswith(f"{tmp_path}/silo00.csv, ") and " and 37 more must have a column of labels" in text
    for place in range(40):
        write(tmp_path / f"silo{place:02}.csv", (f"age{place}", "dose", "ill", "patient"))
    assert refusal(tmp_path, label="ill", drop=["patient"]).count("columns must be those of") == 39


def test_what_only_some_silos_have_may_be_dropped(folder: Path) -> None:
    write(folder / "south.csv", HEADER[:3], [row[:3] for row in ROWS])
    assert "lacks 'patient': give all silos the same columns, or --drop" in refusal(folder, label="ill")
    assert load(f"folder:{folder}", label="ill", drop=["patient"]).features == ("age", "dose")


def test_what_is_dropped_may_be_a_label_an_index_or_a_name_twice(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", ("", "x", "x", "y", "dose", "label"), [(i, 1, 2, i % 2, i / 7, 1) for i in range(10)])
    source = load(f"folder:{tmp_path}", drop=["", "x", "label"])
    assert (source.label, source.features) == ("y", ("dose",))


def test_a_feature_that_is_called_like_a_label_is_said(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", ("age", "target", "ill"), [row[:3] for row in ROWS])
    (note,) = load(f"folder:{tmp_path}", label="ill").notes
    assert "the column 'target' is a feature beside the label 'ill'" in note and "--drop-column target" in note
    assert load(f"folder:{tmp_path}", label="ill", drop=["target"]).notes == ()


def test_a_mark_quotes_blanks_and_accents_do_not_hide_a_name(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", ("a,b", "größe", ' say "x" '), [row[:3] for row in ROWS], encoding="utf-8-sig")
    decomposed = "gro\u0308ße"
    source = load(f"folder:{tmp_path}", label=' say "x"', drop=[decomposed])
    assert source.label == 'say "x"' and source.features == ("a,b",)
    run = Run(data=f"folder:{tmp_path}", label='say "x"', drop_column='"a,b"')
    assert silos_of(run).features == ("größe",)


def test_tables_of_parquet_follow_the_same_rule(tmp_path: Path) -> None:
    columns = {name: [row[place] for row in ROWS] for place, name in enumerate(HEADER)}
    pq.write_table(pa.table({**columns, "free text": [["x"]] * len(ROWS)}), tmp_path / "a.parquet")
    write(tmp_path / "b.csv")
    source = load(f"folder:{tmp_path}", label="ill", drop=["patient", "free text"], scale="none")
    assert (source.label, source.features) == ("ill", ("age", "dose"))
    assert examples(source) == examples(source, 1)
    text = refusal(tmp_path, drop=["free text"])
    assert "a.parquet, " in text and "b.csv must have a column of labels called" in text


@pytest.mark.parametrize("how", [{"label": "x"}, {"drop": ["x"]}])
def test_data_without_columns_have_none_to_choose(tmp_path: Path, how: dict[str, Any]) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(4, dtype=np.float32), y=[0, 1, 0, 1])
    assert "found none: leave them out" in refusal(tmp_path, **how)
    with pytest.raises(InputError, match="digits has no columns to choose from.*leave it out"):
        load("digits", **how)


names = st.text(st.characters(codec="utf-8"), max_size=8).map(spelt)
ordinary = names.filter(
    lambda name: name and not is_number(name) and not name.startswith(("Unnamed:", "__index_level"))
)


@given(
    header=st.lists(ordinary, min_size=3, max_size=7, unique=True),
    places=st.permutations(range(3)),
    dropped=st.booleans(),
)
def test_any_names_can_be_chosen_and_dropped(
    tmp_path_factory: pytest.TempPathFactory, header: list[str], places: list[int], dropped: bool
) -> None:
    path = tmp_path_factory.mktemp("own")
    rows = [[10 * row + place for place in range(len(header))] for row in range(4)]
    write(path / "a.csv", header, rows)
    label, drop, _ = (header[place] for place in places)
    asked = (drop,) if dropped else ()
    source = load(f"folder:{path}", label=label, drop=asked, labels="quantities", scale="none")
    kept = [place for place, name in enumerate(header) if name != label and name not in asked]
    assert source.label == label and source.features == tuple(header[place] for place in kept)
    x, y = source.train
    assert x.tolist() == [[10 * (mark // 10) + place for place in kept] for mark in y.tolist()]
    run = Run(data=f"folder:{path}", label=label, drop_column=written(asked) or "none", labels="quantities")
    assert silos_of(run).features == source.features


@given(st.lists(st.sampled_from([*NAMES, "Label", "TARGET", "a", "b", "7"]), max_size=6))
def test_the_rule_of_usual_names(header: list[str]) -> None:
    usual = [name for name in header if name.lower() in ("label", "target", "y", "outcome", "class")]
    others = [name for name in header if name not in usual]
    fine = len(usual) == 1 and others and len(set(others)) == len(others)
    if fine:
        found = choose(header, Wanted())
        assert found.label_name == usual[0] and found.feature_names == tuple(others)
    else:
        with pytest.raises(InputError, match=r"^must .*: "):
            choose(header, Wanted())


@given(st.lists(names, min_size=1, max_size=5))
def test_a_comma_list_has_any_names(asked: list[str]) -> None:
    assert Run(drop_column=written(asked)).dropped == tuple(asked)


@pytest.mark.parametrize("text", ["", '"a', '"a"b', "a\nb"])
def test_a_comma_list_that_is_none(text: str) -> None:
    with pytest.raises(InputError, match="drop_column needs names"):
        Run(drop_column=text)


@given(st.lists(st.text(max_size=6), max_size=6), st.lists(names, max_size=2), st.none() | names)
def test_every_header_is_read_or_refused_in_one_line(header: list[str], drop: list[str], label: str | None) -> None:
    try:
        found = choose(header, Wanted(label, tuple(drop)))
    except InputError as error:
        assert "\n" not in str(error) and str(error).startswith("must ")
    else:
        left = {name for name in map(spelt, header) if name not in drop}
        assert {found.label_name, *found.feature_names} == left and len(found.features) == len(left) - 1


@pytest.mark.slow
def test_a_header_of_many_columns_takes_no_time(tmp_path: Path) -> None:
    count = 30_000
    header = [f"column {place}" for place in range(count)] + ["label"]
    write(tmp_path / "a.csv", header, [[row] * count + [row % 2] for row in range(4)])
    begun = time.process_time()
    assert len(load(f"folder:{tmp_path}").features) == count
    with pytest.raises(InputError, match="did you mean column 29999"):
        load(f"folder:{tmp_path}", label="colum 29999")
    assert time.process_time() - begun < 10


def test_options_of_tables_stand_in_a_config_file(tmp_path: Path) -> None:
    run = Run(label="ill", drop_column='patient,"a, b"')
    (tmp_path / "config.toml").write_text(tomli_w.dumps(run.table()))
    again = read_config(tmp_path / "config.toml")
    assert (again["label"], Run(drop_column=again["drop_column"]).dropped) == ("ill", ("patient", "a, b"))
