"""Memory: what is available, as the system says it; and what is said when it runs out in the middle of a run."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from listening import recorded
from small import same, silos

import amity
from amity.contract import State, Turn
from amity.errors import OutOfMemory
from amity.free_memory import available, in_one_line
from amity.learn.task import Task
from amity.methods.fedamp import FedAMP

MIB = 1 << 20


def system(root: Path, **files: str) -> Path:
    """A tree with these files, `__` standing for a slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("~", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = "MemTotal:       24684100 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\n"


def test_the_machine_says_what_is_available(tmp_path: Path) -> None:
    assert available(system(tmp_path, proc__meminfo=MEMINFO)) == 2 * MIB


def test_nothing_is_known_where_nobody_says(tmp_path: Path) -> None:
    assert available(tmp_path) is None
    assert available(system(tmp_path, proc__meminfo="MemAvailable: much\nMemAvailable 7\n")) is None


def put(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_a_control_group_allows_less_than_the_machine_has(tmp_path: Path) -> None:
    """Version 2: of the group and those around it the strictest counts; pages of files are given back."""
    system(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="0::/user/job\n")
    top = tmp_path / "sys/fs/cgroup"
    put(top / "user/job", memory__max="max\n", memory__current="5000\n")
    assert available(tmp_path) == 2 * MIB
    put(top / "user", memory__max="9000\n", memory__current="6000\n", memory__stat="anon 1\ninactive_file 500\n")
    assert available(tmp_path) == 9000 - 6000 + 500
    put(top / "user/job", memory__max="5100\n")
    assert available(tmp_path) == 100
    put(top / "user/job", memory__current="6000\n")
    assert available(tmp_path) == 0


def test_control_groups_of_the_first_version(tmp_path: Path) -> None:
    system(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="4:memory:/job\n3:cpuset:/\n0::/\n")
    group = tmp_path / "sys/fs/cgroup/memory/job"
    put(group, memory__limit_in_bytes="9223372036854771712\n", memory__usage_in_bytes="7\n")  # no limit
    assert available(tmp_path) == 2 * MIB
    put(group, memory__limit_in_bytes="8000\n", memory__stat="total_inactive_file 3\n")
    assert available(tmp_path) == 8000 - 7 + 3


def test_this_machine_knows() -> None:
    found = available()
    assert found is not None and 0 < found < 1 << 50


def test_a_limit_on_the_address_space_counts() -> None:
    program = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))\n"
        "from amity.free_memory import available\n"
        "print(available())"
    )
    told = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, env=bare())
    assert 0 < int(told.stdout) < 1 << 30
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY  # this process has none


def bare() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(amity.__file__).parents[1])}


# Memory that runs out in the middle of a run


def too_much() -> None:
    torch.empty(1 << 60, dtype=torch.uint8)


@pytest.mark.parametrize("fault", [too_much, lambda: bytearray(1 << 62)], ids=["torch", "python"])
def test_what_the_system_refuses_is_one_line(fault: Any) -> None:
    with pytest.raises(OutOfMemory, match="out of memory") as caught, in_one_line():
        fault()
    assert "\n" not in str(caught.value) and "--resume" in str(caught.value)
    assert isinstance(caught.value, amity.InputError)


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="shapes"), in_one_line():
        raise RuntimeError("shapes do not match")


@dataclass(frozen=True)
class Greedy(FedAMP):
    """Wants more memory than there is at silo cedar (9 examples) in round 3, while a file exists."""

    file: str = ""

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        if turn.round == 3 and len(turn.data.train.y) == 9 and Path(self.file).exists():
            too_much()
        return super().local(task, client, down, turn)


@pytest.mark.parametrize("engine", ["loop", "auto"])
def test_a_run_that_runs_out_of_memory_is_resumed(engine: Any, tmp_path: Path) -> None:
    """No checkpoint was due before: the last round is saved when it happens."""
    at = amity.own_silos({s.name: (*s.train, *s.test) for s in silos()})
    run = amity.Run(rounds=4, epochs=1, seed=1, workers=2, checkpoint_every=0, engine=engine)
    method = Greedy(file=str(tmp_path / "short"))
    whole = amity.run(run, at, method=method)
    Path(method.file).touch()
    with pytest.raises(OutOfMemory, match="silo cedar, round 3, Greedy"):
        amity.run(run, at, method=method, out=tmp_path / "run")
    assert len((tmp_path / "run" / "rounds.jsonl").read_text().splitlines()) == 2
    Path(method.file).unlink()
    told: list[int] = []
    resumed = amity.run(
        run,
        at,
        method=method,
        out=tmp_path / "run",
        resume=True,
        listen=recorded(lambda line: told.append(line["round"])),
    )
    assert told == [3, 4]
    assert all(same(resumed.held(name).model(name), whole.held(name).model(name)) for name in whole.record.silos)
