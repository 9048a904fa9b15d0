"""A silo's own data in the form of a contract: as a simulation has them, and nothing of them in an error."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import amity
from amity.contract import Silo
from amity.data import Silos
from amity.data.schema.schema_file import schema_text
from amity.federation.run_contract import DataForm
from amity.site.config import Site, site_of
from amity.site.data import UnfitData, prepared, silos_of

FORM = DataForm((2,), ("ill", "well"), ("pressure", "sugar"))
RUN = amity.Run("fedavg", seed=3)


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


def patients(seed: int, count: int = 30) -> list[tuple[float, float, str]]:
    x = np.random.default_rng(seed).normal(size=(count, 2)).round(3)
    return [(a, b, "ill" if a + b > 0 else "well") for a, b in x.tolist()]


def site(folder: Path, **more: object) -> Site:
    return site_of({"name": "north", "state": "state", "data": "north.csv", **more}, folder)


def same(one: Silo, other: Silo) -> bool:
    pairs = ((one.train, other.train), (one.test, other.test))
    return all(torch.equal(a.x, b.x) and torch.equal(a.y, b.y) for a, b in pairs)


def simulated(folder: Path, **how: str) -> Silos:
    source = amity.load(f"folder:{folder}", seed=3, scale="none", **how)  # type: ignore[arg-type]
    return amity.deal(source, "natural", None, 3)


def test_a_table_is_divided_and_numbered_as_in_a_simulation(tmp_path: Path) -> None:
    write(tmp_path / "north.csv", ("pressure", "sugar", "label"), patients(0))
    write(tmp_path / "south.csv", ("pressure", "sugar", "label"), patients(1))
    whole = simulated(tmp_path)
    (own,) = silos_of(site(tmp_path), FORM, RUN).silos
    assert whole.labels == FORM.labels and same(own, whole.silos[0])
    (less,) = silos_of(site(tmp_path, test_fraction=0.5), FORM, RUN).silos
    assert len(less.test.y) == 15


def test_columns_come_into_the_contracts_order_and_others_are_left_out(tmp_path: Path) -> None:
    rows = patients(0)
    write(tmp_path / "a" / "north.csv", ("pressure", "sugar", "finding"), rows)
    moved = [(f"id-{i}", y, b, 7, a) for i, (a, b, y) in enumerate(rows)]
    write(tmp_path / "b" / "north.csv", ("patient", "finding", " sugar", "ward", "pressure"), moved)
    (first,) = silos_of(site(tmp_path / "a", label="finding"), FORM, RUN).silos
    (second,) = silos_of(site(tmp_path / "b", label="finding"), FORM, RUN).silos
    assert same(first, second)


def test_both_parts_of_a_silo_have_their_columns_in_one_order(tmp_path: Path) -> None:
    rows = patients(0)
    write(tmp_path / "own" / "train.csv", ("pressure", "sugar", "label"), rows)
    write(tmp_path / "own" / "test.csv", ("sugar", "label", "pressure"), [(b, y, a) for a, b, y in rows])
    silos = silos_of(site(tmp_path, data="own"), FORM._replace(features=None), RUN)
    (silo,) = silos.silos
    assert torch.equal(silo.train.x, silo.test.x) and silos.features == ("pressure", "sugar")


def test_the_contracts_list_numbers_the_labels(tmp_path: Path) -> None:
    write(tmp_path / "north.csv", ("pressure", "sugar", "label"), patients(0))
    turned = silos_of(site(tmp_path), FORM._replace(labels=("well", "unclear", "ill")), RUN)
    assert turned.classes == 3 and set(turned.silos[0].train.y.tolist()) == {0, 2}


@pytest.mark.parametrize(
    ("rows", "form", "said"),
    [
        ([(1.0, 2.0, "Schmidt")] * 3 + [(1.0, 2.0, "ill")] * 4, FORM, "3 of 7 examples have another one"),
        ([(1.0, 2.0, "ill")] * 4, FORM._replace(features=("pressure", "pulse")), "it lacks 1 of 2 (pulse)"),
        ([(1.0, 2.0, "ill")] * 4, DataForm((3,), FORM.labels), "the contract's examples have the shape [3]"),
        ([(1.0, "Schmidt", "ill")] * 4, FORM, "cannot make its data ready (InputError): its own log says why"),
        ([(1.0, 2.0, "Schmidt")] * 4, FORM._replace(labels=None), "its own log says why"),
        ([(1.0, 2.0, "")] * 4, FORM, "its own log says why"),
        ([(1.0, 2.0, "ill")], FORM, "its own log says why"),
    ],
    ids=["unknown label", "missing column", "shape", "cell", "quantity", "empty label", "one row"],
)
def test_what_is_wrong_is_one_line_that_quotes_no_example(
    rows: list[tuple[object, ...]], form: DataForm, said: str, tmp_path: Path
) -> None:
    write(tmp_path / "north.csv", ("pressure", "sugar", "label"), rows)
    with pytest.raises(UnfitData) as refused:
        prepared(site(tmp_path), form, RUN)
    text = str(refused.value)
    assert said in text and "silo north" in text
    assert "Schmidt" not in text and str(tmp_path) not in text and "\n" not in text


def test_the_line_about_labels_names_their_column(tmp_path: Path) -> None:
    write(tmp_path / "north.csv", ("pressure", "sugar", "finding"), [(1.0, 2.0, "dead")] * 3)
    with pytest.raises(UnfitData, match="column 'finding'"):
        silos_of(site(tmp_path, label="finding"), FORM, RUN)


def test_quantities_are_standardised_by_the_silo_itself(tmp_path: Path) -> None:
    rows = [(a, b, 100 + 10 * a) for a, b, _ in patients(0)]
    write(tmp_path / "north.csv", ("pressure", "sugar", "label"), rows)
    form = FORM._replace(labels=None)
    silos = prepared(site(tmp_path), form, RUN)
    (silo,) = silos.silos
    assert silos.classes == 0 and abs(float(silo.train.y.double().mean())) < 1e-6
    whole = simulated(tmp_path, labels="quantities").standardised().silos[0]
    assert same(silo, whole) and silo.scale == whole.scale


FACTORY = """
import numpy as np, torch, amity
x = np.linspace(-1, 1, 40, dtype=np.float32).reshape(20, 2)
y = np.array([0, 1] * 10)
def arrays(): return x[:15], y[:15], x[15:], y[15:]
def pair(): return x, y
def worded(): return x[:15], np.array(["ill", "well"])[y[:15]], x[15:], np.array(["ill", "well"])[y[15:]]
def silo():
    part = amity.Split(torch.tensor(x), torch.tensor(y))
    return amity.Silo("other", part, part)
def many(): return x[:15], y[:15] + 5, x[15:], y[15:]
def three(): return x, y, x
def broken(): raise KeyError("Schmidt")
"""


@pytest.fixture
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of factories, which is forgotten afterwards."""
    (tmp_path / "trial_factories.py").write_text(FACTORY)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "trial_factories", raising=False)
    return tmp_path


def from_factory(folder: Path, name: str) -> Site:
    return site_of({"name": "north", "state": "state", "factory": f"trial_factories:{name}"}, folder)


def test_a_factory_gives_what_own_silos_takes(factories: Path) -> None:
    plain = FORM._replace(features=None)
    (own,) = silos_of(from_factory(factories, "arrays"), plain, RUN).silos
    made: Any = import_module("trial_factories")
    wanted = amity.own_silos({"north": made.arrays()})
    assert same(own, wanted.silos[0]) and own.name == "north"
    (words,) = silos_of(from_factory(factories, "worded"), plain, RUN).silos
    assert same(own, words)
    divided = amity.own_silos({"north": made.pair()}, seed=3)
    assert same(silos_of(from_factory(factories, "pair"), plain, RUN).silos[0], divided.silos[0])
    (silo,) = silos_of(from_factory(factories, "silo"), plain, RUN).silos
    assert silo.name == "north" and len(silo.train.y) == 20


def test_numbers_are_looked_for_in_a_list_that_has_numbers(factories: Path) -> None:
    counted = DataForm((2,), ("1", "0"))
    (own,) = silos_of(from_factory(factories, "arrays"), counted, RUN).silos
    assert own.train.y[:2].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("many", "15 of 20 examples"),
        ("three", "got 3 items"),
        ("broken", "(KeyError)"),
        ("nowhere", "(AttributeError)"),
    ],
)
def test_a_factory_that_gives_something_else_is_refused_without_its_words(
    name: str, said: str, factories: Path
) -> None:
    with pytest.raises(UnfitData) as refused:
        silos_of(from_factory(factories, name), FORM._replace(features=None), RUN)
    assert said in str(refused.value) and "Schmidt" not in str(refused.value)


def test_grey_images_become_those_of_a_colour_contract(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for place, shade in {"cat/1": 0, "cat/2": 40, "dog/1": 200, "dog/2": 255}.items():
        for part in ("train", "test"):
            file = tmp_path / "pictures" / part / f"{place}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            image.new("L", (4, 4), shade).save(file)
    form = DataForm((3, 4, 4), ("dog", "cat"))
    (silo,) = silos_of(site(tmp_path, data="pictures"), form, RUN).silos
    assert silo.train.x.shape == (4, 3, 4, 4) and silo.train.y.tolist() == [1, 1, 0, 0]
    assert float(silo.train.x.min()) == -1 and float(silo.train.x.max()) == 1


def test_messy_tables_by_the_schema_of_the_consortium_are_those_of_a_simulation(tmp_path: Path) -> None:
    rows = [(*row[:2], ("never", "", "former")[i % 3], f"P{i}", row[2]) for i, row in enumerate(patients(0))]
    header = ("pressure", "sugar", "smoker", "patient", "label")
    write(
        tmp_path / "own" / "north.csv", header, [("NA", *row[1:]) if i % 7 == 0 else row for i, row in enumerate(rows)]
    )
    agreed = amity.load(f"folder:{tmp_path / 'own'}", seed=3)
    assert agreed.schema is not None
    (tmp_path / "schema.toml").write_text(schema_text(agreed.schema))
    form = DataForm((len(agreed.features),), FORM.labels, agreed.features, dict(agreed.schema.json()))
    place = site(tmp_path, data="own/north.csv", schema="schema.toml")
    own = silos_of(place, form, RUN)
    assert same(own.silos[0], amity.deal(agreed, "natural", None, 3).silos[0])
    assert own.features == agreed.features and own.schema == agreed.schema
    assert same(own.silos[0], silos_of(site(tmp_path, data="own/north.csv"), form, RUN).silos[0])
    with pytest.raises(UnfitData, match="the contract's features must be those of its schema"):
        silos_of(place, form._replace(features=tuple(reversed(agreed.features))), RUN)
    with pytest.raises(UnfitData, match=r"must be in its tables, it lacks 1 \(smoker\)"):
        write(tmp_path / "b.csv", ("pressure", "sugar", "label"), patients(0))
        silos_of(site(tmp_path, data="b.csv"), form, RUN)
    np.savez(tmp_path / "c.npz", x=np.zeros((4, 2)), y=np.array([0, 1, 0, 1]))
    with pytest.raises(UnfitData, match="codes csv or parquet tables, its own data are none"):
        silos_of(site(tmp_path, data="c.npz"), form, RUN)
