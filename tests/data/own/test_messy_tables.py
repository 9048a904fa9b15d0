"""Messy tables become features: fitted on training rows alone, equal in all ways of getting there, refused at once."""

import csv
import io
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from data import messy
from hypothesis import HealthCheck, given, settings

from amity.contract import InputError
from amity.data import Source, load
from amity.data.own.tables import read_rows
from amity.data.schema.agreement import agree
from amity.data.schema.cells import table_of_rows
from amity.data.schema.schema_file import read_schema, schema_text
from amity.data.schema.schema_json import schema_of
from amity.data.schema.summary import decoded, encoded, summarise
from amity.data.schema.table_schema import TableSchema
from amity.errors import InputErrors

CLINICS = Path(__file__).parents[3] / "examples" / "tables" / "clinics"
ROWS = [(f"P{i}", 20 + i % 50, ("yes", "no")[i % 3 == 0], ("red", "green")[i % 2], i % 2) for i in range(40)]
HEADER = ("patient", "age", "smoker", "colour", "label")


def write(path: Path, header: Any = HEADER, rows: Any = ROWS, divider: str = ",", encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, delimiter=divider).writerows([header, *rows])
    path.write_bytes(text.getvalue().encode(encoding))


def schema_of_source(source: Source) -> TableSchema:
    assert source.schema is not None
    return source.schema


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(tables=messy.silos())
def test_any_messy_tables(tmp_path_factory: pytest.TempPathFactory, tables: dict[str, list[messy.Row]]) -> None:
    folder = messy.write(tmp_path_factory.mktemp("messy") / "silos", tables)
    source = load(f"folder:{folder}", label=messy.LABEL)
    schema = schema_of_source(source)
    x = torch.cat([source.train.x, source.test.x])
    assert x.isfinite().all() and x.shape[1] == len(source.features) == len(set(source.features))
    assert {column.name for column in schema.columns} == {*next(iter(tables.values()))[0]} - {messy.LABEL}
    # The same schema, written to a file and given, makes the same bits.
    file = folder.parent / "schema.toml"
    file.write_text(schema_text(schema), encoding="utf-8")
    given_ = load(f"folder:{folder}", schema=file)
    assert torch.equal(given_.train.x, source.train.x) and torch.equal(given_.test.x, source.test.x)
    assert given_.features == source.features and read_schema(file) == schema
    assert schema_of(json.loads(schema.text())) == schema
    # A row by itself has the features that it has among others.
    for name, rows in tables.items():
        whole = schema.coded(read_rows(folder / f"{name}.csv", schema))
        assert torch.equal(whole, torch.cat([schema.transform([row]) for row in rows]))
        assert torch.equal(whole, schema.transform(rows))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(tables=messy.silos())
def test_agreeing_is_symmetric_and_a_silo_without_rows_changes_nothing(tables: dict[str, list[messy.Row]]) -> None:
    summaries = {}
    for name, rows in tables.items():
        columns = [column for column in rows[0] if column != messy.LABEL]
        summary = summarise(table_of_rows(rows, columns))
        assert decoded(encoded(summary)) == summary
        summaries[name] = summary
    agreed = agree("label", summaries)
    assert agree("label", dict(reversed(summaries.items()))) == agreed
    first = next(iter(tables.values()))[0]
    nobody = summarise(table_of_rows([], reversed([column for column in first if column != messy.LABEL])))
    assert agree("label", {"nobody": nobody, **summaries}) == agreed


def test_constants_are_those_of_all_training_rows_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(5, 3, (30, 1)), rng.normal(-2, 0.1, (7, 1))]
    for name, numbers in zip("ab", parts, strict=True):
        write(tmp_path / "own" / name / "train.csv", ("x", "label"), [(repr(float(x)), 0) for (x,) in numbers])
        write(tmp_path / "own" / name / "test.csv", ("x", "label"), [(1e3, 1), (-1e3, 0)])
    source = load(f"folder:{tmp_path / 'own'}")
    (column,) = schema_of_source(source).columns
    both = np.concatenate(parts)
    assert column.centre == pytest.approx(both.mean(), rel=1e-12)
    assert column.scale == pytest.approx(both.std(), rel=1e-12)
    torch.testing.assert_close(source.train.x, torch.from_numpy((both - both.mean()) / both.std()).float())


def test_test_rows_do_not_change_what_is_done_with_any_row(tmp_path: Path) -> None:
    """Whatever stands in rows that are held out: other numbers, words, gaps."""
    rows = [(i + 0.5, *row[2:]) for i, row in enumerate(ROWS)]
    write(tmp_path / "own" / "a.csv", HEADER[1:], rows)
    source = load(f"folder:{tmp_path / 'own'}", scale="none")
    trained = {row[0] for row in source.train.x.tolist()}
    assert len(trained) == 32
    # Which rows are held out depends on labels alone.
    other = [row if row[0] in trained else (10.0**6 + row[0], "", "blue", row[3]) for row in rows]
    write(tmp_path / "own" / "b.csv", HEADER[1:], rows)  # it stays, and shares the schema
    before = load(f"folder:{tmp_path / 'own'}")
    write(tmp_path / "own" / "a.csv", HEADER[1:], other)
    after = load(f"folder:{tmp_path / 'own'}")
    assert after.schema == before.schema and torch.equal(after.train.x, before.train.x)
    assert torch.equal(after.test.x[8:], before.test.x[8:]) and not torch.equal(after.test.x[:8], before.test.x[:8])
    other[int(min(trained))] = (-1e6, *other[int(min(trained))][1:])  # a row to train on does change it
    write(tmp_path / "own" / "a.csv", HEADER[1:], other)
    assert load(f"folder:{tmp_path / 'own'}").schema != before.schema


def test_three_clinics_as_people_have_them() -> None:
    source = load(f"folder:{CLINICS}", label="diagnosis")
    kinds = {column.name: column.kind for column in schema_of_source(source).columns}
    assert kinds == {
        **{"patient": "id", "admitted": "date", "age": "number", "sex": "category", "smoker": "category"},
        **{"pressure": "number", "platelets": "number", "sugar": "number", "insured": "yes/no"},
        **{"ward": "constant", "remark": "text"},
    }
    assert {"sex=f", "smoker=never", "smoker missing", "admitted month", "pressure missing"} <= {*source.features}
    assert [silo.train + silo.test for silo in source.silos] == [90, 160, 120]
    assert any("south.csv: semicolons between cells; no UTF-8, read as Windows-1252" in note for note in source.notes)
    assert any(note.startswith("left out: 'ward', the same in all rows") for note in source.notes)


def test_one_new_patient_is_coded_as_in_training(tmp_path: Path) -> None:
    source = load(f"folder:{CLINICS}", label="diagnosis", scale="none")
    schema = schema_of(json.loads(schema_of_source(source).text()))
    row = {"age": "61", "sex": " M", "smoker": "?", "pressure": 140, "platelets": None, "sugar": "5.9", "insured": "Y"}
    (coded,) = schema.transform([{**row, "admitted": "31.03.2024", "ward": "9"}])
    found = dict(zip(schema.features, coded.tolist(), strict=True))
    assert [found[name] for name in ("age", "sex=m", "sex=f", "pressure", "insured")] == [61, 1, 0, 140, 1]
    assert [found[name] for name in ("smoker missing", "smoker=never", "platelets missing")] == [1, 0, 1]
    assert found["admitted days"] == 8856  # 24 years of which 6 are leap years, 31 + 29 + 30 days
    assert found["admitted weekday"] == (6 - 3) / 2 and found["admitted month"] == pytest.approx((3 - 6.5) / 3.5)
    with pytest.raises(InputError, match="age must be a number, found 'sixty'"):
        schema.transform([{**row, "age": "sixty"}])
    with pytest.raises(InputErrors) as caught:
        schema.transform([{**row, "age": "sixty", "insured": "maybe", "admitted": "yesterday"}])
    assert [line.split(":")[1].split()[0] for line in caught.value.lines] == ["age", "admitted", "insured"]
    (tmp_path / "new.csv").write_text("age,sex\n1,m\n")
    with pytest.raises(InputError, match="must have the columns of the model, lacks smoker, admitted"):
        read_rows(tmp_path / "new.csv", schema)


def test_parquet_and_csv_hold_the_same(tmp_path: Path) -> None:
    days = [f"2024-0{1 + i % 9}-1{i % 9}" for i in range(40)]
    header = (*HEADER, "day", "dose")
    rows = [(*row, days[i], "" if i % 5 == 0 else i / 3) for i, row in enumerate(ROWS)]
    write(tmp_path / "csv" / "a.csv", header, rows)
    columns: dict[str, list[Any]] = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    columns |= {"smoker": [word == "yes" for word in columns["smoker"]], "dose": [n or None for n in columns["dose"]]}
    table = pa.table({**columns, "day": pa.array(np.array(days, dtype="datetime64[D]"))})
    (tmp_path / "parquet").mkdir()
    for kind in (pa.string(), pa.dictionary(pa.int32(), pa.string())):
        place = table.schema.get_field_index("colour")
        pq.write_table(
            table.set_column(place, "colour", table["colour"].cast(kind)), tmp_path / "parquet" / "a.parquet"
        )
        one, other = (load(f"folder:{tmp_path / kind}") for kind in ("csv", "parquet"))
        assert one.features == other.features and torch.equal(one.train.x, other.train.x)
        assert one.schema == other.schema


def test_all_problems_of_all_tables_at_once(tmp_path: Path) -> None:
    header = ("pressure", "weight", "seen", "born", "label")
    rows = [
        (100 + 7 * i % 40, 60 + i / 2, f"2024-01-{1 + i % 28:02}", f"{1 + i % 12:02}/{1 + i % 9:02}/1960", i % 2)
        for i in range(40)
    ]
    write(tmp_path / "a.csv", header, rows)
    write(tmp_path / "b.csv", header, [("<90" if 2 < i < 6 else row[0], *row[1:]) for i, row in enumerate(rows)])
    write(tmp_path / "c.csv", header, [(row[0], ("light", "heavy")[i % 2], *row[2:]) for i, row in enumerate(rows)])
    slips = ["in May" if i % 9 == 1 else row[2] for i, row in enumerate(rows)]
    write(tmp_path / "d.csv", header, [(*row[:2], slip, *row[3:]) for row, slip in zip(rows, slips, strict=True)])
    write(tmp_path / "e.csv", ("pressure", "wieght", *header[2:]), rows)
    write(tmp_path / "f.csv", header, [*rows, (1, 2, 3), (1, 2, "", "", "")])
    with pytest.raises(InputErrors) as caught:
        load(f"folder:{tmp_path}", seed=1)
    lines = caught.value.lines
    for words in (
        "e.csv: columns must be those of ",
        "f.csv, line 42: must have 5 values, found 3",
        "f.csv, line 43: label is missing (''), and it is the label",
        "column 'pressure' has numbers and other words: ",
        "column 'weight' has numbers at one silo and words at another: ",
        "column 'seen' has dates and other words: ",
        "column 'born' has dates of which nobody can say whether day or month comes first",
    ):
        assert sum(words in line for line in lines) == 1, (words, lines)
    assert len(lines) == 7 and not any("\n" in line for line in lines)
    example = next(line for line in lines if "'pressure'" in line)
    assert re.search("b.csv, line [567] has '<90'", example) and "amity data schema" in example


def test_a_schema_file_decides_what_silos_cannot(tmp_path: Path) -> None:
    rows = [("unknown" if i == 3 else 100 + i, i % 4, f"{1 + i % 12:02}/0{1 + i % 9}/1960", i % 2) for i in range(40)]
    write(tmp_path / "own" / "a.csv", ("pressure", "code", "born", "label"), rows)
    file = tmp_path / "schema.toml"
    file.write_text(
        """version = 1
label = "label"
[[columns]]
name = "pressure"
kind = "number"
centre = 100
scale = 10
marks = ["Unknown"]
missing = true
[[columns]]
name = "code"
kind = "category"
categories = ["0", "1.0", "2"]
other = true
[[columns]]
name = "born"
kind = "date"
order = "mdy"
"""
    )
    source = load(f"folder:{tmp_path / 'own'}", schema=file)
    assert source.features == ("pressure", "pressure missing", "code=0", "code=1", "code=2", "code=other", "born days")
    x = schema_of_source(source).coded(read_rows(tmp_path / "own" / "a.csv", schema_of_source(source)))
    assert x[3].tolist()[:6] == [0, 1, 0, 0, 0, 1] and x[5].tolist()[:6] == [0.5, 0, 0, 1, 0, 0]
    assert x[0, 6].item() == -(40 * 365 + 10)  # to the first of 2000
    write(tmp_path / "own" / "b.csv", ("born", "presure", "label"), [("2000-01-01", 1, 0)] * 3)
    with pytest.raises(
        InputError, match="b.csv must have the columns of the schema, lacks pressure, code: did you mean"
    ):
        load(f"folder:{tmp_path / 'own'}", schema=file)


def test_without_scaling_numbers_stay_and_gaps_are_filled(tmp_path: Path) -> None:
    rows = [(i / 2, i % 2) if i % 4 else ("NA", i % 2) for i in range(40)]
    write(tmp_path / "a" / "train.csv", ("x", "label"), rows)
    write(tmp_path / "a" / "test.csv", ("x", "label"), rows)
    source = load(f"folder:{tmp_path}", scale="none")
    mean = sum(i / 2 for i in range(40) if i % 4) / 30
    assert source.train.x.tolist() == [[i / 2, 0] if i % 4 else [pytest.approx(mean), 1] for i in range(40)]


def test_a_large_table_is_read_in_reasonable_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    count = 100_000
    numbers = rng.normal(size=(count, 6)).round(4).astype(str)
    numbers[rng.random((count, 6)) < 0.02] = ""
    words = rng.choice(["never", "former", "current"], count)
    lines = [
        ",".join((*row, word, str(place % 2))) for place, (row, word) in enumerate(zip(numbers, words, strict=True))
    ]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,c,d,e,f,smoker,label", *lines]))
    begun = time.process_time()
    assert load(f"folder:{tmp_path}").train.x.shape == (80_000, 15)
    assert time.process_time() - begun < 20
