"""APPLE's step: what twelve core models cost beside the gradient of one."""

from __future__ import annotations

import torch
from torch import Tensor

from amity.contract import Data, Turn
from amity.federation.plan import federation_of
from amity.learn.streams import seed_of, stream
from amity.learn.task import Task
from amity.learn.train import train
from amity.methods.apple import Apple
from amity.models.cnn_apple import CNNApple
from benchmarks.measure import Goal, Work, lazily
from benchmarks.rounds import CLASSES, random_silos

PLAIN, APPLE = "plain sgd steps", "apple steps"
SHAPE = (1, 28, 28)


def cases(quick: bool = False) -> dict[str, Work]:
    """APPLE's steps over 12 cores of cnn-apple, batch 256, against plain steps of the same network on the same batches,
    one thread each."""
    cores, batch, steps = (3, 8, 2) if quick else (12, 256, 8)
    return {
        PLAIN: lazily(lambda: plain(cores, batch, steps)),
        APPLE: lazily(lambda: apple(cores, batch, steps)),
    }


def plain(cores: int, batch: int, steps: int) -> Work:
    task, turn, first = _turn(cores, batch, steps)
    start = {"params": first[0].clone(), "buffers": torch.empty(0), "counts": torch.empty(0, dtype=torch.int64)}
    return lambda: train(task, start, turn)


def apple(cores: int, batch: int, steps: int) -> Work:
    task, turn, first = _turn(cores, batch, steps)
    method = Apple(core_init="independent")
    fed = federation_of(random_silos(cores, 1, 1), rounds=100, seed=0)
    client = {**method.init_client(task, fed, 0), "cores": first}
    down = {"cores": first[client["wanted"]]}
    return lambda: method.local(task, client, down, turn)


def _turn(cores: int, batch: int, steps: int) -> tuple[Task, Turn, Tensor]:
    torch.set_num_threads(1)
    task = Task(lambda: CNNApple(SHAPE, CLASSES), SHAPE, CLASSES)
    silo = random_silos(1, batch * steps, 1)[0]
    solver = Apple.solver._replace(batch=batch)
    data = Data(task.prepare(silo.train), None)
    first = torch.stack([task.init(stream(0, "init", core))["params"] for core in range(cores)])
    return task, Turn(2, 1, solver, data, lambda role, epoch: seed_of(0, role, 0, 2, epoch)), first


GOALS = [Goal("an APPLE step in plain steps", lambda r: r[APPLE].seconds / r[PLAIN].seconds, at_most=1.6)]
