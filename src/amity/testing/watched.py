"""Methods under observation, and silos that misbehave."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from amity.contract import (
    DeclaresUploads,
    Download,
    Federation,
    Kinds,
    Method,
    Model,
    Solver,
    Split,
    State,
    Turn,
    declared,
)
from amity.errors import AmityError
from amity.federation.admission import expected
from amity.learn.streams import stream
from amity.learn.task import Task
from amity.testing.federation import same, solver_of

Forms = dict[str, tuple[torch.Size, torch.dtype]]

BROKEN = "broken law: "


class BrokenLaw(AmityError, AssertionError):
    """A law that was broken inside a silo. It holds no data, and so its text may cross to the server's side."""


def hold(kept: bool, words: str) -> None:
    """Raise `BrokenLaw` where something does not hold."""
    if not kept:
        raise BrokenLaw(BROKEN + words)


class Watched:
    """A method under observation: every call is made twice, arguments and results are compared to the last bit."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.paired, self.evaluates = method.paired, method.evaluates
        self.solver, self.optimizers = method.solver, method.optimizers
        self.called: set[str] = set()

    def _twice(self, name: str, on: Task | None, *arguments: Any) -> Any:
        self.called.add(name)
        before = [frozen(argument) for argument in arguments]
        fixed = [] if on is None else [on]
        first = getattr(self.method, name)(*fixed, *arguments)
        kept = frozen(first)
        if on is not None:  # what was returned must not live in the workspace that others use
            zeros = {key: torch.zeros_like(value) for key, value in on.init(stream(0, "other")).items()}
            on.gradient(zeros, Split(torch.ones(3, 3, dtype=torch.float64), torch.tensor([0, 1, 2])), stream(0, "x"))
        second = getattr(self.method, name)(*fixed, *arguments)
        hold(unchanged(kept, frozen(first)), f"{name}: its result changed after it was returned")
        hold(unchanged(kept, frozen(second)), f"{name}: equal calls, different results")
        for position, (old, argument) in enumerate(zip(before, arguments, strict=True)):
            hold(unchanged(old, frozen(argument)), f"{name}: argument {position} changed")
        return first

    def init_server(self, task: Task, fed: Federation) -> State:
        found: State = self._twice("init_server", task, fed)
        return found

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        found: State = self._twice("init_client", task, fed, client)
        return found

    def download(self, server: State, who: Tensor, round: int, rng: Any) -> Download:
        found: Download = self._twice("download", None, server, who, round, rng)
        return found

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        found: tuple[State, State] = self._twice("local", task, client, down, turn)
        return found

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds | None:
        return declared(self.method, task, fed, down)

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        found: State = self._twice("aggregate", None, server, who, uploads, round)
        return found

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        found: Model = self._twice("personal", task, client, down, turn)
        return found


def frozen(value: Any) -> Any:
    """A deep copy of tensors in dicts and tuples; anything else stands for itself."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: frozen(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [frozen(inner) for inner in value]
    return value


def unchanged(old: Any, new: Any) -> bool:
    """Whether two frozen values agree to the last bit."""
    if isinstance(old, Tensor):
        return isinstance(new, Tensor) and same({"": old}, {"": new})
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(unchanged(old[key], new[key]) for key in old)
    if isinstance(old, list):
        return len(old) == len(new) and all(unchanged(a, b) for a, b in zip(old, new, strict=True))
    return bool(old == new)


class Declaring(Watched):
    """Compares every upload with what was declared when the download was made."""

    def __init__(self, method: Method) -> None:
        super().__init__(method)
        self.kinds: Kinds = {}
        self.sizes: list[int] = []  # bytes of an upload, round by round

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds | None:
        hold(isinstance(self.method, DeclaresUploads), "the method does not say what its uploads are: upload_kinds")
        kinds: Kinds | None = self._twice("upload_kinds", task, fed, down)
        if kinds is None:
            raise BrokenLaw(BROKEN + "upload_kinds says nothing")
        undeclared = Watched(self.method)
        undeclared.upload_kinds = lambda task, fed, down: None  # type: ignore[method-assign]
        who = torch.arange(len(fed.sizes))[: 4 if down.each else 5]
        found = expected(undeclared, task, fed, solver_of(self.method), down, who, 1)
        hold(form_of(found) == form_of(kinds), f"declared {form_of(kinds)}, a rehearsal finds {form_of(found)}")
        self.kinds = kinds
        self.sizes.append(sum(torch.Size(kind.shape).numel() * kind.dtype.itemsize for kind in kinds.values()))
        return kinds

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        state, upload = self.method.local(task, client, down, turn)
        hold(form_of(self.kinds) == form(upload), f"declared {form_of(self.kinds)}, uploaded {form(upload)}")
        for key, kind in self.kinds.items():
            low, high = kind.least, kind.most
            hold(low is None or bool((upload[key] >= low).all()), f"{key} is below {low}")
            hold(high is None or bool((upload[key] <= high).all()), f"{key} is above {high}")
            hold(upload[key].is_floating_point() or low is not None, f"{key} holds integers without a range")
        return state, upload


def form(state: State) -> Forms:
    """Keys, shapes and types of a state."""
    return {key: (value.shape, value.dtype) for key, value in state.items()}


def form_of(kinds: Kinds) -> Forms:
    """Keys, shapes and types of declared uploads."""
    return {key: (torch.Size(kind.shape), kind.dtype) for key, kind in kinds.items()}


@dataclass(frozen=True)
class Hostile:
    """A method as it is, but one silo's uploads are exchanged for what `attack` makes of them, given the round.

    Silos carry their place in their states, so that it is known under vmap too.
    """

    method: Method
    attack: Callable[[State, Tensor, int], Any]  # (upload, whether this silo is the hostile one, round)
    who: int = 1

    @property
    def paired(self) -> tuple[str, ...]:
        return self.method.paired

    @property
    def evaluates(self) -> Literal["held", "server"]:
        return self.method.evaluates

    @property
    def solver(self) -> Solver:
        return self.method.solver

    @property
    def optimizers(self) -> tuple[str, ...]:
        return self.method.optimizers

    def init_server(self, task: Task, fed: Federation) -> State:
        return self.method.init_server(task, fed)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {**self.method.init_client(task, fed, client), "me": torch.tensor(client)}

    def download(self, server: State, who: Tensor, round: int, rng: Any) -> Download:
        return self.method.download(server, who, round, rng)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        me = client["me"]
        state, upload = self.method.local(task, {k: v for k, v in client.items() if k != "me"}, down, turn)
        return {**state, "me": me}, self.attack(upload, me == self.who, turn.round)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Any:
        return self.method.upload_kinds(task, fed, down)  # type: ignore[attr-defined]

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return self.method.aggregate(server, who, uploads, round)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return self.method.personal(task, {k: v for k, v in client.items() if k != "me"}, down, turn)


def _without(key: str, upload: State) -> State:
    return {k: v for k, v in upload.items() if k != key}


def attacks(kinds: Kinds) -> dict[str, Callable[[State], Any]]:
    """What a broken or hostile silo may send in place of its upload; the names end with what is said about it."""

    def changed(key: str, change: Callable[[Tensor], Any]) -> Callable[[State], Any]:
        return lambda upload: {**upload, key: change(upload[key])}

    def longer(value: Tensor) -> Tensor:
        return torch.cat([value.reshape(-1), value.new_zeros(1)])

    out: dict[str, Callable[[State], Any]] = {
        "a list: not a dict": lambda upload: list(upload.items()),
        "one thing more: is not part of it": lambda upload: {**upload, "more": torch.zeros(2)},
        "a key that is no text: is not part of it": lambda upload: {**upload, 7: torch.zeros(2)},
    }
    for key, kind in kinds.items():
        out[f"without {key}: {key} is missing"] = functools.partial(_without, key)
        out[f"{key}, longer: {key} has the shape"] = changed(key, longer)
        if kind.dtype == torch.int64:
            out[f"{key}, of 4 bytes: {key} is int32, not int64"] = changed(key, lambda value: value.int())
        if kind.least is not None and torch.Size(kind.shape).numel():
            for what, number in (("below", kind.least - 1), ("beyond", 5 if kind.most == 4 else (1 << 63) - 1)):
                if what == "below" or kind.most is not None:
                    change = lambda value, number=number: torch.full_like(value, number)  # noqa: E731
                    out[f"{key} {what}: {key} is not between"] = changed(key, change)
    floats = [key for key, kind in kinds.items() if kind.dtype.is_floating_point]
    for key in sorted(floats, key=lambda key: kinds[key].shape)[-1:]:
        out |= {
            f"one number: {key} has the shape [1]": changed(key, lambda value: value[:1]),
            f"a matrix: {key} has the shape [1, ": changed(key, lambda value: value[None]),
            f"a scalar: {key} has the shape []": changed(key, lambda value: value[0]),
            f"of 4 bytes: {key} is float32, not float64": changed(key, lambda value: value.float()),
            f"integers: {key} is int64, not float64": changed(key, lambda value: value.long()),
            f"complex: {key} is complex": changed(key, lambda value: value + 0j),
            f"sparse: {key} is no dense tensor": changed(key, lambda value: value.to_sparse()),
            f"without memory: {key} is no dense tensor": changed(key, lambda value: value.to("meta")),
            f"with a graph: {key} still carries": changed(key, lambda value: value.clone().requires_grad_()),
            f"no tensor: {key} is no tensor": changed(key, lambda value: value.tolist()),
            f"infinite: {key} not finite": changed(key, lambda value: torch.full_like(value, -torch.inf)),
            f"one NaN: {key} not finite": changed(
                key, lambda value: value.index_fill(-1, torch.tensor([0]), torch.nan)
            ),
        }
    return out
