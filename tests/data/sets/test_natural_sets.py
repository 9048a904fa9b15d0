"""Data sets with natural silos: the counts that their README tells, silos that share no example, and inputs that do not
tell the label. Where the files are not at hand, the tests are skipped."""

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from data.sources import Loaded

from amity.contract import InputError
from amity.data import SOURCES, Source, deal, load
from amity.data.sets.fetch import fetch_into
from amity.data.sets.natural_silos import LEAST_TEST, LEAST_TRAIN, dealing
from amity.data.sets.natural_tables import CONTRACEPTION, EICU, EXAM
from amity.models import resolve

# Rows to train and test on, and silos, as the packs' README has them; then what is too small to be a silo.
TOLD = {
    "har": (7_982, 2_317, 30, 0, 0),
    "har-signals": (7_982, 2_317, 30, 0, 0),
    "writers": (5_704, 1_426, 60, 0, 0),
    "parkinsons": (4_699, 1_176, 42, 0, 0),
    "eicu": (1_753, 426, 5, 0, 0),
    "exam": (3_245, 814, 65, 2, 10),
    "contraception": (1_548, 386, 60, 5, 33),
}
TABLES = {"eicu": EICU, "exam": EXAM, "contraception": CONTRACEPTION}


def file_of(name: str) -> Path:
    """The file of a data set that has been loaded."""
    found = SOURCES[name].find()
    assert found is not None
    return found.paths[0]


def rows_of(name: str) -> list[dict[str, str]]:
    with file_of(name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", TOLD)
def test_counts_are_those_of_the_readme(loaded: Loaded, name: str) -> None:
    source = loaded(name)
    train, test, silos, small, lost = TOLD[name]
    assert len(source.silos) == silos - small
    assert len(source.train.y) + len(source.test.y) == train + test - lost
    assert (len(source.train.y), len(source.test.y)) <= (train, test)
    assert sum(silo.train for silo in source.silos) == len(source.train.y)
    assert sum(silo.test for silo in source.silos) == len(source.test.y)
    told = [note for note in source.notes if "silos with fewer" in note]
    assert bool(small) == bool(told)
    assert all(f"{small} silos" in note and f"{lost} examples" in note for note in told)
    assert min(silo.train for silo in source.silos) >= LEAST_TRAIN
    assert min(silo.test for silo in source.silos) >= LEAST_TEST


@pytest.mark.parametrize("name", TOLD)
def test_silos_share_no_example_and_have_the_files_own_names(loaded: Loaded, name: str) -> None:
    silos = deal(loaded(name), "auto", None, seed=0)
    names = [silo.name for silo in silos.silos]
    assert len(set(names)) == len(names) and silos.setting == "natural"
    if name in TABLES:
        table = TABLES[name]
        assert set(names) <= {f"{table.prefix}{row[table.silo]}" for row in rows_of(name)}
    else:
        assert names == np.load(file_of(name))["silo_names"].tolist()
    manifest = silos.manifest()
    assert [one["name"] for one in manifest["silos"]] == names and manifest["notes"] == list(silos.notes)
    counts = [(sum(one["train"]), sum(one["test"])) for one in manifest["silos"]]
    assert counts == [(silo.train, silo.test) for silo in loaded(name).silos]
    assert json.loads(json.dumps(manifest)) == manifest and deal(loaded(name), "auto", None, 5).sha256 == silos.sha256


def seen(source: Source) -> Counter[bytes]:
    """All examples with their labels, as bytes."""
    pairs = (pair for split in (source.train, source.test) for pair in zip(*split, strict=True))
    return Counter(x.numpy().tobytes() + y.numpy().tobytes() for x, y in pairs)


@pytest.mark.parametrize("name", ["har", "writers"])
def test_every_row_is_there_once(loaded: Loaded, name: str) -> None:
    """Rows are few that are equal, so that each can be told from all others."""
    content, source = np.load(file_of(name)) if loaded(name) else {}, loaded(name)
    if name == "har":
        x, y = content["features"].astype(np.float32), content["labels"]
    else:
        x, y = (
            np.concatenate([content[f"{part}_{key}"] for part in ("train", "test")]) for key in ("images", "labels")
        )
    known = Counter(one.tobytes() + label.tobytes() for one, label in zip(x, y.astype(np.int64), strict=True))
    assert seen(source) == known and max(known.values()) <= 2


def test_people_train_and_test_on_different_recordings(loaded: Loaded) -> None:
    """Windows overlap by half: no sample of a test window may be in a training window of the same recording."""
    loaded("har-signals")
    content = np.load(file_of("har-signals"))
    train, test = (set(content["segment"][content["is_test"] == part].tolist()) for part in (False, True))
    assert not train & test and len(train | test) == 857


def test_signals_are_windows_of_what_was_measured(loaded: Loaded) -> None:
    source = loaded("har-signals")
    content = np.load(file_of("har-signals"))
    first = int(np.flatnonzero(~content["is_test"])[0])  # of the first person, whose rows come first
    start = int(content["start"][first])
    assert np.array_equal(source.train.x[0].numpy(), content["signal"][:, start : start + 128].astype(np.float32))
    gravity = source.train.x[:, 3:].square().sum(1).sqrt().mean()
    assert 0.95 < float(gravity) < 1.1  # a phone that is carried feels one g


def test_both_forms_of_har_have_the_same_rows(loaded: Loaded) -> None:
    features, signals = loaded("har"), loaded("har-signals")
    assert features.silos == signals.silos and torch.equal(features.test.y, signals.test.y)
    counts = (features.train.y.bincount() + features.test.y.bincount()).tolist()
    assert counts == [1722, 1544, 1406, 1777, 1906, 1944]  # the published ones
    assert features.labels[0] == "walking" and features.labels[5] == "laying"


def test_writers_have_all_digits_and_two_groups(loaded: Loaded) -> None:
    silos = deal(loaded("writers"), "natural", None, seed=0).silos
    assert Counter(silo.group for silo in silos) == {0: 30, 1: 30}
    for silo in silos:
        both = torch.cat([silo.train.y, silo.test.y])
        assert 100 <= len(both) <= 130 and both.unique().tolist() == list(range(10))


def test_the_deaths_are_the_published_ones_and_nothing_tells_them(loaded: Loaded) -> None:
    source = loaded("eicu")
    deaths = {}
    for silo in deal(source, "natural", None, seed=0).silos:
        y = torch.cat([silo.train.y, silo.test.y])
        deaths[silo.name] = (len(y), int(y.sum()))
    assert deaths == {
        "Midwest": (718, 52),
        "South": (666, 59),
        "West": (458, 44),
        "unknown": (199, 22),
        "Northeast": (138, 19),
    }
    assert source.labels == ("survived", "died")
    told = ("apache", "predicted", "expired", "los_days", "patient", "hospitalid", "region", "is_test")
    assert not [name for name in source.features if any(word in name for word in told)]


def test_no_patient_of_eicu_is_on_both_sides(loaded: Loaded) -> None:
    loaded("eicu")
    sides: dict[str, set[str]] = {}
    for row in rows_of("eicu"):
        sides.setdefault(row["patient"], set()).add(row["is_test"])
    assert all(len(side) == 1 for side in sides.values()) and len(sides) == 1765


@pytest.mark.parametrize(
    ("name", "label", "columns"),
    [
        ("parkinsons", "total_updrs", {"test_time", "NHR", "HNR", "RPDE", "DFA", "PPE"}),
        ("exam", "normexam", {"standLRT", "sex=f", "sex=m"}),
        ("contraception", "use", {"age", "urban", "livch=0", "livch=3+"}),
    ],
)
def test_inputs_of_tables(loaded: Loaded, name: str, label: str, columns: set[str]) -> None:
    source = loaded(name)
    assert source.label == label and columns <= set(source.features)
    assert not [one for one in source.features if "updrs" in one or "student" in one or label in one.split("=")[0]]


def test_quantities_of_schools_are_the_published_ones(loaded: Loaded) -> None:
    source = loaded("exam")
    place = source.features.index("standLRT")
    x = torch.cat([source.train.x, source.test.x])[:, place].double()
    y = torch.cat([source.train.y, source.test.y])
    assert torch.corrcoef(torch.stack([x, y]))[0, 1].item() == pytest.approx(0.59, abs=0.005)


def test_scores_of_parkinsons_are_the_published_ones(loaded: Loaded) -> None:
    source = loaded("parkinsons")
    assert torch.cat([source.train.y, source.test.y]).mean().item() == pytest.approx(29.019, abs=5e-4)


@pytest.mark.parametrize("name", ["eicu", "exam", "contraception", "parkinsons"])
def test_columns_are_scaled_by_training_rows_alone(loaded: Loaded, name: str) -> None:
    source = loaded(name)
    assert source.schema is not None
    numbers = [column.name for column in source.schema.used if column.kind == "number"]
    places = [source.features.index(one) for one in numbers]
    x = source.train.x[:, places].double()
    assert torch.allclose(x.mean(0), torch.zeros(len(places), dtype=torch.float64), atol=1e-4)
    assert (source.test.x[:, places].double().mean(0).abs() > 1e-3).any()


def test_a_schema_codes_new_rows_as_in_training(loaded: Loaded) -> None:
    source = loaded("eicu")
    assert source.schema is not None
    first = next(row for row in rows_of("eicu") if row["region"] == "Midwest" and row["is_test"] == "0")
    assert torch.equal(source.schema.transform([first])[0], source.train.x[0])


def test_silos_of_twenty_examples(loaded: Loaded) -> None:
    whole = deal(loaded("har"), "natural", None, seed=0)
    few = whole.at_most(20, seed=0)
    assert set(few.sizes) == {20} and [len(a.test.y) for a in few.silos] == [len(b.test.y) for b in whole.silos]


@pytest.mark.parametrize(
    ("name", "model"),
    [("har-signals", "cnn1d"), ("writers", "cnn"), *((name, "mlp") for name in ("har", "parkinsons", *TABLES))],
)
def test_auto_chooses_a_model_that_fits(name: str, model: str) -> None:
    assert resolve("auto", SOURCES[name].shape) == model


def test_what_is_too_small_is_left_out_with_all_its_examples() -> None:
    """Three silos: large enough, one example short in training, one short in testing."""
    silo = torch.tensor([0] * 12 + [1] * 11 + [2] * 11)
    is_test = torch.tensor([False] * 10 + [True] * 2 + [False] * 9 + [True] * 2 + [False] * 10 + [True])
    dealt = dealing(silo, is_test, ["a", "b", "c"])
    assert [tuple(one) for one in dealt.silos] == [("a", 10, 2, None)]
    assert dealt.train[0].tolist() == list(range(10)) and dealt.test[0].tolist() == [10, 11]
    (note,) = dealt.notes
    assert "left out: 2 silos with fewer than 10" in note and "22 examples in all (b, c)" in note


@pytest.mark.parametrize("name", TOLD)
def test_a_pack_cannot_be_fetched_and_that_is_said_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AMITY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    entry = SOURCES[name]
    assert entry.official is not None and entry.official.home.startswith("https://") and entry.official.cite
    place = tmp_path / "cache" / "amity" / entry.official.folders[0]
    with pytest.raises(InputError) as caught:
        fetch_into(entry, None)
    for word in (*entry.files, entry.official.home, f"into {place} yourself"):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value) and not place.exists()
    with pytest.raises(InputError, match="no address offers it in this form"):
        load(name)


def test_a_changed_pack_is_refused(loaded: Loaded, tmp_path: Path) -> None:
    loaded("contraception")
    content = file_of("contraception").read_text()
    folder = tmp_path / "contraception"
    folder.mkdir()
    (folder / "bangladesh_contraception.csv").write_text(content.replace("1,1,N", "1,1,Y", 1))
    with pytest.raises(InputError, match="must have the official content \\(sha256 9864fa36"):
        load("contraception", tmp_path)


def test_the_kind_of_labels_is_known(loaded: Loaded) -> None:
    loaded("exam")
    assert load("exam", labels="quantities").classes == 0
    with pytest.raises(InputError, match="the labels of exam are quantities, got labels=classes"):
        load("exam", labels="classes")
