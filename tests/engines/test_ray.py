"""The engine on a Ray cluster: the same results as in one process, what moves, and what happens when workers die."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from small import CLASSES, FEATURES, Hostile, Seen, batchnorm, fresh_task, run, same, scores_of, silos, solver_of, task
from torch import nn

import amity
from amity.cli import app as cli
from amity.config.participation import Participation
from amity.contract import InputError, Model, Silo, Split, State, Turn, nbytes
from amity.data import Silos
from amity.engines.ray import engine as ray
from amity.engines.ray import watch as ray_watch
from amity.engines.ray.cluster import Health
from amity.engines.ray.engine import on_ray
from amity.engines.ray.hosts import Traffic, Workers, dealt
from amity.errors import LostWorker
from amity.federation.course import LOSSES, Course
from amity.federation.events import Event, silent
from amity.federation.plan import Plan, federation_of
from amity.federation.reports import Round
from amity.learn.task import Task
from amity.methods.fedamp import FedAMP
from amity.testing.cases import check_equal
from amity.testing.federation import opened

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'amity[ray]'"),
    pytest.mark.xdist_group("ray"),  # one cluster for all
    pytest.mark.ray,
]
HERE = Path(__file__).parent
SOME = {"participation": 0.8, "drop": 0.5, "drop_phase": "after", "local_epochs_range": (1, 2)}
LITTLE = 5000  # bytes of messages beside the arrays in them


@pytest.fixture(scope="module", autouse=True)
def two_workers() -> Iterator[None]:
    """A cluster that all tests join. Workers import the classes of this file from it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([*map(str, (HERE, HERE.parent)), os.environ.get("PYTHONPATH", "")]))
        before = signal.signal(signal.SIGTERM, terminated)
        with ray.cluster("local", 2):
            yield
        signal.signal(signal.SIGTERM, before)


def terminated(number: int, frame: Any) -> None:
    """Somebody's own answer to SIGTERM."""


def test_a_cluster_leaves_sigterm_to_whoever_listens_to_it() -> None:
    """Ray's own would end the process in the middle of a round."""
    assert signal.getsignal(signal.SIGTERM) is terminated


def both(method: Any, **how: Any) -> tuple[list[Seen], list[Seen]]:
    return run(method, **how), run(method, engine=workers(2), made_on=opened("loop"), **how)


def workers(count: int, traffic: Traffic | None = None) -> Any:
    """How a carrier on so many workers is started."""
    return lambda plan, at: Workers(plan, [at[i] for i in range(len(at))], count, traffic or Traffic(), silent)


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
    check_equal(here, there)
    assert [report.holds for report in here] == [report.holds for report in there]
    assert [report.warnings for report in here] == [report.warnings for report in there]


@pytest.mark.parametrize("name", ["apple", "twin"])
def test_rounds_without_evaluation_are_those_of_one_process(name: str) -> None:
    """What clients think of each other and what they hold is told all the same."""
    here, there = both(name, evaluate_every=2)
    assert [report.scores is None for report in there] == [True, False, False]
    check_equal([r for r in here if r.scores is not None], [r for r in there if r.scores is not None])
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
    check_equal(here, there)
    score, each = scores_of(there[-1])[0], there[-1].each[0]
    assert score.metrics["rmse"] == pytest.approx(each.square().mean().sqrt().item())
    assert score.loss / score.examples == pytest.approx((score.metrics["rmse"] / at[0].scale.unit) ** 2)


def test_a_saved_state_is_continued() -> None:
    whole = run("fedamp")
    rest = run("fedamp", engine=workers(2), made_on=opened("loop"), start=whole[0].saved)
    check_equal(whole[1:], rest)


def test_silos_fall_to_workers_by_their_examples() -> None:
    assert dealt([7, 15, 9, 12, 10], 2) == [[1, 2], [0, 3, 4]] or sum((7, 12, 10)) - sum((15, 9)) <= 7
    for sizes in ([5] * 20, list(range(1, 40)), [100, 1, 1, 1]):
        hands = dealt(sizes, 3)
        assert sorted(client for hand in hands for client in hand) == list(range(len(sizes)))
        loads = [sum(sizes[client] for client in hand) for hand in hands]
        assert max(loads) - min(loads) <= max(sizes)
    assert [len(hand) for hand in dealt([5] * 20, 2)] == [10, 10]


def hostile(upload: State, is_it: Any, round: int) -> Any:
    """Another bad upload in each round, until it behaves."""
    if not is_it:
        return upload
    key = "cores" if "cores" in upload else "params"
    return [
        {k: v for k, v in upload.items() if k != key},
        {**upload, key: upload[key][:1]},
        {**upload, key: upload[key].float()},
        {**upload, key: upload[key].tolist()},
        {**upload, key: upload[key] * torch.nan},
        {**upload, "wanted": torch.full((4,), 1 << 40)},
        upload,
    ][round - 1]


@pytest.mark.parametrize("name", ["apple", "scaffold"])
def test_hostile_uploads_are_refused_as_in_one_process(name: str) -> None:
    """The server refuses them, and their silos are put back into the states that they were in."""
    here, there = both(Hostile(amity.methods.build(name), hostile), on=task(batchnorm), rounds=7, epochs=1)
    check_equal(here, there)
    assert [report.dropped.keys() for report in there] == [{1}] * 6 + [set()]
    assert [report.warnings for report in here] == [report.warnings for report in there]


# What moves


def wide() -> nn.Module:
    """Large enough that Ray does not carry its states along with an answer."""
    return nn.Sequential(nn.Linear(FEATURES, 3000), nn.Tanh(), nn.Linear(3000, CLASSES))


@pytest.mark.parametrize("name", ["fedamp", "fedavg", "apple"])
def test_bytes_moved(name: str) -> None:
    """Data once, then downloads and uploads; one copy of what is shared or forwarded; states only when read."""
    at, on, traffic, method = silos(), fresh_task(wide), Traffic(), amity.methods.build(name)
    model = nbytes(on.init(torch.Generator()))
    data = sum(nbytes({"x": part.x, "y": part.y}) for one in at for part in (one.train, one.test))
    once = {"fedamp": 5 * model, "fedavg": model, "apple": 5 * model}[name]
    plan = Plan(method, on, federation_of(at, 3, 1), solver_of(method), Participation(epochs=1))
    before, rounds = Traffic(), []
    with Course(plan, on_ray(plan, at, workers=2, traffic=traffic)) as course:

        def each(report: Round) -> None:
            nonlocal before
            fresh = Traffic(*(getattr(traffic, key) - getattr(before, key) for key in vars(traffic)))
            if report.round == 1:
                assert data < fresh.setup < data + 2 * (4 * model + LITTLE)  # the plan has the model's template
            else:
                assert fresh.setup == 0
            messages = min(once, report.bytes_down) + (model if report.bytes_eval else 0)
            assert messages <= fresh.down < messages + 2 * LITTLE
            assert report.bytes_up <= fresh.up < report.bytes_up + 4 * LITTLE
            assert fresh.states == 0
            before = Traffic(**vars(traffic))
            rounds.append(report.round)

        course.run(each)
        states = sum(nbytes(state) for state in course.door.states())
        assert states <= traffic.states < states + 5 * LITTLE
    assert rounds == [1, 2, 3]


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


@dataclass
class Told:
    """What a course has handed over: each round once, and what the silos held after it."""

    rounds: list[Round]
    states: list[list[State]]
    models: list[Model]


def course_of(method: Any, count: int, *, save: bool = False, rounds: int = 3) -> Told:
    """The course of a run on workers; `save` makes every round one to go back to."""
    at, told = silos(), Told([], [], [])
    plan = Plan(method, task(), federation_of(at, rounds, 1), solver_of(method), Participation(epochs=2))
    with Course(plan, on_ray(plan, at, workers=count)) as course:

        def each(report: Round) -> None:
            told.rounds.append(report)
            told.states.append(list(course.door.states()))
            if save:
                course.saved = course.snapshot(report.progress)

        course.run(each)
        course.keep()
        told.models = course.door.delivered()
    return told


@pytest.mark.parametrize("save", [False, True])
@pytest.mark.parametrize("during", ["local", "personal"])
def test_a_dead_worker_means_that_rounds_come_again(during: str, save: bool, tmp_path: Path) -> None:
    """All since the last state that was saved; nobody hears of them twice, and they are equal bit for bit."""
    undisturbed = run("fedamp")
    told = course_of(deadly(tmp_path, 1, during), 2, save=save)
    assert not list(tmp_path.iterdir())
    assert [report.round for report in told.rounds] == [1, 2, 3]
    for one, other, states in zip(undisturbed, told.rounds, told.states, strict=True):
        assert all(map(same, one.clients, states)) and one.scores == other.scores
    assert all(map(same, undisturbed[-1].models, told.models))
    (warning,) = told.rounds[1].warnings
    assert warning.startswith("the worker of silo") and "birch" in warning
    assert warning.endswith(f": rounds {2 if save else 1} to 2 were done again")
    assert told.rounds[0].warnings == told.rounds[2].warnings == []


def test_a_worker_that_dies_again_and_again_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(LostWorker, match=rf"the worker of silos .*birch.*happened {LOSSES + 1} times in one round"):
        course_of(deadly(tmp_path, 9), 1)
    assert len(list(tmp_path.iterdir())) == 9 - LOSSES - 1


@pytest.mark.slow
@pytest.mark.parametrize("save", [False, True])
def test_a_lost_machine_means_that_rounds_come_again(save: bool) -> None:
    """All since the last state that was saved, on the machines that are left."""
    command = [sys.executable, str(HERE / "lost_machine.py"), json.dumps(save)]
    done = subprocess.run(command, env=outside(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout[done.stdout.index('{"equal') :].splitlines()[0])
    assert found["equal"] == [True] * 4 and found["scores"] and found["rounds"] == [1, 2, 3, 4]
    first, second, (warning,), last = found["warnings"]
    assert first == second == last == []
    assert f"rounds {2 if save else 1} to 3 were done again" in warning


def outside() -> dict[str, str]:
    """The environment without the settings of this process's own cluster."""
    return {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}


# The cluster itself


def test_the_cluster_lies_where_nobody_else_can_enter() -> None:
    """Ray makes folders that are open to all: sockets, logs, runtime environments."""
    import ray as library

    node = library._private.worker.global_worker.node
    assert node is not None
    session = Path(node.get_session_dir_path())
    folder = next(parent for parent in session.parents if parent.name.startswith("amity-"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.parent == Path("/tmp")


def test_a_cluster_in_good_health_is_not_lost() -> None:
    import ray as library

    health = Health(library)
    health.check()
    assert health.lost() is None
    assert sorted(health._agents.values()) == ["dashboard agent", "runtime agent"]
    assert health._started.keys() == {"gcs_server", "raylet"}


SLEEPER = "import sys, time\nopen(sys.argv[1]).close() if sys.argv[1:] else None\nprint(flush=True)\ntime.sleep(60)"


@pytest.mark.parametrize("told", [b"done", b""])
def test_what_a_driver_leaves_behind_is_ended(told: bytes, tmp_path: Path) -> None:
    """Programs of Ray that have to do with the folder, and nobody else."""
    package, folder = tmp_path / "ray", tmp_path / "amity-x"
    package.mkdir()
    folder.mkdir()
    (package / "agent.py").write_text(SLEEPER)
    (folder / "log").touch()
    commands = {
        "by its words": [sys.executable, str(package / "agent.py"), str(folder / "log")],
        "another cluster's": [sys.executable, str(package / "agent.py")],
        "somebody's who looks at a log": [sys.executable, "-c", SLEEPER, str(folder / "log")],
        "by its open files": [sys.executable, str(package / "agent.py")],
    }
    started = {}
    with open(folder / "log") as log:
        for name, command in commands.items():
            held = log if name == "by its open files" else subprocess.DEVNULL
            started[name] = subprocess.Popen(command, stdin=held, stdout=subprocess.PIPE)
    try:
        for process in started.values():
            assert process.stdout is not None and process.stdout.readline() == b"\n"  # it has begun
        command = [sys.executable, "-I", "-S", ray_watch.__file__, str(folder)]
        done = subprocess.run(command, input=told, capture_output=True, timeout=30)
        codes = {name: process.poll() for name, process in started.items()}
        gone = {name for name, code in codes.items() if code is not None}
        assert gone == {"by its words", "by its open files"}
        assert folder.exists() == bool(told)
        assert (b"--resume continues" in done.stderr) == (not told) and done.returncode == 0
        assert done.stderr.count(b"\n") == (not told)
    finally:
        for process in started.values():
            process.kill()
            process.communicate()


@pytest.mark.parametrize("killed", [True, False])
def test_a_driver_is_watched_from_the_beginning_to_its_end(killed: bool, tmp_path: Path) -> None:
    """By a process that really starts: it says what has happened to a driver that is killed, and else nothing."""
    folder = tmp_path / "amity-x"
    folder.mkdir()
    program = (
        "import os, pathlib, sys\nfrom amity.engines.ray.cluster import _watched\n"
        "with _watched(pathlib.Path(sys.argv[1])):\n    if sys.argv[2:]:\n        os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", program, str(folder), *(["killed"] if killed else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)  # until nobody has its streams any more
    assert done.returncode == (-signal.SIGKILL if killed else 0)
    assert folder.exists() != killed
    assert done.stderr == (f"{ray_watch.SAID}\n" if killed else "")


@pytest.mark.slow
def test_a_cluster_that_has_ended_no_longer_listens_to_sigterm() -> None:
    program = (
        "import signal\nfrom amity.engines.ray.engine import cluster\nwith cluster('local', 1): pass\n"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL"
    )
    subprocess.run([sys.executable, "-c", program], env=outside(), check=True, timeout=120)


def begun_on_ray(folder: Path, rounds: int) -> tuple[subprocess.Popen[str], int, Path]:
    """A run of the command line that is busy, its raylet, and the folder of its cluster."""
    words = (
        f"run fedamp --data digits --clients 6 --rounds {rounds} --epochs 5 --workers 2 --engine ray --no-alone".split()
    )
    command = [sys.executable, "-m", "amity", *words, "--checkpoint-every", "2", "--out", str(folder / "run")]
    run = subprocess.Popen(command, env=outside(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (folder / "run" / "checkpoint").exists():
        assert run.poll() is None, run.communicate()
        time.sleep(0.1)
    (raylet,) = children(run.pid, "raylet/raylet")
    (place,) = [word for word in words_of(raylet) if word.startswith("--raylet_socket_name=")]
    return run, raylet, Path(*Path(place.partition("=")[2]).parts[:3])


def children(parent: int, name: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found += [int(entry.name)] if name in " ".join(words_of(int(entry.name))) else []
    return found


def words_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["raylet", "DashboardAgent", "RuntimeEnvAgent", "gcs_server", "driver"])
def test_a_cluster_that_breaks_down_is_told_of_and_leaves_nothing_behind(victim: str, tmp_path: Path) -> None:
    run, raylet, folder = begun_on_ray(tmp_path, 60)
    everybody = [*children(run.pid, ""), *children(raylet, "")]
    pid = {"raylet": raylet, "driver": run.pid}.get(victim)
    if pid is None:
        (pid,) = children(run.pid if victim == "gcs_server" else raylet, victim)
    os.kill(pid, signal.SIGKILL)
    _, said = run.communicate(timeout=60)
    (line,) = [line for line in said.splitlines() if line.startswith("amity: ")]
    assert "--resume" in line and "Traceback" not in said
    if victim in ("raylet", "gcs_server"):
        assert run.returncode == 2 and f"its {victim} (process {pid}) has died" in line
    else:  # when an agent has died, Ray may be faster, and ends the process with 1
        assert run.returncode in ((-signal.SIGKILL,) if victim == "driver" else (1, 2))
    for _ in range(50):
        left = [one for one in everybody if Path(f"/proc/{one}/cmdline").exists() and words_of(one) != [""]]
        if not left and not folder.exists():
            break
        time.sleep(0.1)
    assert left == [] and not folder.exists()

    words = [
        sys.executable,
        "-m",
        "amity",
        "run",
        "fedamp",
        "--data",
        "digits",
        "--clients",
        "6",
        "--epochs",
        "5",
        "--no-alone",
    ]
    for name, more in (("run", ["--resume"]), ("whole", [])):
        command = [*words, "--rounds", "60", "--engine", "loop", "--checkpoint-every", "2", *more]
        subprocess.run([*command, "--out", str(tmp_path / name)], check=True, capture_output=True)
    resumed, whole = (sorted((tmp_path / name / "models").glob("*.safetensors")) for name in ("run", "whole"))
    assert [one.read_bytes() for one in resumed] == [one.read_bytes() for one in whole]


# Errors, interrupts, the command line


@dataclass(frozen=True)
class Unlucky(FedAMP):
    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        if turn.round == 2 and len(turn.data.train.y) == 9:
            raise InputError("toy needs luck")
        return super().local(task, client, down, turn)


def test_errors_come_back_as_they_are() -> None:
    with pytest.raises(InputError, match="silo cedar, round 2, Unlucky: toy needs luck"):
        run(Unlucky(), engine=workers(1))


def test_what_cannot_be_sent_is_refused() -> None:
    held = threading.Lock()
    stuck = fresh_task(lambda: nn.Linear(FEATURES, CLASSES + held.locked()))
    with pytest.raises(InputError, match="cannot be pickled"):
        run("fedavg", on=stuck, engine=workers(2))


def test_more_workers_than_cores_are_refused() -> None:
    with pytest.raises(InputError, match="the Ray cluster has 2 cores, got --workers 3"):
        run("fedavg", engine=workers(3))


def test_an_interrupted_run_is_resumed_by_another_engine(tmp_path: Path) -> None:
    """No checkpoint was due before: the states of the last round are fetched when the interrupt comes."""
    at = amity.own_silos({s.name: (*s.train, *s.test) for s in silos()})
    how: dict[str, Any] = {"rounds": 3, "epochs": 1, "seed": 1, "workers": 2, "checkpoint_every": 0}

    def interrupt(event: Event) -> None:
        if event.what == "trained" and event.round == 2 and event.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        amity.run(amity.Run("fedamp", engine="ray", **how), at, out=tmp_path / "run", listen=interrupt)
    assert (tmp_path / "run" / "checkpoint").exists()
    lines = (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()
    assert len(lines) == 1
    resumed = amity.run(amity.Run("fedamp", engine="loop", **how), at, out=tmp_path / "run", resume=True)
    whole = amity.run(amity.Run("fedamp", engine="loop", **how), at)
    assert all(same(resumed.held(name).model(name), whole.held(name).model(name)) for name in whole.record.silos)
    assert len(resumed.lines) == 3


class Busy:
    """Somebody else's work on the cluster."""

    def begun(self) -> bool:
        return True


def test_workers_that_wait_for_a_core_are_told_of_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray as library

    monkeypatch.setattr("amity.engines.ray.hosts.PATIENCE", 0.5)
    busy: Any = library.remote(Busy).options(num_cpus=1).remote()
    library.get(busy.begun.remote())
    told: list[tuple[int | None, int | None]] = []

    def listen(event: Event) -> None:
        if event.what == "waiting":
            assert not (tmp_path / "run").exists()
            told.append((event.done, event.total))
            if event.done == 1:
                library.kill(busy)

    at = amity.own_silos({s.name: (*s.train, *s.test) for s in silos()})
    run = amity.Run("fedamp", engine="ray", rounds=1, epochs=1, workers=2)
    amity.run(run, at, out=tmp_path / "run", listen=listen)
    assert (1, 2) in told
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
    program = "from amity.engines.ray.engine import cluster\nwith cluster('127.0.0.1:1', 2): pass"
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
        command = [sys.executable, "-m", "amity", *words, "--engine", engine, "--out", str(tmp_path / engine)]
        done = subprocess.run(command, env={**outside(), "HOME": str(home)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert list(home.iterdir()) == []
    files = {engine: sorted(Path(tmp_path / engine / "models").glob("*.safetensors")) for engine in ("ray", "loop")}
    assert [a.read_bytes() for a in files["ray"]] == [b.read_bytes() for b in files["loop"]]

    def lines(engine: str) -> list[dict[str, Any]]:
        text = (tmp_path / engine / "rounds.jsonl").read_text()
        timed = ("seconds", "check")  # and the checksum, of which the time is part
        return [{k: v for k, v in json.loads(line).items() if k not in timed} for line in text.splitlines()]

    assert lines("ray") == lines("loop")
    assert json.loads((tmp_path / "ray" / "summary.json").read_text())["engine"] == "ray"
