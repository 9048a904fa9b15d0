"""New examples are seen as those of training: by columns, pixels and labels; what cannot be read is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from predicting.clinics import table

import amity
from amity.errors import DamagedFile, InputError, InputErrors
from amity.predicting.examples import examples_of_arrays, read_examples
from amity.predicting.predictions import predictions_of
from amity.record.contents import ModelFacts


def facts(**changes: Any) -> ModelFacts:
    known: dict[str, Any] = {
        **{"silo": "north", "method": "fedavg", "model": "mlr", "own": False, "round": 1, "shape": [2]},
        **{"labels": ["ill", "well"], "label": "diagnosis", "features": ["pressure", "sugar"]},
        **{"pixels": True, "scale": [0.0, 1.0], "schema": None},
    }
    return {**known, **changes}  # type: ignore[typeddict-item]


def written(place: Path, text: str) -> Path:
    (place / "new.csv").write_text(text)
    return place / "new.csv"


def test_columns_are_found_by_name_and_others_are_named(tmp_path: Path) -> None:
    file = written(tmp_path, "ward,sugar,patient,pressure\na,2,p1,1\nb,4,p2,3\n")
    found = read_examples(file, facts(), ["patient"])
    assert found.x.tolist() == [[1, 2], [3, 4]] and found.x.dtype == torch.float32
    assert found.kept == {"patient": ["p1", "p2"]} and found.labels is None
    assert found.notes == ("left out, not used by the model: ward",)


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"sugar": [2.0, 4.0], "diagnosis": ["ill", None], "pressure": [1, 3], "id": [7, 8]}
    pq.write_table(pa.table(columns), tmp_path / "new.parquet")
    found = read_examples(tmp_path / "new.parquet", facts(), ["id", "sugar"])
    assert found.x.tolist() == [[1, 2], [3, 4]] and found.labels == ["ill", ""]
    assert found.kept == {"id": ["7", "8"], "sugar": ["2.0", "4.0"]}


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("ward,patient\na,b\n", "it lacks pressure, sugar: add or rename them"),
        ("pressure,sugar\n", "must have one row per example below its header, found none"),
        ("", "must have a header"),
        ("pressure,sugar,sugar\n1,2,3\n", "found sugar more than once"),
        ("pressure,sugar\n1\n", "line 2: must have 2 values, found 1"),
    ],
)
def test_a_table_without_what_is_needed_is_refused(text: str, needed: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=needed):
        read_examples(written(tmp_path, text), facts())


def test_a_table_is_no_picture(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"takes examples of shape \[1, 4, 4\], got a table of 2 columns"):
        read_examples(written(tmp_path, "a,b\n1,2\n"), facts(shape=[1, 4, 4], features=None, label=None))
    found = read_examples(written(tmp_path, "a,label,b\n1,0,2\n"), facts(features=None, label=None))
    assert found.x.tolist() == [[1, 2]] and found.labels == ["0"]  # as many columns as numbers: in their order


def test_all_bad_columns_are_told_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, "pressure,sugar\n1,\nhigh,2\n")
    with pytest.raises(InputErrors) as raised:
        read_examples(file, facts())
    first, second = raised.value.lines
    assert "line 3: pressure must be a number, found 'high'" in first and "line 2: sugar is missing" in second


def test_cells_are_coded_by_the_schema_of_training(tmp_path: Path) -> None:
    columns = [
        {"name": "age", "kind": "number", "centre": 50.0, "scale": 10.0, "fill": 40.0, "missing": True},
        {"name": "sex", "kind": "category", "categories": ["f", "m"], "other": False, "missing": False},
        {"name": "id", "kind": "id", "why": "different in each row"},
    ]
    schema = {"version": 1, "label": "diagnosis", "columns": columns}
    known = facts(schema=schema, features=["age", "age missing", "sex=f", "sex=m"], shape=[4])
    found = read_examples(written(tmp_path, "sex;age;id;ward\nM;60,5;1;a\nf;;2;b\n"), known, ["id"])
    assert found.x.tolist() == pytest.approx(np.array([[1.05, 0, 0, 1], [-1, 1, 1, 0]]))
    assert found.kept == {"id": ["1", "2"]} and found.notes == ("left out, not used by the model: ward",)
    strange = read_examples(written(tmp_path, "sex,age\nx,1\nf,2\n3,3\nX,4\n,5\n"), known)
    assert strange.x[:, 2:].tolist() == [[0, 0], [1, 0], [0, 0], [0, 0], [0, 0]]
    assert strange.notes == ("sex: none of the categories that the model knows, 'x', '3' (3 rows)",)
    with pytest.raises(InputError, match="it lacks age, sex"):
        read_examples(written(tmp_path, "id\n1\n"), known)


def test_pictures_are_no_rows_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "new.png").write_bytes(b"")
    with pytest.raises(InputError, match="north takes rows of 2 features, got an image: give a csv, parquet or npz"):
        read_examples(tmp_path / "new.png", facts())
    with pytest.raises(InputError, match="north takes rows of 2 features, got a folder: give"):
        read_examples(tmp_path, facts())


def test_arrays_need_the_shape_of_training(tmp_path: Path) -> None:
    assert examples_of_arrays([[1, 2]], facts()).x.tolist() == [[1, 2]]
    with pytest.raises(InputError, match=r"takes examples of shape \[2\], got \[3\]"):
        examples_of_arrays(np.zeros((1, 3)), facts())
    with pytest.raises(InputError, match="one example or more"):
        examples_of_arrays(np.zeros((0, 2)), facts())
    np.savez(tmp_path / "new.npz", y=[1])
    with pytest.raises(InputError, match="must contain x, found y"):
        read_examples(tmp_path / "new.npz", facts())
    for flat in (3.0, [1.0, 2.0]):
        np.savez(tmp_path / "new.npz", x=np.array(flat))
        with pytest.raises(InputError, match="one example per row"):
            read_examples(tmp_path / "new.npz", facts())
    np.savez(tmp_path / "new.npz", x=np.ones((2, 2)), y=["ill"])
    with pytest.raises(InputError, match="one label for each of 2"):
        read_examples(tmp_path / "new.npz", facts())


@pytest.mark.parametrize("name", ["new.csv", "new.npz", "new.parquet", "new.png"])
def test_a_file_that_is_not_there_or_no_such_file_is_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is none"):
        read_examples(tmp_path / name, facts())
    (tmp_path / name).write_bytes(b"\x89\xff\x00 nothing of the kind")
    with pytest.raises(InputError) as raised:
        read_examples(tmp_path / name, facts(shape=[1, 4, 4]))
    assert len(str(raised.value).splitlines()) == 1


def test_images_are_scaled_and_named(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pictures = facts(shape=[1, 2, 2], labels=["dark", "light"], features=None, label=None)
    for name, shade in {"dark/a.png": 0, "light/b.png": 255}.items():
        (tmp_path / name).parent.mkdir()
        image.new("L", (2, 2), shade).save(tmp_path / name)
    found = read_examples(tmp_path, pictures)
    assert found.x.flatten(1).mean(1).tolist() == [-1, 1] and found.labels == ["dark", "light"]
    assert found.kept == {"file": ["dark/a.png", "light/b.png"]}
    one = read_examples(tmp_path / "light" / "b.png", {**pictures, "shape": [3, 2, 2]})
    assert one.x.shape == (1, 3, 2, 2) and one.labels is None and one.kept == {"file": ["b.png"]}
    with pytest.raises(InputError, match="only you know how they were made"):
        read_examples(tmp_path, {**pictures, "pixels": False})
    with pytest.raises(InputError, match="--keep takes columns"):
        read_examples(tmp_path, pictures, ["id"])


def test_labels_that_are_known_are_compared() -> None:
    outputs = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 0.0]])
    found = predictions_of(facts(), outputs, ["ill", "ill", "", "unknown"])
    assert found.values == ("ill", "well", "ill", "ill") and found.truth == ("ill", "ill", None, "unknown")
    agreement = found.agreement
    assert agreement is not None and agreement.rows == 3 and agreement.accuracy == pytest.approx(100 / 3)
    assert "count as wrong: 'unknown'" in found.notes[0]
    assert found.probabilities is not None and found.probabilities[0, 0] == pytest.approx(1 / (1 + np.exp(-2)))
    numbered = predictions_of(facts(labels=["0", "1"]), outputs, [0, 1.0, 2, "1"])
    assert numbered.truth == ("0", "1", "2", "1")
    assert predictions_of(facts(), outputs, [0, 1, 0, 1]).truth == ("ill", "well", "ill", "well")  # places among words


def test_quantities_are_in_their_own_unit() -> None:
    outputs = torch.tensor([[1.0], [-1.0]])
    found = predictions_of(facts(labels=None, scale=[40.0, 10.0]), outputs, ["52", "30"])
    assert found.values == (50.0, 30.0) and found.probabilities is None
    agreement = found.agreement
    assert agreement is not None and agreement.error == pytest.approx(1.0)
    assert agreement.r2 == pytest.approx(100 * (1 - 4 / (2 * 11**2)))


def test_a_model_that_gives_no_number_is_told() -> None:
    with pytest.raises(InputError, match="gives no number for row 1"):
        predictions_of(facts(), torch.tensor([[1.0, 0.0], [torch.nan, 0.0]]))


def test_predictions_are_those_of_the_module(clinics: Path, tmp_path: Path) -> None:
    result = amity.read_run(clinics)
    (tmp_path / "new.csv").write_text("sugar,pressure\n1.0,0.5\n0.1,-2.0\n")
    x = result.inputs("north", tmp_path / "new.csv")
    assert x.shape == (2, 2) and torch.equal(x, result.inputs("north", x))
    with torch.no_grad():
        wanted = result.model("north")(x).double().softmax(1).numpy()
    for data in (x, x.numpy(), tmp_path / "new.csv", str(tmp_path / "new.csv")):
        found = result.predict("north", data)
        assert found.probabilities is not None and np.allclose(found.probabilities, wanted, atol=1e-6)
        assert found.labels == ("ill", "well")
        assert found.values == tuple(np.array(["ill", "well"])[wanted.argmax(1)])


def test_a_test_set_is_scored_as_the_run_scored_it(clinics: Path, tmp_path: Path) -> None:
    """The rows of the test part, found again in the silo's file, are predicted with the accuracy on record."""
    result = amity.read_run(clinics)
    (tmp_path / "all.csv").write_text(table(1))
    found = result.predict("north", tmp_path / "all.csv")
    kept = result.record.predictions["north"]
    assert found.probabilities is not None and found.truth is not None
    apart = np.abs(kept["probabilities"][:, None] - found.probabilities[None]).max(2)  # [test rows, all rows]
    assert apart.min(1).max() < 1e-6
    places = apart.argmin(1)
    right = [found.values[place] == found.truth[place] for place in places]
    assert right == kept["delivered"].tolist() and 100 * np.mean(right) == pytest.approx(result.scores["north"])


def test_quantities_of_a_run_are_in_their_own_unit(quantities: Path) -> None:
    result = amity.read_run(quantities)
    kept = result.record.predictions["east"]
    assert np.allclose(kept["predicted"] - kept["truth"], kept["delivered"], atol=1e-3)
    assert 20 < kept["truth"].mean() < 60
    found = result.predict("east", [[0.0, 0.0]])
    assert found.labels is None and found.values[0] == pytest.approx(result.model("east")(torch.zeros(1, 2)).item())


def test_a_damaged_model_is_named(clinics: Path, tmp_path: Path) -> None:
    import shutil

    for name in ("north.safetensors", "north.json"):
        path = tmp_path / name
        shutil.copytree(clinics, path)
        content = bytearray((path / "models" / name).read_bytes())
        content[len(content) // 2] ^= 1
        (path / "models" / name).write_bytes(content)
        with pytest.raises(DamagedFile, match=f"{name} is damaged"):
            amity.read_run(path).predict("north", [[0.0, 0.0]])
