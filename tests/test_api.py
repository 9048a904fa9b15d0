"""Running in Python: own models and methods, what is heard meanwhile, what is kept on disk, stopping and resuming."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from four_silos import (
    NAMES,
    OWN,
    arrays,
    equal,
    found,
    known,
    linear,
    network,
    own,
    quick,
    weights_of,
)
from listening import recorded
from small import quickly
from torch import Generator, Tensor, nn

import amity
from amity.contract import model_of
from amity.federation.events import Event
from amity.learn.train import train
from amity.methods import METHODS


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("method", quickly(name for name in METHODS if name != "pooled"))  # there nobody can be absent
def test_every_method_stands_absent_and_uneven_clients(method: str, phase: Literal["before", "after"]) -> None:
    silos = amity.own_silos({f"s{i}": arrays(i, size=7 + 5 * i, tests=6) for i in range(8)})
    run = quick(
        method, participation=0.3, drop=0.3, drop_phase=phase, local_epochs_range="1:9", rounds=3, ending="none"
    )
    result = amity.run(run, silos, model=network)
    assert len(result.lines) == 3
    for line in result.lines:  # 2 of 8 are sampled, 1 of these drops
        assert len(line["took_part"]) == len(line["dropped"]) == 1
        assert all(1 <= epochs <= 9 for epochs in line["epochs"].values())
        assert all(0 <= accuracy <= 100 for accuracy in known(line["accuracy"]))
    assert all(torch.isfinite(value).all() for value in weights_of(result).values())


def test_learning_helps() -> None:
    """Labels follow a linear rule: a linear model must find it."""
    result = amity.run(quick("separate", rounds=20), own(), model=linear)
    first, *_, last = known(line["mean"] for line in result.lines)
    assert last > first
    assert result.bmta > 75


# Own models.


def test_a_module_gives_the_first_weights() -> None:
    module = linear()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    still = quick("separate", optimizer="sgd", lr=1e-30)  # steps that a float32 does not feel
    result = amity.run(still, own(), model=module)
    for name in NAMES:
        assert equal(dict(result.model(name).state_dict()), before)
    amity.run(quick("separate"), own(), model=module)
    assert equal(dict(module.state_dict()), before)


def test_a_factory_gives_the_architecture_and_the_seed_its_weights() -> None:
    first, again, other = (weights_of(amity.run(quick(seed=seed, epochs=1), own(), model=linear)) for seed in (0, 0, 1))
    assert equal(first, again)
    assert not equal(first, other)


def test_a_step_with_momentum_is_the_optimizers_own() -> None:
    """One silo, the whole of its data in a batch: three epochs of the result are three steps of torch's SGD."""
    x, y, *_ = OWN["north"]
    first = linear()
    run = amity.Run("separate", rounds=1, epochs=3, batch=40, lr=0.5, optimizer="sgd", momentum=0.9)
    trained = amity.run(run, amity.own_silos({"north": OWN["north"]}), model=first).model("north")
    optimizer = torch.optim.SGD(first.parameters(), lr=0.5, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(first(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        optimizer.step()
    for ours, theirs in zip(trained.parameters(), first.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_single_silo_is_enough() -> None:
    result = amity.run(quick("heurfedamp"), amity.own_silos({"only": OWN["north"]}), model=linear)
    assert list(result.accuracy) == ["only"]
    assert np.array_equal(result.weights[3], [[1.0]])


def test_auto_picks_a_model_by_the_data() -> None:
    run = amity.Run("separate", data="digits", setting="iid", clients=2, rounds=1, epochs=1)
    assert amity.run(run).summary["model"] == "mlp"


# Own methods.


@dataclass(frozen=True)
class Alone:
    """What `separate` does, written by a user."""

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[amity.Solver] = amity.Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam",)

    def init_server(self, task: amity.Task, fed: amity.Federation) -> amity.State:
        return {}

    def init_client(self, task: amity.Task, fed: amity.Federation, client: int) -> amity.State:
        return task.initial(fed)

    def download(
        self, server: amity.State, who: Tensor, round: int, rng: Callable[[str, int], Generator]
    ) -> amity.Download:
        return amity.Download({}, {})

    def local(
        self, task: amity.Task, client: amity.State, down: amity.State, turn: amity.Turn
    ) -> tuple[amity.State, amity.State]:
        return train(task, model_of(client), turn), {}

    def aggregate(self, server: amity.State, who: Tensor, uploads: amity.State, round: int) -> amity.State:
        return server

    def personal(
        self, task: amity.Task, client: amity.State, down: amity.State | None, turn: amity.Turn
    ) -> amity.Model:
        return model_of(client)


def test_an_own_method_runs_like_a_built_in_one() -> None:
    mine = amity.run(quick(), own(), model=network, method=Alone())
    theirs = amity.run(quick("separate"), own(), model=network)
    assert mine.accuracy == theirs.accuracy
    assert equal(weights_of(mine), weights_of(theirs))


def test_an_own_method_is_recorded_under_its_own_name(tmp_path: Path) -> None:
    result = amity.run(quick(rounds=1), own(), model=linear, method=Alone(), out=tmp_path / "run")
    assert result.summary["method"].lower() == "alone"
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["method"].lower() == "alone"


def test_an_own_method_chooses_its_optimizers() -> None:
    with pytest.raises(amity.InputError, match="(?i)alone.*adam.*sgd"):
        amity.run(quick(optimizer="sgd"), own(), model=linear, method=Alone())


# What is kept.


def test_without_out_nothing_is_left_on_disk(nowhere: Path) -> None:
    result = amity.run(quick(), own(), model=linear)
    assert result.path is None
    assert len(result.lines) == 3 and list(result.weights) == [1, 2, 3]

    def stop(line: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        amity.run(quick(), own(), model=linear, listen=recorded(stop))
    assert sorted(p.name for p in nowhere.rglob("*")) == ["temporary"]


def test_out_changes_nothing_but_the_disk(tmp_path: Path) -> None:
    kept = amity.run(quick("apple"), own(), model=network, out=tmp_path / "run")
    passing = amity.run(quick("apple"), own(), model=network)
    assert found(kept) == found(passing)
    assert equal(weights_of(kept), weights_of(passing))


def test_a_directory_that_holds_a_run_is_refused_or_replaced(tmp_path: Path) -> None:
    amity.run(quick("separate"), own(), model=linear, out=tmp_path / "run")
    with pytest.raises(amity.InputError, match="already holds a run"):
        amity.run(quick("fedavg"), own(), model=linear, out=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["method"] == "separate"
    amity.run(quick("fedavg"), own(), model=linear, out=tmp_path / "run", force=True)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["method"] == "fedavg"


def test_an_interruption_before_anything_has_begun_keeps_what_was_to_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    amity.run(quick("fedavg"), own(), model=linear, out=out)
    before = sorted((path, path.stat().st_mtime_ns) for path in out.rglob("*"))

    def stopped(*what: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("amity.running.carrier_of", stopped)
    with pytest.raises(KeyboardInterrupt):
        amity.run(quick("fedavg"), own(), model=linear, out=out, force=True)
    assert sorted((path, path.stat().st_mtime_ns) for path in out.rglob("*")) == before


def test_a_run_needs_no_compiler() -> None:
    """torch.optim.Adam loads torch's compiler when it is constructed, which takes nearly as long as torch itself."""
    program = (
        "import sys, amity\n"
        "for engine in ('loop', 'stacked'):\n"
        "    run = amity.Run('fedavg', data='synthetic', clients=3, model='mlr', rounds=1, epochs=1, engine=engine)\n"
        "    amity.run(run)\n"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["False"], done.stderr


# While it runs.


def test_listeners_hear_of_rounds_and_of_silos() -> None:
    heard: list[Event] = []
    result = amity.run(quick(rounds=2, engine="loop", workers=1), own(), model=linear, listen=heard.append)
    told = [(event.round, event.words) for event in heard if event.what == "recorded"]
    assert told == [(line["round"], f"mean {line['mean']:.2f} worst {line['worst']:.2f}") for line in result.lines]
    steps = [(event.what, event.done, event.total) for event in heard if event.what in ("trained", "measured")]
    assert steps == 2 * [(what, done, 4) for what in ("trained", "measured") for done in range(1, 5)]
    assert [event.silo for event in heard if event.what == "trained"] == 2 * list(NAMES)
