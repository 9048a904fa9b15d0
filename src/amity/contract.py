"""The contract between methods and engines. Read this first.

    server state --download--> silo: local training --upload--> aggregate --> server state
                                  |  client state stays here, always
                                  '--> personal model (what is evaluated, saved, used)

No model crosses the wire but in `download` and `upload`. A model is a value: flat vectors in a dict. A method is
six pure functions of explicit state, a frozen dataclass whose fields are its hyper-parameters. Saving the state is
a checkpoint, loading it is a resume, comparing it is a test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from torch import Generator, Tensor

from amity.errors import InputError as InputError  # part of the contract, defined where no torch is needed

if TYPE_CHECKING:
    from amity.task import Task

State = dict[str, Tensor]
"""Named tensors; the keys are nouns: "params", "relations", "cores"."""

Model = dict[str, Tensor]
"""{"params": [d], "buffers": [b], "counts": [c]}: trainable scalars, float buffers, integer counters.

Counters are a key of their own because their rule differs: buffers are mixed like parameters, counters take the
maximum. Distances, cosines and proximal terms see "params" only. A leading axis makes it a federation: [m, d].
"""

MODEL = ("params", "buffers", "counts")


class Split(NamedTuple):
    """Examples and their labels."""

    x: Tensor  # [n, ...]
    y: Tensor  # [n] int64: the class; floating point: the quantity


class Scale(NamedTuple):
    """How a silo's labels were standardised, where they are quantities: (quantity - zero) / unit."""

    zero: float = 0.0
    unit: float = 1.0


class Silo(NamedTuple):
    """One silo's data, as it lies at the silo."""

    name: str
    train: Split
    test: Split
    val: Split | None = None
    group: int | None = None  # the distribution it was drawn from, where that is known (simulation)
    scale: Scale = Scale()


class Data(NamedTuple):
    """What a method may look at during a client's turn. Test data are not part of it."""

    train: Split
    val: Split | None


class Solver(NamedTuple):
    """How a client descends: the optimiser, its rate in round 1, and the batch size."""

    optimizer: Literal["adam", "sgd"]
    rate: float
    momentum: float = 0.0  # sgd only
    decay: float = 1.0  # the rate is multiplied by this after every round
    batch: int = 100

    def rate_at(self, round: int) -> float:
        return self.rate * self.decay ** (round - 1)


class Federation(NamedTuple):
    """Public facts, known before round 1."""

    sizes: Tensor  # [m] int64: training examples, after any validation split
    keys: Tensor  # [m] int64: each client's own stream key (a name's hash, not its index)
    groups: Tensor | None  # [m] int64: oracle groups; simulation only
    rounds: int
    seed: int

    @property
    def clients(self) -> int:
        return len(self.sizes)


class Turn(NamedTuple):
    """One client's turn in one round."""

    round: int  # 1-based
    epochs: int  # E, or this client's own E_i
    solver: Solver
    data: Data
    seed: Callable[[str, int], int]  # (role, epoch) -> the seed of a keyed stream

    def rng(self, role: str, epoch: int) -> Generator:
        """A keyed stream."""
        return Generator().manual_seed(self.seed(role, epoch))


class Pick(NamedTuple):
    """A message that forwards stored rows: receiver r gets rows[chosen[r]]. Gathered one receiver at a time."""

    rows: Tensor  # [m, ...]
    chosen: Tensor  # [who, M] int64


class Download(NamedTuple):
    """What the server sends in one round."""

    shared: State  # one copy for all receivers
    each: dict[str, Tensor | Pick]  # leading axis: receiver
    weights: Tensor | None = None  # [who, m] the mixing matrix: recorded at the server, never sent
    notes: tuple[str, ...] = ()  # what the record should say about this round

    def to(self, receiver: int) -> State:
        """What the receiver at this position of `who` gets to see."""
        own = {
            key: value.rows[value.chosen[receiver]] if isinstance(value, Pick) else value[receiver]
            for key, value in self.each.items()
        }
        return {**self.shared, **own}


class Method(Protocol):
    """Six pure functions of explicit state; implementations are frozen dataclasses.

    `who` in `download` are the clients asked: sampled, less those dropped before training. In `aggregate` they are
    those whose upload was accepted. Both are ascending positions. Arguments are never changed in place; what is
    returned may share storage with them. (Uploads may be given away by an engine, `matrices.Given`: then
    `matrices.replaced` uses them up, and nothing else may.)
    """

    @property
    def paired(self) -> tuple[str, ...]:
        """Client keys that commit only when the upload was accepted (control variates, requests)."""

    @property
    def evaluates(self) -> Literal["held", "server"]:
        """The model a client holds, or one derived from the server's current state."""

    @property
    def solver(self) -> Solver:
        """The protocol of the paper; `auto` values resolve to it."""

    @property
    def optimizers(self) -> tuple[str, ...]:
        """Optimisers whose steps the method's equations allow."""

    def init_server(self, task: Task, fed: Federation) -> State: ...

    def init_client(self, task: Task, fed: Federation, client: int) -> State: ...

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        """`rng(role, key)` is a stream for this round's draws; draws over clients go in order of their keys."""

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        """One turn: the client's new state and its upload."""

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        """Uploads have a leading axis: `who`."""

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        """The model to evaluate and use. A `held` method gets no download; a `server` method the current one.

        `turn` is the client's turn of the round to come, so that fine-tuning sees the batches of that round.
        """


@runtime_checkable
class Relational(Protocol):
    """A method whose clients learn their own weights of the others, and keep them."""

    def relations(self, client: State) -> Tensor:
        """[m] what this client thinks of the others; read for pictures in a simulation, never uploaded."""


@runtime_checkable
class Choosing(Protocol):
    """A method whose clients choose which model they hold."""

    def holds(self, client: State) -> str:
        """Which one this client holds now, in a word for the record."""


@runtime_checkable
class Validating(Protocol):
    """A method that looks at validation data."""

    @property
    def validation(self) -> float:
        """The share of its training data that a silo sets aside, unless the run says otherwise."""


@runtime_checkable
class Particular(Protocol):
    """A method whose equations do not allow every solver."""

    def accept(self, solver: Solver) -> None:
        """Raise InputError for a rate, momentum or the like that would turn it into another method."""


def model_of(state: State) -> Model:
    """The model inside a state."""
    return {key: state[key] for key in MODEL}


def rows(state: State, index: int | Tensor | Sequence[int]) -> State:
    """The same rows of every tensor."""
    return {key: value[index] for key, value in state.items()}


def nbytes(state: State) -> int:
    """Size on the wire."""
    return sum(value.numel() * value.element_size() for value in state.values())


class Score(NamedTuple):
    """One client's evaluated model on its own test set."""

    each: Tensor  # [n] per test example: right or wrong (bool), or the error of a quantity, prediction less truth
    loss: float  # summed over the examples
    metrics: Mapping[str, float] = {}  # by name, NaN where undefined: see metrics.py
    val: float | None = None  # the main score on its validation data, where it has some
    train_loss: float | None = None  # the mean loss on its training data, where that was asked for

    @property
    def right(self) -> Tensor:
        """Which test examples are right, where labels are classes."""
        return self.each

    @property
    def main(self) -> float:
        """What rounds and methods are compared by, in percent: the accuracy, or R2 of quantities. NaN if undefined."""
        if "r2" in self.metrics:
            return self.metrics["r2"]
        return 100 * int(self.right.sum()) / len(self.right) if len(self.right) else math.nan


class Progress(NamedTuple):
    """The state of a federation after a round: all that is needed to continue."""

    round: int
    server: State
    clients: Sequence[State]  # no list where states stay with distant workers: fetched when first read


class Round(NamedTuple):
    """What an engine reports after each round."""

    round: int
    scores: list[Score] | None  # one per client, absent ones too; None in a round without evaluation
    took_part: list[int]  # clients whose upload was accepted
    dropped: dict[int, str]  # client -> why ("dropped before training", "upload refused: params not finite", ...)
    epochs: dict[int, int]  # client -> local epochs, for those that trained
    bytes_up: int  # of accepted uploads
    bytes_down: int
    bytes_eval: int
    seconds: dict[str, float]  # phase -> wall time
    weights: Tensor | None  # [m, m] collaboration weights, NaN rows for clients that were not asked
    progress: Progress
    warnings: list[str]
    holds: list[str] | None = None  # which model each client chose to hold, where the method lets it choose
    executed: Literal["loop", "stacked"] = "loop"  # one client after the other, or all as rows of one matrix
