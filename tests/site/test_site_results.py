"""What a silo finds out for itself: its model alone, the verdict, and predictions for new examples."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sites import Workers, approved, contract_of, make_site

import amity
from amity.data import Silos
from amity.data.schema.labels import Kind
from amity.errors import InputError
from amity.federation.messages import Done, Finish
from amity.federation.run_contract import DataForm
from amity.federation.server import ServerSide
from amity.predicting.writing import write_predictions
from amity.prepare import ready, roster_of
from amity.resolve import method_of, resolve
from amity.site import keeping
from amity.site.config import Site, load_site
from amity.site.model_file import read_facts
from amity.site.predict import predict
from amity.site.results import finish, finish_due, train_alone
from amity.worth.judgement import judged
from amity.worth.paired import Difference

pytestmark = pytest.mark.xdist_group("silos that are finished")  # they are made once

FORM = DataForm((2,), ("ill", "well"), ("pressure", "sugar"))
NAMES = ["north", "south"]
RUN = amity.Run("heurfedamp", rounds=3, epochs=2, seed=1)


def clinic(folder: Path, seed: int, *, quantities: bool = False, count: int = 60) -> Path:
    """A silo with a table of patients."""
    folder = make_site(folder, 'data = "patients.csv"\nlabel = "finding"\ndrop_columns = ["id"]')
    x = np.random.default_rng(seed).normal(size=(count, 2)).round(3)
    with (folder / "patients.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(("id", "sugar", "finding", "pressure"))
        for i, (a, b) in enumerate(x.tolist()):
            rows.writerow((i, b, 50 + 20 * a + 3 * b if quantities else "ill" if a + b > 0 else "well", a))
    return folder


Finished = Callable[[Path, amity.Run, DataForm], tuple[list[Site], Silos]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Two silos that have been through a run, and the same silos for a simulation: made once, and copied for a test."""
    made: dict[str, Path] = {}

    def copied(tmp_path: Path, run: amity.Run, form: DataForm) -> tuple[list[Site], Silos]:
        if (key := f"{run} {form}") not in made:
            made[key] = tmp_path_factory.mktemp("finished")
            go_through(made[key], run, form)
        folders = [Path(shutil.copytree(made[key] / name, tmp_path / name)) for name in NAMES]
        kind: Kind = "quantities" if form.labels is None else "classes"
        return [load_site(folder) for folder in folders], simulated(folders, tmp_path / "all", run, kind)

    return copied


def go_through(place: Path, run: amity.Run, form: DataForm) -> None:
    """Take two silos through a run; the first finishes by itself, the second is killed."""
    contract = contract_of(run, form, NAMES)
    folders = [clinic(place / name, seed, quantities=form.labels is None) for seed, name in enumerate(NAMES)]
    for folder in folders:
        approved(folder, contract)
    with Workers(folders) as children:
        plan, carrier = children.agree(contract)
        server = ServerSide(plan, carrier)
        list(server.rounds())
        server.keep()
        for client in range(2):
            assert children.ask(client, Finish("trial", run.rounds, client)) == Done("trial", run.rounds, client)
        children.end(0)


def simulated(folders: list[Path], together: Path, run: amity.Run, kind: Kind) -> Silos:
    """The same silos for a simulation, whose tables have the columns in the contract's order."""
    together.mkdir()
    for folder in folders:
        rows = list(csv.DictReader((folder / "patients.csv").read_text().splitlines()))
        with (together / f"{folder.name}.csv").open("w", newline="") as stream:
            table = csv.DictWriter(stream, ["pressure", "sugar", "finding"], extrasaction="ignore")
            table.writeheader()
            table.writerows(rows)
    source = amity.load(f"folder:{together}", seed=run.seed, labels=kind, label="finding", scale="none")
    return amity.deal(source, "natural", None, run.seed)


@pytest.mark.parametrize("form", [FORM, FORM._replace(labels=None)], ids=["classes", "quantities"])
def test_a_silo_compares_its_model_with_one_that_it_trains_alone(
    form: DataForm, tmp_path: Path, finished: Finished
) -> None:
    sites, silos = finished(tmp_path, RUN, form)
    assert (sites[0].run("trial") / "verdict.json").exists()
    assert not (sites[1].run("trial") / "verdict.json").exists()
    assert [one["silo"] for one in finish_due(sites[1])] == ["south"] and finish_due(sites[1]) == []
    together = amity.run(replace(RUN, engine="loop"), silos)
    solver = together.record.config
    alone = amity.run(
        replace(
            RUN, method="separate", engine="loop", batch=solver["batch"], lr=solver["lr"], optimizer=solver["optimizer"]
        ),
        silos,
    )
    for site in sites:
        folder = site.run("trial")
        verdict = json.loads((folder / "verdict.json").read_text())
        assert verdict["personal"] == pytest.approx(together.scores[site.name])
        assert verdict["alone"] == pytest.approx(alone.scores[site.name])
        assert verdict["difference"] == pytest.approx(verdict["personal"] - verdict["alone"])
        assert verdict["low"] <= verdict["difference"] <= verdict["high"] and verdict["examples"] == 12
        text = (folder / "report.md").read_text()
        assert verdict["words"] in text.splitlines()[0] and f"{verdict['alone']:.2f} %" in text
        weights = load_file(folder / "alone.safetensors")
        inner = alone.model(site.name)
        wanted = inner.state_dict() if form.labels else inner[0].state_dict()  # type: ignore[index]
        assert all(torch.equal(weights[key], wanted[key]) for key in weights)
        check_predictions(folder, verdict, form)


def check_predictions(folder: Path, verdict: dict[str, float], form: DataForm) -> None:
    with np.load(folder / "predictions.npz") as found:
        if form.labels:
            assert found["labels"].tolist() == list(form.labels)
            right = found["personal"].argmax(1) == found["y"]
            assert 100 * right.mean() == pytest.approx(verdict["personal"])
            assert np.allclose(found["alone"].sum(1), 1)
        else:
            squares = ((found["alone"] - found["y"]) ** 2).mean() / found["y"].var()
            assert 100 * (1 - squares) == pytest.approx(verdict["alone"], rel=1e-3)
    assert (folder / "predictions.npz").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("form", [FORM, FORM._replace(labels=None)], ids=["classes", "quantities"])
def test_new_examples_are_seen_as_in_training(form: DataForm, tmp_path: Path, finished: Finished) -> None:
    (site, _), silos = finished(tmp_path, RUN, form)
    model = amity.run(replace(RUN, engine="loop"), silos).model("north")
    x = np.random.default_rng(9).normal(size=(5, 2)).round(3)
    wanted = model(torch.tensor(x, dtype=torch.float32)).detach()
    (tmp_path / "table.csv").write_text("ward,sugar,pressure\n" + "".join(f"a,{b},{a}\n" for a, b in x.tolist()))
    np.savez(tmp_path / "new.npz", x=x)
    for name in ("table.csv", "new.npz"):
        found = predict(site, "trial", tmp_path / name)
        if form.labels:
            assert found.probabilities is not None
            assert np.allclose(found.probabilities, wanted.softmax(1).numpy(), atol=1e-6)
            assert list(found.values) == [form.labels[place] for place in wanted.argmax(1).tolist()]
        else:
            assert found.probabilities is None and np.allclose(found.values, wanted[:, 0].numpy(), rtol=1e-5)
    write_predictions(found, tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row["prediction"] for row in rows] == list(map(str, found.values))
    assert ("p(ill)" in rows[0]) == (form.labels is not None)


def test_a_parquet_file_is_read_by_its_columns(tmp_path: Path, finished: Finished) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (site, _), _ = finished(tmp_path, replace(RUN, rounds=1), FORM)
    x = np.random.default_rng(9).normal(size=(5, 2))
    pq.write_table(pa.table({"sugar": x[:, 1], "pressure": x[:, 0], "name": list("abcde")}), tmp_path / "new.parquet")
    np.savez(tmp_path / "new.npz", x=x)
    found, wanted = (predict(site, "trial", tmp_path / name).probabilities for name in ("new.parquet", "new.npz"))
    assert found is not None and wanted is not None and np.array_equal(found, wanted)
    pq.write_table(pa.table({"sugar": list("ab"), "pressure": [1.0, 2.0]}), tmp_path / "words.parquet")
    with pytest.raises(InputError, match="sugar must be a number, found 'a'"):
        predict(site, "trial", tmp_path / "words.parquet")


def test_pictures_are_seen_as_in_training(tmp_path: Path) -> None:
    """They were scaled then, and are scaled now; they may lie in one folder or in one for each class."""
    image = pytest.importorskip("PIL.Image")
    for part in ("train", "test"):
        for place, shade in {"dark/1": 10, "dark/2": 30, "light/1": 220, "light/2": 250}.items():
            file = tmp_path / "north" / "pictures" / part / f"{place}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            image.new("L", (4, 4), shade).save(file)
    make_site(tmp_path / "north", 'data = "pictures"')
    run = amity.Run("separate", rounds=5, epochs=5, lr=0.01)
    contract = contract_of(run, DataForm((1, 4, 4), ("light", "dark")), ["north"])
    with Workers([approved(tmp_path / "north", contract)]) as children:
        plan, carrier = children.agree(contract)
        server = ServerSide(plan, carrier)
        list(server.rounds())
        server.keep()
    (tmp_path / "new").mkdir()
    for name, shade in {"a": 20, "b": 230}.items():
        image.new("L", (4, 4), shade).save(tmp_path / "new" / f"{name}.png")
    assert predict(tmp_path / "north", "trial", tmp_path / "new").values == ("dark", "light")
    again = predict(tmp_path / "north", "trial", tmp_path / "north" / "pictures" / "test")
    assert again.values == ("dark", "dark", "light", "light")


def test_what_cannot_be_predicted_is_one_line(tmp_path: Path, finished: Finished) -> None:
    (site, _), _ = finished(tmp_path, replace(RUN, rounds=1), FORM)
    (tmp_path / "less.csv").write_text("sugar\n1\n")
    with pytest.raises(InputError, match="it lacks pressure"):
        predict(site.folder, "trial", tmp_path / "less.csv")
    np.savez(tmp_path / "wide.npz", x=np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"takes examples of shape \[2\], got \[3\]"):
        predict(site, "trial", tmp_path / "wide.npz")
    with pytest.raises(InputError, match="has no model of run 'other'"):
        predict(site, "other", tmp_path / "wide.npz")
    with pytest.raises(InputError, match="must be csv, parquet, npz"):
        predict(site, "trial", tmp_path / "picture.gif")


def test_training_alone_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: Finished
) -> None:
    """It is ended after its second round; what comes out is what would have come out without that."""
    (north, _), _ = finished(tmp_path, RUN, FORM)
    wanted = load_file(north.run("trial") / "alone.safetensors")
    for name in ("verdict.json", "alone.safetensors"):
        (north.run("trial") / name).unlink()
    shutil.rmtree(north.run("trial") / "alone")
    trained: list[int] = []
    usual = keeping.KeptSilo.train

    def counted(self: keeping.KeptSilo, round: int, down: amity.State) -> amity.State:
        if len(trained) == 2 and trained[-1] == 2:
            trained.append(-1)
            raise KeyboardInterrupt
        trained.append(round)
        return usual(self, round, down)

    monkeypatch.setattr(keeping.KeptSilo, "train", counted)
    with pytest.raises(KeyboardInterrupt):
        finish(north, "trial")
    finish(north, "trial")
    assert trained == [1, 2, -1, 3]
    found = load_file(north.run("trial") / "alone.safetensors")
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)


def test_validation_data_choose_the_round_of_the_model_alone(tmp_path: Path) -> None:
    """As in a simulation of this silo by itself, also where it is ended after each round and goes on."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(80, 2)).astype(np.float32), rng.integers(0, 2, 80)
    run = amity.Run("separate", rounds=6, epochs=3, lr=0.05, val_fraction=0.3, engine="loop", seed=5)
    own = amity.own_silos({"north": (x, y)}, classes=2)
    whole = amity.run(run, own)
    silos = ready(own, run, *method_of(run))
    plan = resolve(run, roster_of(silos)).plan
    at_once = train_alone(plan, 0, silos.silos[0], 6, tmp_path / "whole")
    for rounds in range(1, 7):
        alone = train_alone(plan, 0, silos.silos[0], rounds, tmp_path / "parts")
    wanted = whole.model("north").state_dict()
    for found in (at_once, alone):
        weights = plan.task.export_state(found.model)
        assert found.round == whole.round < 6 and all(torch.equal(weights[key], wanted[key]) for key in wanted)


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (Difference(4.23, 1.0, 7.0), "gains 4.2 points"),
        (Difference(-2.0, -3.0, -0.5), "better alone, by 2.0 points"),
        (Difference(4.0, -1.0, 9.0), "no clear difference"),
        (Difference(*[float("nan")] * 3), "cannot be compared"),
    ],
)
def test_verdicts_are_plain_words(difference: Difference, words: str) -> None:
    assert judged(difference)[1] == words


def test_a_model_says_what_it_was_made_for(tmp_path: Path, finished: Finished) -> None:
    (site, _), _ = finished(tmp_path, replace(RUN, rounds=1), FORM)
    facts = read_facts(site.run("trial"))
    assert facts["labels"] == ["ill", "well"] and facts["features"] == ["pressure", "sugar"] and facts["round"] == 1
    assert facts["contract"] == contract_of(replace(RUN, rounds=1), FORM, ["north", "south"]).hash()
    with pytest.raises(InputError, match="has no model of run 'other' yet"):
        finish(site, "other")
