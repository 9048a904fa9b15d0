"""Heart Disease: the published table, imputation within a silo, and nothing that leaks."""

from pathlib import Path

import numpy as np
import pytest
import torch
from data.sets import official
from data.sources import Loaded

from amity.contract import InputError
from amity.data import SOURCES, deal, load
from amity.data.sets import heart
from amity.data.sets.heart import COLUMNS, FEATURES, HOSPITALS

PUBLISHED = {  # rows, and those with num = 0, from heart-disease.names
    "cleveland": (303, 164),
    "hungarian": (294, 188),
    "switzerland": (123, 8),
    "va": (200, 51),
}
NAN = float("nan")


def test_hospitals_have_the_published_counts(loaded: Loaded) -> None:
    source = loaded("heart")
    assert [silo.name for silo in source.silos] == list(PUBLISHED)
    silos = deal(source, "natural", None, seed=0)
    for silo in silos.silos:
        rows, healthy = PUBLISHED[silo.name]
        y = torch.cat([silo.train.y, silo.test.y])
        assert (len(y), int((y == 0).sum())) == (rows, healthy)
        assert len(silo.test.y) == round(0.2 * rows)
        assert abs(int((silo.test.y == 0).sum()) - healthy / rows * len(silo.test.y)) < 1
    assert silos.notes == ()


def test_the_seed_divides_and_the_share_is_a_choice(loaded: Loaded) -> None:
    loaded("heart")
    one, same, other = (deal(load("heart", seed=seed), "natural", None, 0).sha256 for seed in (3, 3, 4))
    assert one == same != other
    assert [silo.test for silo in load("heart", test_fraction=0.5).silos] == [152, 147, 62, 100]


def table(**columns: list[float]) -> np.ndarray:
    """Healthy patients with plain values, some columns given."""
    n = len(next(iter(columns.values())))
    plain = {"age": 50, "trestbps": 130, "chol": 240, "thalach": 140, "cp": 1, "slope": 1, "thal": 3}
    return np.array([columns.get(name, [plain.get(name, 0)] * n) for name in COLUMNS]).T


def column(x: np.ndarray, name: str) -> list[float]:
    return [float(value) for value in x[:, FEATURES.index(name)]]


def test_values_are_imputed_from_the_training_rows() -> None:
    rows = table(
        chol=[200, 240, 300, NAN, 0, 1000],
        thal=[6, 6, 3, NAN, 7, 7],
        fbs=[1, 1, 0, NAN, NAN, 0],
    )
    train = np.array([True, True, True, True, False, False])
    x = heart.features(rows, train)
    assert column(x, "chol") == pytest.approx([-0.8, 0, 1.2, 0, 0, 15.2])  # the median of 200, 240, 300; 0 is unknown
    assert column(x, "thal=6") == [1, 1, 0, 1, 0, 0]
    assert column(x, "thal=7") == [0, 0, 0, 0, 1, 1]
    assert column(x, "fbs") == [1, 1, -1, 1, 1, -1]


def test_what_was_never_measured_is_neutral() -> None:
    x = heart.features(table(chol=[0, 0, 0], ca=[NAN, NAN, 2], thal=[NAN, NAN, 7], exang=[NAN] * 3), np.arange(3) < 2)
    assert column(x, "chol") == column(x, "exang") == [0, 0, 0]
    assert column(x, "ca") == [0, 0, 1]
    assert [column(x, f"thal={code}") for code in (3, 6, 7)] == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_test_rows_teach_nothing() -> None:
    """Whatever the test rows say, the training rows stay what they are."""
    rng = np.random.default_rng(0)
    rows = table(chol=list(rng.uniform(100, 400, 30)), thal=list(rng.choice([3, 6, 7, NAN], 30)), ca=[NAN] * 30)
    rows[::4, COLUMNS.index("chol")] = NAN
    train = np.arange(30) < 20
    before = heart.features(rows, train)[train]
    rows[~train, COLUMNS.index("chol")] = 999
    rows[~train, COLUMNS.index("thal")] = 7
    rows[~train, COLUMNS.index("ca")] = 3
    assert np.array_equal(heart.features(rows, train)[train], before)


LINE = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four small hospitals, believed without a digest."""
    official.without_digests(monkeypatch, "heart")
    ill = LINE.replace(",0\n", ",3\n").replace("233.0", "?")
    official.place(
        tmp_path / "heart-disease",
        {f"processed.{name}.data": (LINE * 6 + ill * (4 + i)).encode() for i, name in enumerate(HOSPITALS)},
    )
    return tmp_path


def test_silos_know_nothing_of_each_other(folder: Path) -> None:
    def silos() -> dict[str, list[list[float]]]:
        source = load("heart", folder)
        return {silo.name: silo.train.x.tolist() for silo in deal(source, "natural", None, 0).silos}

    before = silos()
    file = folder / "heart-disease" / "processed.va.data"
    file.write_text(file.read_text().replace("233.0", "400.0").replace("63.0", "80.0"))
    after = silos()
    assert before.pop("va") != after.pop("va")
    assert before == after


def test_a_part_of_the_files_is_said(folder: Path) -> None:
    assert load("heart", folder).notes == ("heart is not complete here: 46 of 920 examples",)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,2,3\n", "row 2: must have 14 values, found 3"),
        (LINE.replace("63.0", "old"), "row 2: must hold numbers"),
        (LINE.replace("6.0,0\n", "5.0,0\n"), "row 2: thal must be one of 3, 6, 7, found 5"),
        (LINE.replace(",0\n", ",7\n"), "row 2: num must be one of 0, 1, 2, 3, 4, found 7"),
        (LINE.replace(",0\n", ",?\n"), "row 2: num, the diagnosis, must be known"),
    ],
)
def test_damage_is_refused_with_the_row(folder: Path, line: str, reason: str) -> None:
    (folder / "heart-disease" / "processed.va.data").write_text(LINE + line + LINE)
    with pytest.raises(InputError, match=f"processed.va.data, {reason}"):
        load("heart", folder)
    (folder / "heart-disease" / "processed.va.data").write_text("\n")
    with pytest.raises(InputError, match=r"processed.va.data must have one row per patient"):
        load("heart", folder)


def test_features_are_of_one_scale(loaded: Loaded) -> None:
    x = loaded("heart").train.x
    assert x.shape[1] == len(FEATURES) == SOURCES["heart"].shape[0] == 22
    assert x.abs().max() < 8 and x.abs().mean() < 1
