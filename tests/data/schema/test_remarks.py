"""What is said of one's own silos: one class, few tests, ids, constants and scales; and nothing where all is well."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from amity.contract import InputError
from amity.data import SOURCES, deal, load, own_silos
from amity.data.schema import remarks

RNG = np.random.default_rng(0)


def columns(count: int, **more: np.ndarray) -> dict[str, np.ndarray]:
    """Two ordinary features, a label, and more."""
    ordinary = {"age": RNG.normal(50, 12, count).round(), "dose": RNG.normal(0, 1, count)}
    return {**ordinary, **more, "label": np.arange(count) % 2}


def write(path: Path, table: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    path.write_text("\n".join([",".join(table), *rows]))


def said(folder: Path, setting: str = "natural", **how: Any) -> tuple[str, ...]:
    return deal(load(f"folder:{folder}", **how), setting, None if setting == "natural" else 2, 0).notes


def test_ordinary_silos_need_no_words(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.csv", columns(40))
    assert said(tmp_path) == ()


def test_one_class_and_few_tests(tmp_path: Path) -> None:
    write(tmp_path / "both.csv", columns(40))
    write(tmp_path / "tiny.csv", columns(8))
    write(tmp_path / "well.csv", {**columns(40), "label": np.ones(40, dtype=int)})
    write(tmp_path / "half" / "train.csv", columns(40))
    write(tmp_path / "half" / "test.csv", {**columns(10), "label": np.ones(10, dtype=int)})
    assert said(tmp_path) == (
        "1 silo has one class to train on: well; training there alone teaches nothing else",
        "2 silos have one class to test on: half, well; a model that always says it is never wrong there",
        "1 silo has fewer than 5 examples to test on: tiny (2); scores there say little",
    )


def test_many_silos_are_counted_and_some_named(tmp_path: Path) -> None:
    for place in range(9):
        write(tmp_path / f"s{place}.csv", columns(6))
    (note,) = said(tmp_path)
    assert note.startswith(
        "9 silos have fewer than 5 examples to test on: s0 (1), s1 (1), s2 (1), s3 (1), s4 (1) and 4"
    )


@pytest.mark.parametrize("ids", [lambda n: np.arange(n) + 17, lambda n: 1e6 - 3.0 * np.arange(n)])
def test_a_column_that_counts_the_rows_is_left_out(tmp_path: Path, ids: Callable[[int], np.ndarray]) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.csv", columns(40, patient=ids(40)))
    assert said(tmp_path) == ("left out: 'patient', a different value in each row, as an id has",)
    write(tmp_path / "b.csv", columns(40, patient=np.arange(40) // 2))  # it repeats: no id
    assert said(tmp_path) == ()


def test_a_column_that_may_be_an_id(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.csv", columns(40, patient=9_100_000_000 + RNG.permutation(40)))
    (note,) = said(tmp_path)
    assert note == (
        "the column 'patient' is a different whole number in each row: if that is an id, it is no feature, "
        "drop it with --drop-column patient"
    )


def test_a_short_list_of_whole_numbers_is_an_id_where_it_rises(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", columns(15, n=np.arange(15)))
    assert any("'n'" in note for note in said(tmp_path))
    write(tmp_path / "a.csv", columns(15, n=RNG.permutation(15)))
    assert not any("'n'" in note for note in said(tmp_path))
    write(tmp_path / "a.csv", columns(8, n=np.arange(8)))
    assert not any("'n'" in note for note in said(tmp_path))


def test_a_column_that_is_constant_at_every_silo(tmp_path: Path) -> None:
    for place, name in enumerate("ab"):
        write(tmp_path / f"{name}.csv", columns(40, ward=np.full(40, place), zero=np.zeros(40)))
    assert said(tmp_path) == ("left out: 'ward', 'zero', the same in all rows of each silo, whichever silo it is",)
    write(tmp_path / "b.csv", columns(40, ward=np.arange(40) % 3, zero=np.arange(40) % 2))
    assert said(tmp_path) == ()


def test_features_of_very_different_scales(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.csv", columns(40, income=RNG.normal(3e5, 1e5, 40)))
    write(tmp_path / "c.csv", columns(40, income=RNG.normal(3, 1, 40)))
    assert said(tmp_path) == ()  # they are scaled
    (note,) = said(tmp_path, scale="none")
    assert note.startswith("features are of very different scales at a, b: at ")
    assert "'dose' deviates by " in note and "'income' deviates by " in note and note.endswith("one scale at each silo")


def test_notes_on_columns_are_for_every_setting_those_on_silos_for_the_silos_there_are(tmp_path: Path) -> None:
    for name, label in (("a", 0), ("b", 1)):
        write(tmp_path / f"{name}.csv", {**columns(40, zero=np.zeros(40)), "label": np.full(40, label)})
    natural, iid = said(tmp_path), said(tmp_path, "iid")
    assert any("2 silos have one class to train on: a, b" in note for note in natural)
    assert len(iid) == 1 and "'zero'" in iid[0]


def test_arrays_of_a_federation_are_looked_at_too() -> None:
    x = np.stack([RNG.normal(size=30), np.zeros(30), np.arange(30), 1e4 * RNG.normal(size=30)], axis=1)
    notes = own_silos({"a": (x, np.arange(30) % 2), "b": (x, np.arange(30) % 2)}).notes
    assert len(notes) == 3 and notes[2].startswith("features are of very different scales at a, b")
    assert notes[0].startswith("the column x[:, 1] is the same") and notes[1].startswith("the column x[:, 2] is a diff")
    assert "x[:, 0] deviates by" in notes[2] and "x[:, 3] deviates by" in notes[2]
    images = np.zeros((30, 1, 4, 4), dtype=np.float32)
    assert own_silos({"a": (images, np.arange(30) % 2)}).notes == ()
    quantities = own_silos({"a": (x[:, :1], np.ones(30))}, classes=0)
    assert quantities.notes == ()


@pytest.mark.parametrize("setting", ["dirichlet:alpha=0.05", "pathological", "practical"])
def test_settings_of_papers_say_what_they_said(setting: str) -> None:
    """Recorded experiments print their notes: silos of one class are what such a setting is for."""
    assert not any(
        "one class" in note or "examples to test on" in note for note in deal(load("digits"), setting, 20, 0).notes
    )


@given(st.lists(st.lists(st.integers(-3, 3).map(lambda n: n / 2), min_size=3, max_size=3), min_size=1, max_size=6))
def test_a_look_by_brute_force(rows: list[list[float]]) -> None:
    found = remarks.look(np.array(rows))
    for place, column in enumerate(zip(*rows, strict=True)):
        assert found.constant[place] == (len(set(column)) == 1)
        assert found.counting[place] == (len(set(column)) == len(column) and all(n == int(n) for n in column))
        pairs = list(zip(column, column[1:], strict=False))
        assert found.rising[place] == (all(a < b for a, b in pairs) or all(a > b for a, b in pairs))
        assert found.deviation[place] == pytest.approx(
            float(torch.tensor(column).double().std(correction=0)), abs=1e-12
        )


def test_a_look_at_many_rows_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remarks, "BLOCK", 5000)  # two columns at a time
    rows = np.arange(2500.0)
    late = np.where(rows == 2400, 7, rows)  # a number twice, behind the first thousand rows
    found = remarks.look(np.stack([rows, late, np.ones(2500), rows / 2, -rows], axis=1))
    assert found.counting.tolist() == [True, False, False, False, True]
    assert found.rising.tolist() == [True, False, False, True, True]
    assert found.constant.tolist() == [False, False, True, False, False]


# Directories that were named ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["digits", "mnist", "folder:."])
def test_a_data_directory_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("AMITY_DATA", raising=False)
    with pytest.raises(InputError, match="--data-dir must name a directory, .*nowhere' is none: check the path"):
        load(name, tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--data-dir must name a directory"):
        load(name, tmp_path / "file")


def test_a_variable_that_names_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMITY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(
        InputError, match="AMITY_DATA must name a directory, .*nowhere' is none: correct .* or unset it"
    ):
        load("mnist")
    assert load("digits").classes == 10  # which is nowhere searched for
    assert SOURCES["digits"].find() is None
