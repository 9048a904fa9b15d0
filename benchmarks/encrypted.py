"""Encrypted attention: a round on models that the server cannot read, against the same round in plain."""

from __future__ import annotations

import time
from functools import partial

import torch
from torch import Generator, Tensor, nn

from amity import models
from amity.config.run import Run
from amity.contract import Method, Silo, Split, State
from amity.encrypted_runs import ENCRYPTED, encrypted
from amity.federation.plan import Plan
from amity.federation.resume import begin
from amity.learn.ciphers import MIXED, SEALED, blocks_of
from amity.learn.task import Task
from amity.methods import build
from amity.methods.encrypted import Encrypted
from amity.testing.federation import opened, plan_of
from benchmarks.measure import Goal, Repeat, Work

NEEDS = ("tenseal", "cryptography")
SILOS, SHAPE = 8, (1, 28, 28)
ROUNDS = 3
"""The second one is timed: it has mixtures to send, and no keys to agree on."""


def cases(quick: bool = False) -> dict[str, Work]:
    """Processor seconds of a whole round of 8 silos with a CNN of 582,026 parameters. Each silo trains on ten pictures,
    which takes nearly nothing. `clouds`: the largest difference between the cloud models that the server has computed
    without reading and those that follow in plain from the same models. `models`: the largest difference between the
    silos' models after three rounds and those of the run in plain, of which training has its part."""
    name, silos = ("mlr", 2) if quick else ("cnn", SILOS)
    found: dict[str, Work] = {}
    for method in ENCRYPTED:
        found[f"{method}, plain"] = partial(plain, method, name, silos)
        found[f"{method}, encrypted"] = partial(blind, method, name, silos)
    return found


def baseline(case: str) -> str:
    return f"{case.partition(',')[0]}, plain"


def notes() -> list[str]:
    size = task("cnn").size
    up, down = (blocks_of(size) * block / 1e6 for block in (SEALED, MIXED))
    return [f"{size:,} parameters are {4 * size / 1e6:.1f} MB in plain, {up:.1f} MB encrypted, {down:.1f} MB mixed"]


def task(name: str) -> Task:
    return Task(cnn if name == "cnn" else models.make(name, SHAPE, 10), SHAPE, 10)


def cnn() -> nn.Module:
    """Two convolutions of 5 x 5 and two dense layers, as libraries of personalised learning have it."""
    first = nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2)
    second = nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10))


def silos_of(count: int) -> list[Silo]:
    rng = torch.Generator().manual_seed(0)

    def part(size: int) -> Split:
        return Split(torch.randn(size, *SHAPE, generator=rng), torch.randint(10, (size,), generator=rng))

    return [Silo(f"silo-{i}", part(10), part(10)) for i in range(count)]


def plain(method: str, name: str, count: int) -> dict[str, float]:
    return {"seconds": rounds_of(build(method), name, count)[0][1]}


def blind(method: str, name: str, count: int) -> dict[str, float]:
    base = build(method)
    _, _, _, after = rounds_of(base, name, count)
    made = encrypted(Run(method, encrypted=True), method, base, base)
    assert isinstance(made, Encrypted)
    seconds, plan, server, states = rounds_of(made, name, count)
    clouds = apart(clouds_in_plain(base, plan, states), clouds_of(made, server, states))
    return {"seconds": seconds[1], "clouds": clouds, "models": apart(params(after), params(states))}


def rounds_of(method: Method, name: str, count: int) -> tuple[list[float], Plan, State, list[State]]:
    """Processor seconds of each round, the plan, and the states of the server and of all silos in the end."""
    torch.set_num_threads(1)
    plan, hosted = plan_of(method, on=task(name), at=silos_of(count), rounds=ROUNDS, epochs=1)
    seconds = []
    with opened("loop")(plan, hosted) as carrier:
        server = begin(plan, carrier, None, evaluate_every=ROUNDS)
        began = time.process_time()
        for _ in server.rounds():
            seconds.append(time.process_time() - began)
            began = time.process_time()
        assert carrier.door is not None
        return seconds, plan, server.progress.server, list(carrier.door.states())


def clouds_in_plain(base: Method, plan: Plan, states: list[State]) -> Tensor:
    """The cloud models that a server would compute that reads these models."""
    everybody = torch.arange(len(states))
    server = base.init_server(plan.task, plan.fed)
    held = {key: torch.stack([state[key] for state in states]) for key in ("params", "buffers", "counts")}
    server |= {**held, "heard": torch.ones(len(states), dtype=torch.bool)}
    found = base.download(server, everybody, ROUNDS + 1, no_draws).each["params"]
    assert isinstance(found, Tensor)
    return found


def clouds_of(method: Encrypted, server: State, states: list[State]) -> Tensor:
    """The cloud models that the silos decrypt."""
    down = method.download(server, torch.arange(len(states)), ROUNDS + 1, no_draws)
    return torch.stack([method.opened_by(state, down.to(place))["params"] for place, state in enumerate(states)])


def no_draws(role: str, key: int) -> Generator:
    raise AssertionError("attention draws nothing")


def params(states: list[State]) -> Tensor:
    return torch.stack([state["params"] for state in states])


def apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


def _seconds(method: str, repeat: Repeat) -> float:
    return repeat[f"{method}, encrypted"].seconds


def _clouds(method: str, repeat: Repeat) -> float:
    return repeat[f"{method}, encrypted"].figures["clouds"]


GOALS = [
    *(Goal(f"processor seconds of {name}, encrypted", partial(_seconds, name), at_most=60) for name in ENCRYPTED),
    *(Goal(f"cloud models of {name}, apart", partial(_clouds, name), at_most=1e-4) for name in ENCRYPTED),
]
