"""The memory that a run will take, known before it begins from the shapes of states and messages.

A method's states and messages are made for an outline of its model, a hundred numbers or two, with as many
silos as there are: what grows with the outline is as large as the model is larger. Then

    server    its state before and after a round. A matrix that uploads replace row by row is the same one that was
              downloaded and is uploaded; anything else that is sent or collected comes on top.
    clients   their states before and after a round, but for what is a row of the server's matrix.
    workers   a model, its gradient, the optimiser's state, what was received, and the layers' outputs for a batch.
    data      copies in the order in which they are read.

Where validation data choose the round that is delivered, that round's states are kept too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from amity.contract import Clouded, Download, Federation, Kinds, Pick, Silo, State, declared, kinds_like
from amity.engines.local.dense import Dense, dense_of
from amity.engines.local.outline import Outline, shares
from amity.engines.local.stacked import LARGEST
from amity.errors import OutOfMemory
from amity.federation.clouds import MOST_CLOUDS
from amity.federation.participation import draw
from amity.federation.plan import Plan
from amity.free_memory import available
from amity.learn.streams import stream
from amity.learn.task import Task
from amity.learn.vectors import length

NEAR = 0.8
"""The share of the available memory from which on it is said that there is little left."""

_PROCESS = 300 << 20  # a worker of Ray: Python with torch
_KEPT = 64 << 20  # freed memory that a thread keeps for its next step (allocator.py)
_LARGE = 32 << 20  # bytes of a block that goes back to the system when it is freed (allocator.py)
_HOLES = 1.5  # what smaller blocks that stay take, with the holes between them; measured: 1.1 to 1.9


class Needs(NamedTuple):
    """Bytes that a run takes beyond what its process has when it begins."""

    server: int  # states and messages
    clients: int
    workers: int
    data: int
    matrices: int  # of the server's, what --matrix-dir would keep in files

    @property
    def total(self) -> int:
        return self.server + self.clients + self.workers + self.data


def check(
    plan: Plan,
    silos: Sequence[Silo],
    *,
    name: str,
    engine: Literal["auto", "loop", "stacked", "memory", "ray"],
    workers: int | None = None,
    in_files: bool = False,
    distant: bool = False,
) -> tuple[str, ...]:
    """Refuse a run that does not fit into memory; a note where it nearly does not.

    `name`: what the method is called. `in_files`: matrices of models lie in files. `distant`: silos are with workers
    elsewhere.
    """
    free = available()
    if free is None or plan.task.device.type != "cpu" or _at_most(plan) < free / 10:
        return ()
    needs = estimate(plan, silos, engine=engine, workers=workers, in_files=in_files, distant=distant)
    if needs is None or needs.total < NEAR * free:
        return ()
    sizes = f"{plan.fed.clients} silos and {plan.task.size:,} parameters"
    parts = {"server": needs.server, "silos' states": needs.clients, "workers": needs.workers, "data": needs.data}
    told = ", ".join(f"{part} {_gib(size)}" for part, size in parts.items() if size > 0.05 * needs.total)
    if needs.total <= free:
        return (f"memory: {name} with {sizes} will take about {_gib(needs.total)} of {_gib(free)} GiB ({told})",)
    raise OutOfMemory(
        f"{name} with {sizes} needs about {_gib(needs.total)} GiB of memory ({told}), {_gib(free)} GiB are available: "
        f"{_advice(needs, free, in_files)}"
    )


def estimate(
    plan: Plan,
    silos: Sequence[Silo],
    *,
    engine: Literal["auto", "loop", "stacked", "memory", "ray"],
    workers: int | None = None,
    in_files: bool = False,
    distant: bool = False,
) -> Needs | None:
    """What the run takes; None where the method cannot be outlined."""
    try:
        shapes = _Shapes(plan)
    except Exception:  # of a method that somebody has written: what is wrong with it shows when it runs
        return None
    stacked = _stacked(plan, engine)
    generations = 2 + any(silo.val is not None for silo in silos)
    server, matrices = shapes.server(generations)
    if engine == "ray":
        # Messages are in shared memory too. Workers have states before and after a round; checkpoints read them.
        clients = shapes.clients(generations - 1, 0, seen=False)
        server += shapes.messages
        if not distant:
            clients += shapes.clients(1, 1, seen=False)
    else:
        clients = shapes.clients(generations - 1, 1, seen=not stacked)  # clients of a stack have copies of their own
    count = 0 if distant else min(workers or os.cpu_count() or 1, plan.fed.clients)
    each = _KEPT + shapes.worker + (_PROCESS if engine == "ray" else shapes.upload)  # one that waits
    if in_files:
        server, matrices = server - matrices, 0
    elif engine != "ray":
        server = max(server, shapes.end() - clients)
    return Needs(server, clients, count * each, _copies(plan, silos, engine), matrices)


class _Shapes:
    """States and messages of a method, as large as they will be."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._clients = plan.fed.clients
        self._asked = len(draw(plan.rule, plan.fed, 1).asked)
        thin, thick = (_Outlined.of(plan, width, self._asked) for width in (1, 2))
        scale = _numbers(plan.task) / sum(shares(plan.task))

        def sizes(of: Callable[[_Outlined], Mapping[str, int]]) -> dict[str, int]:
            """Bytes by key: a straight line through what they are in the two outlines."""
            one, two = of(thin), of(thick)
            return {key: round(one[key] + (two[key] - one[key]) * (scale - 1)) for key in one}

        self._server = sizes(lambda one: _bytes(one.server))
        self._client = sizes(lambda one: _bytes(one.client))
        self._upload = sizes(lambda one: {k: prod(kind.shape) * kind.dtype.itemsize for k, kind in one.kinds.items()})
        self.upload = sum(self._upload.values())
        self._row = sizes(lambda one: _bytes({k: v[0] for k, v in one.down.each.items() if isinstance(v, Tensor)}))
        self._picked = sizes(lambda one: {k: _picked(v) for k, v in one.down.each.items() if isinstance(v, Pick)})
        self._shown = {k for k, v in thin.server.items() if v.dim() and v.stride(0) == 0 and len(v) > 1}
        same = {k: (self._clients, *kind.shape) for k, kind in thin.kinds.items()}
        shapes = {k: tuple(v.shape) for k, v in thin.server.items()}
        self._stored = {k for k, shape in same.items() if shapes.get(k) == shape}  # they become the server's rows
        self._held = {k for k in self._stored if thin.client.get(k, thin.server[k]).shape == thin.kinds[k].shape}
        self._roomy = {k for k, shape in same.items() if shape in shapes.values()}  # see storage.py

    def server(self, generations: int) -> tuple[int, int]:
        """The server's states, with what is sent and collected in a round; and how much of it are matrices."""
        asked, everybody = self._asked, self._clients
        states = dict(self._server)
        if asked == everybody:  # one row that is shown to all stays one, where no uploads take its place
            states |= {key: states[key] // everybody for key in self._shown - self._stored}
        sent = sum(asked * size for key, size in self._row.items() if key not in self._stored)
        collected = sum(
            (everybody if key in self._roomy else asked) * size
            for key, size in self._upload.items()
            if key not in self._stored
        )
        evaluated = everybody * sum(self._row.values()) if self._plan.method.evaluates == "server" else 0
        matrices = generations * sum(states[key] for key in self._stored) + collected + evaluated
        return generations * sum(states.values()) + sent + collected + evaluated + self._clouds, matrices

    def clients(self, before: int, after: int, *, seen: bool) -> int:
        """Clients' states: of all, so many times before a round, and of those asked after it; without what can be
        `seen` in the server's matrix."""
        one = sum(_held(size) for key, size in self._client.items() if not (seen and key in self._held))
        return one * (before * self._clients + after * self._asked)

    def end(self) -> int:
        """What is there after the last round: states, and every silo's personal model."""
        states = sum(self._server.values()) + self.clients(1, 0, seen=True)
        return states + self._clients * _numbers(self._plan.task) * self._plan.task.dtype.itemsize

    @property
    def messages(self) -> int:
        return self._asked * (sum(self._row.values()) + sum(self._upload.values()))

    @property
    def worker(self) -> int:
        """What a turn takes: a model and its gradient, twice as much again for what method code makes of them."""
        task, solver = self._plan.task, self._plan.solver
        moments = 2 if solver.optimizer == "adam" else int(solver.momentum > 0)
        received = 2 * sum(self._picked.values())  # as it comes, and beside what the client has
        batch = min(solver.batch, int(self._plan.fed.sizes.max()))
        outputs = 2 * batch * _outputs(task, self._plan.fed)  # and their gradients
        return (4 + moments) * _numbers(task) * task.dtype.itemsize + received + outputs

    @property
    def _clouds(self) -> int:
        size = self._asked * sum(self._row.values()) if isinstance(self._plan.method, Clouded) else 0
        return size if size <= MOST_CLOUDS else 0  # larger ones are not kept


class _Outlined(NamedTuple):
    """States and messages of a method for an outline of the model."""

    server: State
    client: State
    down: Download
    kinds: Kinds

    @staticmethod
    def of(plan: Plan, width: int, asked: int) -> _Outlined:
        method, fed, task = plan.method, plan.fed, Outline(plan.task, width)
        server = method.init_server(task, fed)
        down = method.download(server, torch.arange(asked), 2, lambda role, key: stream(fed.seed, role, key, 2))
        kinds = declared(method, task, fed, down)
        client = method.init_client(task, fed, 0)
        return _Outlined(server, client, down, kinds_like(task.initial(fed)) if kinds is None else kinds)


def _numbers(task: Task) -> int:
    """Of a model, buffers and counters included."""
    return sum(map(length, task.layout))


def _at_most(plan: Plan) -> int:
    """More than any method takes for its models: every silo knows every model, four times over."""
    several = 4 * (plan.fed.clients + 8)
    return plan.fed.clients * several * _numbers(plan.task) * plan.task.dtype.itemsize


def _bytes(state: State) -> dict[str, int]:
    return {key: value.numel() * value.element_size() for key, value in state.items()}


def _held(size: int) -> int:
    """What a block that stays takes of the memory."""
    return size if size >= _LARGE else round(_HOLES * size)


def _picked(pick: Pick) -> int:
    """Bytes that one receiver is forwarded."""
    return pick.chosen.shape[1] * pick.rows[0].numel() * pick.rows.element_size()


def _outputs(task: Task, fed: Federation) -> int:
    """Bytes of all layers' outputs for one example."""
    module, found = task.module(task.initial(fed)), [0]

    def add(layer: nn.Module, given: Any, out: Any) -> None:
        if isinstance(out, Tensor):
            found[0] += out.numel() * out.element_size() // max(1, len(out))

    for layer in module.modules():
        if not any(layer.children()):
            layer.register_forward_hook(add)
    with torch.no_grad():
        module(torch.zeros(1, *task.shape, dtype=task.dtype))
    return found[0]


def _copies(plan: Plan, silos: Sequence[Silo], engine: str) -> int:
    """Data that lie in memory once more: as batches are read, as rows of a stack, at the workers."""
    splits = [split for silo in silos for split in (silo.train, silo.test, silo.val) if split is not None]
    whole = sum(part.numel() * part.element_size() for split in splits for part in split)
    pictures = plan.task.shape if len(plan.task.shape) == 3 else (1,)
    copies = whole if pictures[0] > 1 else 0  # channels last
    if engine == "ray":
        return copies + 2 * whole
    return copies + (whole if _stacked(plan, engine) else 0)


def _stacked(plan: Plan, engine: str) -> bool:
    """Whether clients advance together, if their method allows it."""
    small = engine == "auto" and plan.task.size <= LARGEST and plan.fed.clients > 1
    return plan.privacy is None and (small or engine == "stacked") and isinstance(dense_of(plan.task), Dense)


def _advice(needs: Needs, free: int, in_files: bool) -> str:
    if not in_files and needs.total - needs.matrices < NEAR * free:
        return "--matrix-dir DIR keeps the matrices of models in files; or take fewer silos or a smaller model"
    return "take fewer silos or a smaller model"


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f}"
