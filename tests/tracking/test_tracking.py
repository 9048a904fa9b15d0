"""Trackers: what the real libraries read back is what the record holds."""

from __future__ import annotations

import math
import socket
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from listening import recorded

import amity
from amity import record
from amity.errors import InputError
from amity.federation.events import Event
from amity.tracking import log_run, track
from amity.tracking.registry import check_trackers

pytest.importorskip("tensorboard")
pytest.importorskip("mlflow")

from mlflow.entities import ViewType  # noqa: E402
from mlflow.tracking import MlflowClient  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]  # noqa: E402

# SQLAlchemy tells MLflow's own code that it is old; that is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:sqlalchemy.*", "ignore:The ``noload``")

STRANGE = ["north", "Köln/Süd", "a~2", "A", "a", "..", "50 % %2F:", "x" * 300]
BASE: dict[str, Any] = {"data": "synthetic", "setting": "iid", "clients": 3, "model": "mlr", "epochs": 1, "workers": 1}


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow store with its tables and nothing in them: making these takes seconds."""
    file = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{file}").search_experiments()
    return file


@pytest.fixture
def store(empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowClient]:
    """The store that trackers will find: a copy of the empty one."""
    with sqlite3.connect(empty_store) as source, sqlite3.connect(tmp_path / "mlflow.db") as copy:
        source.backup(copy)
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.chdir(tmp_path)
    yield MlflowClient(uri)


def strange_silos() -> amity.Silos:
    rng = np.random.default_rng(0)

    def part(count: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.normal(size=(count, 4)).astype("float32"), np.arange(count) % 2

    made = amity.own_silos({f"silo-{place}": (*part(20), *part(10)) for place in range(len(STRANGE))})
    named = (silo._replace(name=name) for silo, name in zip(made.silos, STRANGE, strict=True))
    return replace(made, silos=tuple(named))  # `own_silos` refuses such names, records of elsewhere may have them


def scalars(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Return every series that TensorBoard finds in a run directory."""
    seen = EventAccumulator(str(path / "tensorboard"), size_guidance={"scalars": 0})
    seen.Reload()
    return {tag: [(event.step, event.value) for event in seen.Scalars(tag)] for tag in seen.Tags()["scalars"]}


def the_run(store: MlflowClient) -> Any:
    """Return the only run in the store."""
    experiment = store.get_experiment_by_name("amity")
    assert experiment is not None
    (run,) = store.search_runs([experiment.experiment_id], run_view_type=ViewType.ALL)
    return run


def history(store: MlflowClient, run: str, name: str) -> list[tuple[int, float]]:
    return sorted((held.step, held.value) for held in store.get_metric_history(run, name))


def columns(lines: list[record.Line], key: str) -> list[tuple[int, float]]:
    return [(line["round"], line[key]) for line in lines]  # type: ignore[literal-required]


def scores(line: record.Line, key: str) -> list[float]:
    """Return a number of every silo in a round."""
    found: list[float] = line[key]  # type: ignore[literal-required]
    return found


def close_to(found: list[tuple[int, float]], expected: list[tuple[int, float]]) -> bool:
    """Whether rounds are equal, and values as far as TensorBoard's 32 bits hold them."""
    assert [step for step, _ in found] == [step for step, _ in expected]
    return all(math.isclose(x, y, rel_tol=1e-6) for (_, x), (_, y) in zip(found, expected, strict=True))


def test_both_hold_what_the_record_holds_for_silos_of_any_name(store: MlflowClient, tmp_path: Path) -> None:
    out, page = tmp_path / "run", tmp_path / "page.html"
    page.write_text("a report")
    with track(out, "tensorboard", "mlflow", report=page) as listen:
        run = amity.Run("fedamp", rounds=3, epochs=1, val_fraction=0.2, train_loss=True, settings={"sigma": 7.0})
        result = amity.run(run, strange_silos(), out=out, listen=listen)
    seen, logged = scalars(out), the_run(store)
    lines, name = result.lines, logged.info.run_id
    for key in ("mean", "worst", "val"):
        assert close_to(seen[key], columns(lines, key))
        assert history(store, name, key) == columns(lines, key)
    for way in ("up", "down", "eval"):
        assert close_to(seen[f"bytes/{way}"], columns(lines, f"bytes_{way}"))
    assert len(seen["seconds/total"]) == len(seen["train_loss"]) == len(seen["metrics/macro_f1"]) == 3
    of_silos = {tag for tag in seen if tag.startswith("silo/")}
    for own in ("accuracy", "loss", "train_loss"):
        found = [seen[f"silo/{file}/{own}"] for file in record.file_names(STRANGE).values()]
        for place, series in enumerate(found):
            assert close_to(series, [(line["round"], scores(line, own)[place]) for line in lines])
    in_mlflow = {key for key in logged.data.metrics if key.startswith("silo/")}
    assert len(in_mlflow) == len(of_silos)  # no two silos share a name
    third = [(line["round"], scores(line, "loss")[2]) for line in lines]  # "a~2"
    assert history(store, name, "silo/a:7E2/loss") == third
    assert logged.data.params["set.sigma"] == "7.0" and logged.data.params["rounds"] == "3"
    assert logged.data.tags["amity.method"] == "fedamp"
    assert logged.data.metrics["summary/delivered"] == result.best
    assert close_to(seen["summary/delivered"], [(3, result.best)])
    assert {file.path for file in store.list_artifacts(name)} == {"config.toml", "summary.json", "page.html"}
    assert logged.info.status == "FINISHED"


def test_a_resumed_run_goes_on_without_a_round_twice(store: MlflowClient, tmp_path: Path) -> None:
    out = tmp_path / "run"

    def stop(line: dict[str, Any]) -> None:
        if line["round"] == 2:
            raise KeyboardInterrupt

    run = amity.Run("fedavg", rounds=4, **BASE)
    with pytest.raises(KeyboardInterrupt), track(out, "tensorboard", "mlflow") as listen:

        def both(event: Event) -> None:
            listen(event)
            recorded(stop)(event)

        amity.run(run, out=out, listen=both)
    assert the_run(store).info.status == "KILLED"
    with track(out, "tensorboard", "mlflow") as listen:
        result = amity.run(run, out=out, resume=True, listen=listen)
    logged = the_run(store)
    assert logged.info.status == "FINISHED"
    assert close_to(scalars(out)["mean"], columns(result.lines, "mean"))
    assert history(store, logged.info.run_id, "mean") == columns(result.lines, "mean")


def test_rounds_that_a_killed_process_did_not_log_come_when_it_is_resumed(tmp_path: Path) -> None:
    out, run = tmp_path / "run", amity.Run("fedavg", rounds=2, **BASE)
    amity.run(run, out=out)
    with track(out, "tensorboard") as listen:
        more = amity.run(amity.Run("fedavg", rounds=3, **BASE), out=out, resume=True, listen=listen)
    assert close_to(scalars(out)["mean"], columns(more.lines, "mean"))


def test_a_run_that_is_replaced_leaves_no_number_behind(tmp_path: Path) -> None:
    out = tmp_path / "run"
    for rounds in (3, 1):
        with track(out, "tensorboard") as listen:
            amity.run(amity.Run("fedavg", rounds=rounds, **BASE), out=out, force=True, listen=listen)
    assert [step for step, _ in scalars(out)["mean"]] == [1]


def test_a_run_on_disk_is_logged_later_at_the_times_of_its_rounds(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = amity.run(amity.Run("fedavg", rounds=2, evaluate_every=2, **BASE), out=out)
    log_run(out, "tensorboard")
    assert [step for step, _ in scalars(out)["mean"]] == [2]  # round 1 was not evaluated
    assert [step for step, _ in scalars(out)["bytes/up"]] == [1, 2]
    seen = EventAccumulator(str(out / "tensorboard")).Reload()
    times = [event.time for event in result.record.events if event.what == "recorded"]
    assert [event.wall_time for event in seen.Scalars("bytes/up")] == times


def test_a_tracker_that_fails_says_so_once_and_the_run_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "tensorboard").write_text("a file is where the folder should be")
    said: list[str] = []
    with track(out, "tensorboard", note=said.append) as listen:
        result = amity.run(amity.Run("fedavg", rounds=3, **BASE), out=out, listen=listen)
    assert len(result.lines) == 3
    (words,) = said
    assert words.startswith("tensorboard has failed (") and "the run goes on without it" in words


def test_a_full_disk_ends_the_tracker_and_leaves_whole_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/dev/full` is a disk without room; what was written before stays readable."""
    from amity.tracking import to_tensorboard

    class Full(to_tensorboard.TensorBoard):
        def add(self, round: int, when: float, values: Any) -> None:
            if round == 2 and self._file is not None:
                self._file.close()
                self._file = open("/dev/full", "ab", buffering=0)
            super().add(round, when, values)

    monkeypatch.setattr(to_tensorboard, "TensorBoard", Full)
    said: list[str] = []
    with track(tmp_path / "run", "tensorboard", note=said.append) as listen:
        amity.run(amity.Run("fedavg", rounds=3, **BASE), out=tmp_path / "run", listen=listen)
    assert len(said) == 1 and "No space left" in said[0]
    assert [step for step, _ in scalars(tmp_path / "run")["mean"]] == [1]


@pytest.mark.parametrize("listens", [True, False])
def test_a_server_that_is_away_does_not_hold_the_run_up(
    listens: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is there, or somebody who takes the call and says nothing."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    said: list[str] = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.getsockname()[1]}")
        with track(tmp_path / "run", "mlflow", note=said.append, patience=0.3 if listens else 20.0) as listen:
            result = amity.run(amity.Run("fedavg", rounds=1, **BASE), out=tmp_path / "run", listen=listen)
        assert len(result.lines) == 1
        (words,) = said
        assert words.startswith("mlflow has failed (no answer in" if listens else "mlflow has failed (MlflowException")
        for thread in threading.enumerate():
            if thread.name == "amity-mlflow":
                thread.join(10)


def test_what_cannot_be_logged_to_is_refused_before_the_run() -> None:
    with pytest.raises(InputError, match="--log takes tensorboard or mlflow, got tensorbord, x: did you mean"):
        check_trackers(["tensorbord", "x", "mlflow"])
    assert check_trackers(["tensorboard", "tensorboard"]) == ["tensorboard"]


def test_a_package_that_is_not_there_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"mlflow"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name in there else None)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(InputError, match=r"needs tensorboard, not installed: pip install 'amity\[track\]'"):
        check_trackers(["tensorboard"])
    with pytest.raises(InputError, match="needs sqlalchemy and alembic, not installed"):  # for a store on this machine
        check_trackers(["mlflow"])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere")
    assert check_trackers(["mlflow"]) == ["mlflow"]
