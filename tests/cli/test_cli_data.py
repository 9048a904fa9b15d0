"""`amity data`, and runs on natural silos and on folders of one's own."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli.commands import Amity, clinics, config, refused, summary, worked
from report.reported_runs import Page

from amity.data import SOURCES

REAL = Path(os.environ.get("AMITY_DATA", "nowhere"))
QUICK = "--model mlr --rounds 2 --epochs 1 --workers 1".split()

needs_files = pytest.mark.skipif(not (REAL / "heart-disease").is_dir(), reason="AMITY_DATA holds no heart-disease")


def test_data_sets_are_listed_with_what_is_at_hand(amity: Amity, tmp_path: Path) -> None:
    said = amity("data", "list")
    worked(said)
    rows = {line.split()[0]: line.rstrip() for line in said.out.splitlines() if line[:1].strip()}
    assert set(SOURCES) <= set(rows)
    assert rows["digits"].endswith("built in") and rows["mnist"].endswith("no")
    assert amity("datasets") == said
    found = json.loads(amity("data", "list", "--json").out)
    for name, entry in SOURCES.items():
        assert tuple(file["name"] for file in found[name]["files"]) == entry.files
        assert all(file["digest"] and (file["urls"] or found[name]["home"]) for file in found[name]["files"])
        assert found[name]["found"] == []
    folder = tmp_path / "mine" / "heart-disease"
    folder.mkdir(parents=True)
    for file in SOURCES["heart"].files:
        (folder / file).write_text("")
    listed = json.loads(amity("data", "list", "--json", "--data-dir", "mine").out)
    assert [Path(path).name for path in listed["heart"]["found"]] == list(SOURCES["heart"].files)


def test_help_lists_the_commands(amity: Amity) -> None:
    for words in (["data"], ["data", "--help"]):
        said = amity(*words)
        worked(said)
        assert all(f"\n  {name} " in said.out for name in ("list", "fetch", "verify"))
    assert "\n  data " in amity("--help").out


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("data fetch", "NAME"),
        ("data fetch mnits", "did you mean mnist"),
        ("data verify mnits", "did you mean mnist"),
        ("data verify mnist", "mnist is not at hand"),
        ("data verify folder:nowhere", "nowhere must be a folder"),
        ("data lists", "lists"),
        ("run separate --data folder:nowhere", "nowhere must be a folder"),
        ("run separate --data folder:", "needs the path of a folder"),
        ("run separate --data folders", "unknown data set 'folders'"),
        ("run separate --data digits --setting natural", "digits does not"),
        ("run separate --data folder:. --test-fraction 1", "test_fraction"),
        *(
            (f"{command} --data-dir nowhere", "--data-dir must name a directory, 'nowhere' is none: check the path")
            for command in (
                "run separate",
                "compare fedavg separate",
                "settings iid",
                "data list",
                "data verify digits",
            )
        ),
    ],
)
def test_refusals(amity: Amity, line: str, needed: str) -> None:
    refused(amity(*line.split()), needed)


def test_a_variable_that_names_no_directory(amity: Amity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMITY_DATA", "nowhere")
    for line in ("run separate --data mnist", "data list", "data fetch mnist", "data verify"):
        refused(amity(*line.split()), "AMITY_DATA must name a directory, 'nowhere' is none: correct the variable")
    worked(amity("settings", "iid"))


def test_verify_where_nothing_is(amity: Amity) -> None:
    said = amity("data", "verify")
    worked(said)
    assert said.out == "no files are at hand: see `amity data list`\n"


def test_built_in_data_need_no_fetching(amity: Amity) -> None:
    said = amity("data", "fetch", "digits", "synthetic")
    worked(said)
    assert said.out.splitlines() == [f"{name}: built in, nothing to fetch" for name in ("digits", "synthetic")]


def test_verify_tells_what_a_folder_holds(amity: Amity, tmp_path: Path) -> None:
    clinics(tmp_path / "clinics")
    said = amity("data", "verify", "folder:clinics", "digits")
    worked(said)
    lines = said.out.splitlines()
    head, *account = (line.split() for line in lines[2:5])
    assert head == ["column", "kind", "missing", "what", "is", "done", "why"]
    assert [row[:3] for row in account] == [["pressure", "number", "-"], ["sugar", "number", "-"]]
    assert lines[:2] + lines[5:] == [
        "folder:clinics: 44 train, 16 test, 2 classes",
        "  the label is 'label', 2 features: pressure, sugar",
        "  note: 2 silos have fewer than 5 examples to test on: east (4), north (4); scores there say little",
        "  classes: ill, well",
        *("  east: 16 train, 4 test", "  north: 16 train, 4 test", "  south: 12 train, 8 test"),
        "digits: 1,258 train, 539 test, 10 classes",
    ]


def test_verify_names_some_of_many_classes(amity: Amity, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    rows = [f"{place / 2},c{place % 23:02}" for place in range(92)]
    (tmp_path / "own" / "north.csv").write_text("\n".join(["age,label", *rows]))
    said = amity("data", "verify", "folder:own")
    worked(said)
    assert f"classes: {', '.join(f'c{place:02}' for place in range(20))} and 3 more\n" in said.out


def wards(path: Path) -> None:
    """Two silos of tables that have more columns than a model may see, and a label with a name of its own."""
    path.mkdir()
    rows = [f"{i},P{i:03},{i % 5 / 2},{i % 7 / 3},{('ill', 'well')[i % 2]},{i % 2}" for i in range(30)]
    for name in ("north", "south"):
        header = '"no, in the book",patient,pressure,sugar,diagnosis,target'
        (path / f"{name}.csv").write_text("\n".join([header, *rows]))


def test_the_label_and_dropped_columns_of_every_command(amity: Amity, tmp_path: Path) -> None:
    wards(tmp_path / "wards")
    said = "the label is 'diagnosis', 3 features: pressure, sugar, target"
    words = ["--label", "diagnosis", "--drop-column", '"no, in the book"', "--drop-column", "patient"]
    assert said in amity("data", "verify", "folder:wards", *words).out
    assert said in amity("settings", "natural", "--data", "folder:wards", *words).out
    run = amity("run", "fedavg", "--data", "folder:wards", *QUICK, *words, "--out", "one")
    worked(run)
    assert f"note: {said}" in run.err and "note: the column 'target' is a feature beside the label" in run.err
    assert "fewer than 5" not in run.err
    unread = amity(
        "run", "fedavg", "--data", "folder:wards", *QUICK, *words[:2], "--drop-column", "patient", "--out", "ids"
    )
    worked(unread)
    told = "left out: 'no, in the book', a different value in each row, as an id has"
    assert f"note: {told}" in unread.err
    assert any(told in note for note in Page(tmp_path / "ids" / "report.html").view["notes"])
    for name in ("facts", "manifest"):
        assert any(told in note for note in json.loads((tmp_path / "ids" / f"{name}.json").read_text())["notes"])
    facts = json.loads((tmp_path / "one" / "facts.json").read_text())
    assert (facts["label"], facts["features"]) == ("diagnosis", ["pressure", "sugar", "target"])
    view = Page(tmp_path / "one" / "report.html").view
    assert (view["label"], view["features"]) == ("diagnosis", ["pressure", "sugar", "target"])
    found = config(tmp_path / "one")
    assert (found["label"], found["drop_column"]) == ("diagnosis", '"no, in the book",patient')
    worked(amity("run", "--config", tmp_path / "one" / "config.toml", "--out", "again"))
    again = json.loads((tmp_path / "again" / "facts.json").read_text())
    assert (again["sha256"], again["features"]) == (facts["sha256"], facts["features"])
    words[-1] += ",target"
    worked(run := amity("compare", "fedavg", "separate", "--data", "folder:wards", *QUICK, *words, "--out", "two"))
    assert "note: the label is 'diagnosis', 2 features: pressure, sugar\n" in run.err and "target" not in run.err


@pytest.mark.parametrize(
    "command", ["run fedavg --data folder:wards", "settings natural --data folder:wards", "data verify folder:wards"]
)
@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("--label diagnose", "did you mean diagnosis?"),
        ("--drop-column", "--drop-column"),
        ("--drop-column patiens", "did you mean patient?"),
        ("--drop-column target --drop-column patient", "called label, target, y, outcome or class, found no, in the"),
        ("--label diagnosis --drop-column diagnosis", "got 'diagnosis' as both"),
    ],
)
def test_a_column_that_cannot_be_meant(amity: Amity, tmp_path: Path, command: str, words: str, needed: str) -> None:
    wards(tmp_path / "wards")
    refused(amity(*command.split(), *words.split()), needed)


@needs_files
def test_verify_reads_the_files_not_the_cache(amity: Amity, tmp_path: Path) -> None:
    shutil.copytree(REAL / "heart-disease", tmp_path / "data" / "heart-disease")
    said = amity("data", "verify")
    worked(said)
    assert "heart: 735 train, 185 test, 2 classes, checksum right" in said.out
    file = tmp_path / "data" / "heart-disease" / "processed.va.data"
    file.chmod(0o644)
    stat = file.stat()
    file.write_bytes(file.read_bytes().replace(b"63,1,4", b"64,1,4", 1))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    refused(amity("data", "verify", "heart"), "processed.va.data must have the official content (sha256 e7c93d8d")


@needs_files
def test_a_run_on_hospitals(amity: Amity, tmp_path: Path) -> None:
    said = amity("run", "fedavg", "--data", "heart", "--data-dir", REAL, *QUICK)
    worked(said)
    target = tmp_path / "runs" / "fedavg-heart-natural-0"
    found = config(target)
    assert (found["setting"], found["clients"], found["test_fraction"]) == ("natural", 4, 0.2)
    assert json.loads((target / "facts.json").read_text())["silos"] == ["cleveland", "hungarian", "switzerland", "va"]
    refused(
        amity("run", "fedavg", "--data", "heart", "--data-dir", REAL, "--clients", "3", "--out", "b"),
        "4 silos, got 3 clients",
    )


@pytest.mark.skipif(not (REAL / "eicu-demo").is_dir(), reason="AMITY_DATA holds no eicu-demo")
def test_a_run_on_regions_is_scored_by_auroc_and_codes_new_rows(amity: Amity, tmp_path: Path) -> None:
    words = "run fedavg --data eicu --metric auroc --per-silo 60 --out stays".split()
    worked(amity(*words, "--data-dir", REAL, *QUICK))
    facts = json.loads((tmp_path / "stays" / "facts.json").read_text())
    assert (
        facts["score"] == "auroc" and facts["label"] == "hospital_expired" and facts["labels"] == ["survived", "died"]
    )
    manifest = json.loads((tmp_path / "stays" / "manifest.json").read_text())
    assert [sum(silo["train"]) for silo in manifest["silos"]] == [60] * 5
    file = REAL / "eicu-demo" / "eicu_demo_mortality.csv"
    said = amity("predict", "stays", "--silo", "West", "--data", file, "--out", "new.csv")
    worked(said)
    assert len((tmp_path / "new.csv").read_text().splitlines()) == 1 + 2_179


def test_a_run_on_a_folder_of_silos(amity: Amity, tmp_path: Path) -> None:
    clinics(tmp_path / "our clinics")
    words = ["run", "pfedatt", "--data", "folder:our clinics", *QUICK]
    worked(amity(*words))
    target = tmp_path / "runs" / "pfedatt-our-clinics-natural-0"
    facts = json.loads((target / "facts.json").read_text())
    assert (facts["silos"], facts["labels"]) == (["east", "north", "south"], ["ill", "well"])
    assert {path.stem for path in (target / "models").iterdir()} == {"east", "north", "south"}
    worked(amity("run", "--config", target / "config.toml", "--out", "again"))
    again = {path.name: path.read_bytes() for path in (tmp_path / "again" / "models").iterdir()}
    assert again == {path.name: path.read_bytes() for path in (target / "models").iterdir()}
    worked(amity("run", "--out", target, "--resume", "--rounds", "3"))
    (tmp_path / "our clinics" / "east.csv").write_text("pressure,sugar,label\n1,2,ill\n3,4,well\n5,6,well\n")
    refused(amity("run", "--out", target, "--resume", "--rounds", "4"), "other data")


def test_a_run_on_a_folder_dealt_anew(amity: Amity, tmp_path: Path) -> None:
    clinics(tmp_path / "clinics")
    worked(amity("run", "fedavg", "--data", "folder:clinics", "--setting", "iid", "--clients", "5", *QUICK))
    assert config(tmp_path / "runs" / "fedavg-clinics-iid-0")["clients"] == 5


def test_a_folder_is_dealt_alike_however_its_path_is_written(amity: Amity, tmp_path: Path) -> None:
    clinics(tmp_path / "clinics")
    ways = ("clinics", "./clinics/", str(tmp_path / "clinics"))
    said = [amity("settings", "iid", "--clients", "3", "--data", f"folder:{way}") for way in ways]
    assert len({one.out.splitlines()[-1] for one in said}) == 1 and "sha256" in said[0].out


def quantities(path: Path) -> None:
    path.mkdir()
    for name in ("north", "south"):
        (path / f"{name}.csv").write_text("dose,target\n" + "".join(f"{i / 2},{i % 4 + 0.5}\n" for i in range(20)))


@pytest.mark.parametrize("setting", ["dirichlet", "dirichlet:axis=client", "scarce", "many", "shards", "practical"])
def test_settings_that_deal_by_classes_refuse_quantities(amity: Amity, tmp_path: Path, setting: str) -> None:
    quantities(tmp_path / "own")
    refused(amity("settings", setting, "--data", "folder:own", "--clients", "2"), "the labels of folder:own are quant")


def test_a_setting_is_looked_at_as_a_run_will_see_it(amity: Amity, tmp_path: Path) -> None:
    quantities(tmp_path / "own")
    seen = amity("settings", "natural", "--data", "folder:own")
    assert seen.out.splitlines()[0].split() == ["silo", "group", "train", "test"]
    words = ("--labels", "classes", "--test-fraction", "0.4")
    seen = amity("settings", "natural", "--data", "folder:own", *words)
    head, first, *_ = (line.split() for line in seen.out.splitlines())
    assert head == ["silo", "group", "train", "test", "0.5", "1.5", "2.5", "3.5"] and first[2:4] == ["12", "8"]
    assert "4 classes" in amity("data", "verify", "folder:own", "--labels", "classes").out
    refused(amity("data", "verify", "folder:own", "--labels", "words"), "auto, classes, quantities")


def test_without_a_home_the_remedy_is_said(amity: Amity) -> None:
    refused(amity("data", "list", "--data-dir", "~nobody-has-this-name/x"), "give the whole path")
    refused(amity("run", "separate", "--data", "folder:~nobody-has-this-name/x"), "give the whole path")


def test_a_comparison_on_quantities(amity: Amity, tmp_path: Path) -> None:
    """Each silo with a unit and a level of its own; the labels are a linear rule of the features."""
    (tmp_path / "own").mkdir()
    rng = np.random.default_rng(0)
    for number, name in enumerate(("kelvin", "celsius", "metres")):
        x = rng.normal(size=(60, 2))
        y = 10.0**number * (x @ [2.0, -1.0] + 3.0)
        rows = "\n".join(f"{a},{b},{c}" for (a, b), c in zip(x, y, strict=True))
        (tmp_path / "own" / f"{name}.csv").write_text(f"first,second,target\n{rows}\n")
    words = "--model mlr --optimizer sgd --lr 0.1 --rounds 20 --seed 1".split()
    said = amity("compare", "separate", "fedavg", "--data", "folder:own", *words, "--out", "both")
    worked(said)
    assert "Delivered R² %" in said.out and "BMTA" not in said.out
    for method, least in (("separate", 99), ("fedavg", 90)):  # samples differ in mean and deviation, labels thereby
        found = summary(tmp_path / "both" / method)
        assert found["score"] == "r2" and found["bmta"] is None
        assert found["last"] > least and min(found["per_client"]) > least
        mean = found["metrics"]["last"]
        assert 0 < mean["mae"] <= mean["rmse"] < 0.1**0.5 * 111 * 5**0.5  # R2 > 0.9 of these deviations, summed
    scales = json.loads((tmp_path / "both" / "separate" / "facts.json").read_text())["scales"]
    assert scales["metres"] == pytest.approx([300, 100 * 5**0.5], rel=0.3)
    errors = np.load(tmp_path / "both" / "separate" / "predictions" / "metres.npz")["last"]
    worst = summary(tmp_path / "both" / "separate")["metrics"]["delivered_per_client"]["rmse"][2]
    assert (errors**2).mean() ** 0.5 == pytest.approx(worst, rel=1e-4)
    page = Page(tmp_path / "both" / "report.html")
    assert page.view["score"] == {"key": "r2", "title": "R²", "unit": "%", "better": "higher"}
    assert {"rmse", "mae"} <= page.view["methods"][0]["metrics"].keys()
    assert page.view["table"]["best_on_test"] == "Best on test R² %" and "ccuracy" not in page.scripts[0]
    worked(amity("run", "fedavg", "--data", "synthetic", "--clients", "3", *QUICK, "--out", "classes"))
    refused(amity("report", "both", "classes", "--out", "mixed.html"), "no score in common")
