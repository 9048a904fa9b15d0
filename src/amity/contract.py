"""The contract between methods and engines. Read this first.

    server state --download--> silo: local training --upload--> aggregate --> server state
                                  |  client state stays here, always
                                  '--> personal model (what is evaluated, saved, used)

No model crosses the wire but in `download` and `upload`. A model is a value: flat vectors in a dict. A method is
six pure functions of explicit state, a frozen dataclass whose fields are its hyper-parameters. Saving the state is
a checkpoint, loading it is a resume, comparing it is a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from amity.abilities import Averages as Averages
from amity.abilities import ChoosesLast as ChoosesLast
from amity.abilities import Choosing as Choosing  # what only some methods have
from amity.abilities import Clouded as Clouded
from amity.abilities import Consults as Consults
from amity.abilities import CountsGradients as CountsGradients
from amity.abilities import DeclaresUploads as DeclaresUploads
from amity.abilities import Grows as Grows
from amity.abilities import Measures as Measures
from amity.abilities import Particular as Particular
from amity.abilities import ProposesEnding as ProposesEnding
from amity.abilities import Question as Question
from amity.abilities import Rehearses as Rehearses
from amity.abilities import Relational as Relational
from amity.abilities import Starts as Starts
from amity.abilities import UsesExamples as UsesExamples
from amity.abilities import Validating as Validating
from amity.errors import InputError as InputError  # part of the contract, defined where no torch is needed
from amity.silo_data import Data as Data  # so are these, which stand apart since they know nothing of methods
from amity.silo_data import Scale as Scale
from amity.silo_data import Score as Score
from amity.silo_data import Silo as Silo
from amity.silo_data import Split as Split

if TYPE_CHECKING:
    from amity.learn.task import Task

State = dict[str, Tensor]
"""Named tensors; the keys are nouns: "params", "relations", "cores".

>>> state: amity.State = {"params": torch.zeros(3), "relations": torch.ones(2)}
"""

Model = dict[str, Tensor]
"""{"params": [d], "buffers": [b], "counts": [c]}: trainable scalars, float buffers, integer counters.

Counters are a key of their own because their rule differs: buffers are mixed like parameters, counters take the
maximum. Distances, cosines and proximal terms see "params" only. A leading axis makes it a federation: [m, d].

>>> model: amity.Model = amity.Task(lambda: torch.nn.Linear(2, 3), (2,), classes=3).init(torch.Generator())
>>> {key: len(value) for key, value in model.items()}
{'params': 9, 'buffers': 0, 'counts': 0}
"""

MODEL = ("params", "buffers", "counts")


class Solver(NamedTuple):
    """How a client descends: the optimiser, its rate in round 1, and the batch size.

    >>> amity.Solver("sgd", 0.1, decay=0.5).rate_at(3)
    0.025
    """

    optimizer: Literal["adam", "sgd"]
    rate: float
    momentum: float = 0.0  # sgd only
    decay: float = 1.0  # the rate is multiplied by this after every round
    batch: int = 100

    def rate_at(self, round: int) -> float:
        """The rate in this round."""
        return self.rate * self.decay ** (round - 1)


class Federation(NamedTuple):
    """Public facts, known before round 1.

    >>> fed = amity.Federation(torch.tensor([40, 60]), torch.tensor([7, 9]), groups=None, rounds=20, seed=0)
    >>> fed.clients
    2
    """

    sizes: Tensor  # [m] int64: training examples, after any validation split
    keys: Tensor  # [m] int64: each client's own stream key (a name's hash, not its index)
    groups: Tensor | None  # [m] int64: oracle groups; simulation only
    rounds: int
    seed: int
    least_mix: int = 1  # no silo makes up more than one part in so many of what others are sent

    @property
    def clients(self) -> int:
        """The number of silos."""
        return len(self.sizes)


class Turn(NamedTuple):
    """One client's turn in one round.

    >>> part = amity.Split(torch.zeros(3, 2), torch.tensor([0, 1, 1]))
    >>> data = amity.contract.Data(train=part, val=None)
    >>> turn = amity.Turn(1, 5, amity.Solver("adam", 0.001), data, lambda role, epoch: 100 + epoch)
    >>> turn.rng("order", epoch=2).initial_seed()
    102
    """

    round: int  # 1-based
    epochs: int  # E, or this client's own E_i
    solver: Solver
    data: Data
    seed: Callable[[str, int], int]  # (role, epoch) -> the seed of a keyed stream

    def rng(self, role: str, epoch: int) -> Generator:
        """A keyed stream."""
        return Generator().manual_seed(self.seed(role, epoch))


class Pick(NamedTuple):
    """A message that forwards stored rows: receiver r gets rows[chosen[r]]. Gathered one receiver at a time.

    >>> both = amity.Pick(torch.tensor([[1.0], [2.0], [3.0]]), chosen=torch.tensor([[0, 2]]))
    >>> amity.Download({}, {"models": both}).to(0)["models"].tolist()
    [[1.0], [3.0]]
    """

    rows: Tensor  # [m, ...]
    chosen: Tensor  # [who, M] int64


class Download(NamedTuple):
    """What the server sends in one round.

    >>> down = amity.Download(shared={"step": torch.tensor(4)}, each={"params": torch.tensor([[1.0], [2.0]])})
    >>> down.to(1)
    {'step': tensor(4), 'params': tensor([2.])}
    """

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


class Kind(NamedTuple):
    """What one tensor of an upload must be."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    least: int | None = None  # where it has a range, of indices or counters
    most: int | None = None


Kinds = Mapping[str, Kind]
"""What an upload must be: exactly these keys. Numbers must be finite in any case."""


class Method(Protocol):
    """Six pure functions of explicit state; implementations are frozen dataclasses.

    `who` in `download` are the clients asked: sampled, less those dropped before training. In `aggregate` they are
    those whose upload was accepted. Both are ascending positions. Arguments are never changed in place; what is
    returned may share storage with them.

    >>> from amity.methods import build
    >>> build("fedamp").evaluates, build("fedamp").solver.optimizer
    ('held', 'adam')
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


def model_of(state: State) -> Model:
    """The model inside a state."""
    return {key: state[key] for key in MODEL}


def rows(state: State, index: int | Tensor | Sequence[int]) -> State:
    """The same rows of every tensor."""
    return {key: value[index] for key, value in state.items()}


def kinds_like(state: State) -> dict[str, Kind]:
    """Tensors like those of a state: uploads with these keys, shapes and types.

    Counters only grow, and one that is not near the largest integer cannot make those of others overflow.
    """
    kinds = {key: Kind(tuple(value.shape), value.dtype) for key, value in state.items()}
    if "counts" in kinds:
        least = int(state["counts"].min()) if state["counts"].numel() else 0
        kinds["counts"] = kinds["counts"]._replace(least=min(0, least), most=1 << 62)
    return kinds


def declared(method: Method, task: Task, fed: Federation, down: Download) -> Kinds | None:
    """What the method says about uploads in answer to this download, if it says it."""
    return method.upload_kinds(task, fed, down) if isinstance(method, DeclaresUploads) else None


def averaged_keys(method: Method) -> tuple[str, ...]:
    """The keys of uploads that the method's server uses only in their mean."""
    return method.averaged if isinstance(method, Averages) else ()


def measured_keys(method: Method) -> tuple[str, ...]:
    """The keys of uploads that are scores of models on examples that a silo holds out."""
    return method.measured if isinstance(method, Measures) else ()


def gradients_of(method: Method, epochs: int, batches: int) -> int:
    """How many gradients one turn takes; InputError for a method that differential privacy cannot account for."""
    if isinstance(method, UsesExamples):
        why = method.other_use
    elif isinstance(method, CountsGradients):
        return method.gradients(epochs, batches)
    else:
        why = "does not say that it takes gradients alone, and how many (`gradients`)"
    name = type(method).__name__
    raise InputError(f"differential privacy cannot account for {name}, which {why}: choose another method")


def nbytes(state: State) -> int:
    """Size on the wire."""
    return sum(value.numel() * value.element_size() for value in state.values())
