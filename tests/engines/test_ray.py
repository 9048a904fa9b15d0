"""The engine on a Ray cluster: the same results as in one process, what moves, and what happens when workers die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from small import CLASSES, FEATURES, Seen, batchnorm, fresh_task, run, same, silos, task
from test_contract import equal_runs
from torch import nn

import amity
from amity import cli
from amity.contract import InputError, Model, Silo, Split, State, Turn, nbytes
from amity.data import Silos
from amity.engines import ray
from amity.engines.ray import spread
from amity.engines.ray_hosts import Traffic, dealt
from amity.methods.fedamp import FedAMP
from amity.task import Task

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'amity[ray]'"),
    pytest.mark.xdist_group("ray"),  # one cluster for all
]
HERE = Path(__file__).parent
SOME = {"participation": 0.8, "drop": 0.5, "drop_phase": "after", "local_epochs_range": (1, 2)}
LITTLE = 5000  # bytes of messages beside the arrays in them


@pytest.fixture(scope="module", autouse=True)
def two_workers() -> Iterator[None]:
    """A cluster that all tests join. Workers import the classes of this file from it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([*map(str, (HERE, HERE.parent)), os.environ.get("PYTHONPATH", "")]))
        with ray.cluster("local", 2):
            yield


def both(method: Any, **how: Any) -> tuple[list[Seen], list[Seen]]:
    return run(method, **how), run(method, engine=spread, workers=2, **how)


# The same results


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("fedamp", {}),
        ("apple", SOME),  # learnt relations, forwarded rows
        ("scaffold", SOME),  # keys that wait for the upload to be accepted
        ("fedavg-ft", SOME),  # evaluates what the server has, and trains for it
        ("twin", SOME),  # chooses what it holds
    ],
)
def test_results_are_those_of_one_process(name: str, how: dict[str, Any]) -> None:
    here, there = both(name, on=task(batchnorm), **how)
    assert equal_runs(here, there)
    assert [report.holds for report in here] == [report.holds for report in there]
    assert [report.warnings for report in here] == [report.warnings for report in there]


@pytest.mark.parametrize("name", ["apple", "twin"])
def test_rounds_without_evaluation_are_those_of_one_process(name: str) -> None:
    """What clients think of each other and what they hold is told all the same."""
    here, there = both(name, evaluate_every=2)
    assert [report.scores is None for report in there] == [True, False, False]
    assert equal_runs([r for r in here if r.scores is not None], [r for r in there if r.scores is not None])
    for one, two in zip(here, there, strict=True):
        assert one.holds == two.holds and (one.weights is None) == (two.weights is None)
        assert one.weights is None or two.weights is None or torch.equal(one.weights, two.weights)


def test_quantities_are_measured_in_their_own_unit() -> None:
    def quantity(one: Silo) -> Silo:
        train, test = (Split(part.x, 100 + 10 * part.x.sum(1)) for part in (one.train, one.test))
        return one._replace(train=train, test=test)

    at = Silos(tuple(quantity(one) for one in silos()), 0, "own", "own").standardised().silos
    on = Task(lambda: nn.Linear(FEATURES, 1), (FEATURES,), 0, dtype=torch.float64)
    here, there = both("fedavg", at=at, on=on)
    assert equal_runs(here, there)
    score = there[-1].scores[0]
    assert score.metrics["rmse"] == pytest.approx(score.each.square().mean().sqrt().item())
    assert score.loss / len(score.each) == pytest.approx((score.metrics["rmse"] / at[0].scale.unit) ** 2)


def test_a_saved_state_is_continued() -> None:
    whole = run("fedamp")
    rest = run("fedamp", engine=spread, workers=2, start=whole[0].progress)
    assert equal_runs(whole[1:], rest)


def test_silos_fall_to_workers_by_their_examples() -> None:
    assert dealt([7, 15, 9, 12, 10], 2) == [[1, 2], [0, 3, 4]] or sum((7, 12, 10)) - sum((15, 9)) <= 7
    for sizes in ([5] * 20, list(range(1, 40)), [100, 1, 1, 1]):
        hands = dealt(sizes, 3)
        assert sorted(client for hand in hands for client in hand) == list(range(len(sizes)))
        loads = [sum(sizes[client] for client in hand) for hand in hands]
        assert max(loads) - min(loads) <= max(sizes)
    assert [len(hand) for hand in dealt([5] * 20, 2)] == [10, 10]


# What moves


def wide() -> nn.Module:
    """Large enough that Ray does not carry its states along with an answer."""
    return nn.Sequential(nn.Linear(FEATURES, 3000), nn.Tanh(), nn.Linear(3000, CLASSES))


@pytest.mark.parametrize("name", ["fedamp", "fedavg", "apple"])
def test_bytes_moved(name: str) -> None:
    """Data once, then downloads and uploads; one copy of what is shared or forwarded; no client states."""
    at, on, traffic = silos(), fresh_task(wide), Traffic()
    model = nbytes(on.init(torch.Generator()))
    data = sum(nbytes({"x": part.x, "y": part.y}) for one in at for part in (one.train, one.test))
    once = {"fedamp": 5 * model, "fedavg": model, "apple": 5 * model}[name]
    before = Traffic()

    def engine(*parts: Any, **how: Any) -> Iterator[Any]:
        nonlocal before
        for report in spread(*parts, **how, traffic=traffic):
            fresh = Traffic(*(getattr(traffic, key) - getattr(before, key) for key in vars(traffic)))
            if report.round == 1:
                assert data < fresh.setup < data + 2 * (4 * model + LITTLE)  # the plan has the model's template
            else:
                assert fresh.setup == 0
            messages = min(once, report.bytes_down) + (model if report.bytes_eval else 0)
            assert messages <= fresh.down < messages + 2 * LITTLE
            assert report.bytes_up <= fresh.up < report.bytes_up + 2 * LITTLE
            assert fresh.states == 0
            before = Traffic(**vars(traffic))
            yield report
            if report.round == 3:
                states = sum(nbytes(state) for state in report.progress.clients)
                assert states <= traffic.states < states + 5 * LITTLE

    assert len(run(name, on=on, at=at, workers=2, engine=engine)) == 3


# Workers that die


@dataclass(frozen=True)
class Deadly(FedAMP):
    """Kills its own process at silo birch (15 examples) in round 2, as often as there are files in a folder."""

    folder: str = ""
    during: str = "local"

    def _die(self, turn: Turn, during: str, round: int) -> None:
        if during == self.during and turn.round == round and len(turn.data.train.y) == 15:
            for file in Path(self.folder).glob("*"):
                file.unlink()
                os.kill(os.getpid(), signal.SIGKILL)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        self._die(turn, "local", 2)
        return super().local(task, client, down, turn)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        self._die(turn, "personal", 3)  # the turn to come
        return super().personal(task, client, down, turn)


def deadly(folder: Path, times: int, during: str = "local") -> Deadly:
    for number in range(times):
        (folder / str(number)).touch()
    return Deadly(folder=str(folder), during=during)


@pytest.mark.parametrize("during", ["local", "personal"])
def test_a_dead_worker_is_replaced(during: str, tmp_path: Path) -> None:
    undisturbed = run("fedamp")
    reports = run(deadly(tmp_path, 1, during), engine=spread, workers=2)
    assert not list(tmp_path.iterdir())
    assert equal_runs(undisturbed, reports)
    (warning,) = reports[1].warnings
    assert warning.startswith("a worker died") and "birch" in warning
    assert reports[0].warnings == reports[2].warnings == []


def test_a_worker_that_dies_again_and_again_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the worker of silos .*birch.* died 3 times in one round"):
        run(deadly(tmp_path, 9), engine=spread, workers=1)
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.slow
@pytest.mark.parametrize("read", [False, True])
def test_a_lost_machine_means_that_rounds_are_repeated(read: bool) -> None:
    """All since somebody has last read the states. Before that, each state was on one of the machines only."""
    command = [sys.executable, HERE / "lost_machine.py", json.dumps(read)]
    done = subprocess.run(command, env=outside(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout[done.stdout.index('{"equal') :].splitlines()[0])
    assert found["equal"] and found["scores"] and found["copies"] == [1] * 5 and found["machines"] == 2
    first, second, (warning,), last = found["warnings"]
    assert first == second == last == []
    assert f"rounds {2 if read else 1} to 3 were done again" in warning


def outside() -> dict[str, str]:
    """The environment without the settings of this process's own cluster."""
    return {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}


# Errors, interrupts, the command line


@dataclass(frozen=True)
class Unlucky(FedAMP):
    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        if turn.round == 2 and len(turn.data.train.y) == 9:
            raise InputError("toy needs luck")
        return super().local(task, client, down, turn)


def test_errors_come_back_as_they_are() -> None:
    with pytest.raises(InputError, match="silo cedar, round 2, Unlucky: toy needs luck"):
        run(Unlucky(), engine=spread, workers=1)


def test_what_cannot_be_sent_is_refused() -> None:
    held = threading.Lock()
    stuck = fresh_task(lambda: nn.Linear(FEATURES, CLASSES + held.locked()))
    with pytest.raises(InputError, match="cannot be pickled"):
        run("fedavg", on=stuck, engine=spread, workers=2)


def test_more_workers_than_cores_are_refused() -> None:
    with pytest.raises(InputError, match="the Ray cluster has 2 cores, got --workers 3"):
        run("fedavg", engine=spread, workers=3)


def test_an_interrupted_run_is_resumed_by_another_engine(tmp_path: Path) -> None:
    """No checkpoint was due before: the states of the last round are fetched when the interrupt comes."""
    at = amity.federation({s.name: (*s.train, *s.test) for s in silos()})
    how: dict[str, Any] = {"rounds": 3, "epochs": 1, "seed": 1, "workers": 2, "checkpoint_every": 0}

    def interrupt(phase: str, done: int, total: int) -> None:
        rounds.append(phase)
        if rounds.count("train") > 10:  # five silos, six calls per round
            raise KeyboardInterrupt

    rounds: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        amity.execute(amity.Run("fedamp", engine="ray", **how), at, out=tmp_path / "run", notify=interrupt)
    lines = (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()
    assert len(lines) == 1
    resumed = amity.execute(amity.Run("fedamp", engine="loop", **how), at, out=tmp_path / "run", resume=True)
    whole = amity.execute(amity.Run("fedamp", engine="loop", **how), at)
    assert all(same(resumed._models[name], whole._models[name]) for name in whole._models)
    assert len(resumed.lines) == 3


class Busy:
    """Somebody else's work on the cluster."""

    def begun(self) -> bool:
        return True


def test_workers_that_wait_for_a_core_are_told_of_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray as library

    monkeypatch.setattr("amity.engines.ray_hosts.PATIENCE", 0.5)
    busy = library.remote(Busy).options(num_cpus=1).remote()
    library.get(busy.begun.remote())
    told: list[tuple[str, int, int]] = []

    def notify(phase: str, done: int, total: int) -> None:
        if phase == "wait":
            assert not (tmp_path / "run").exists()
            told.append((phase, done, total))
            if done == 1:
                library.kill(busy)

    at = amity.federation({s.name: (*s.train, *s.test) for s in silos()})
    run = amity.Run("fedamp", engine="ray", rounds=1, epochs=1, workers=2)
    amity.execute(run, at, out=tmp_path / "run", notify=notify)
    assert ("wait", 1, 2) in told
    assert (tmp_path / "run" / "summary.json").exists()


def test_the_extra_is_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["amity", "run", "fedavg", "--engine", "ray", "--out", "never"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2 and not Path("never").exists()
    assert capsys.readouterr().err == "amity: the ray engine needs ray: pip install 'amity[ray]'\n"


def test_a_cluster_that_is_not_there_is_missed_at_once() -> None:
    """Outside the cluster of these tests, which would be joined instead."""
    program = "from amity.engines.ray import cluster\nwith cluster('127.0.0.1:1', 2): pass"
    done = subprocess.run([sys.executable, "-c", program], env=outside(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "InputError: cannot join the Ray cluster '127.0.0.1:1'" in done.stderr


def test_other_devices_are_refused() -> None:
    with pytest.raises(InputError, match="the ray engine computes on cpu"):
        ray.check("cuda")


def test_the_command_line_starts_and_ends_a_cluster(tmp_path: Path) -> None:
    """In a process and a home of its own: nothing stays behind but the run."""
    home = tmp_path / "home"
    home.mkdir()
    words = "run heurfedamp --data digits --clients 4 --rounds 2 --epochs 1 --workers 2".split()
    for engine in ("ray", "loop"):
        command = [sys.executable, "-m", "amity.cli", *words, "--engine", engine, "--out", str(tmp_path / engine)]
        done = subprocess.run(command, env={**outside(), "HOME": str(home)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert list(home.iterdir()) == []
    files = {engine: sorted(Path(tmp_path / engine / "models").iterdir()) for engine in ("ray", "loop")}
    assert [a.read_bytes() for a in files["ray"]] == [b.read_bytes() for b in files["loop"]]

    def lines(engine: str) -> list[dict[str, Any]]:
        text = (tmp_path / engine / "rounds.jsonl").read_text()
        return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in text.splitlines()]

    assert lines("ray") == lines("loop")
    assert json.loads((tmp_path / "ray" / "summary.json").read_text())["engine"] == "ray"
