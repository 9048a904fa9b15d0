"""What a method may have beside its six functions: protocols, each of which some methods meet. Part of the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from torch import Generator, Tensor

if TYPE_CHECKING:
    from amity.contract import Download, Federation, Kinds, Model, Solver, State, Turn
    from amity.learn.task import Task


@runtime_checkable
class Relational(Protocol):
    """A method whose clients learn their own weights of the others, and keep them."""

    def relations(self, client: State) -> Tensor:
        """[m] what this client thinks of the others; read for pictures in a simulation, never uploaded."""


@runtime_checkable
class Clouded(Protocol):
    """A method whose server sends each client a model of its own: a second model that the client ends up with."""

    def cloud_model(self, down: State) -> Model:
        """The model in what this client was sent: what it then trains from, or towards."""


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
class ProposesEnding(Protocol):
    """A method that is meant to be used with an ending (`methods/ended.py`), unless the run says otherwise."""

    @property
    def ending(self) -> Literal["auto"]:
        """How long silos go on alone after the last round."""


@runtime_checkable
class Starts(Protocol):
    """A method with several models from which a silo may go on alone after the last round."""

    def starts(self, task: Task, client: State, down: State | None, turn: Turn) -> list[Model]:
        """These models. The silo ends all of them, and keeps the one that does best on its held-out examples."""


@runtime_checkable
class ChoosesLast(Protocol):
    """A method whose server chooses the model that silos go on from alone: not always that of the last round."""

    def last_download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        """What silos are sent in the round after the last, as `download` is in those before."""


@runtime_checkable
class Rehearses(Protocol):
    """A method whose silos try an ending in the last round, to agree on where it begins (`methods/rehearsed.py`)."""

    @property
    def rehearsal(self) -> float:
        """How far endings may begin from the common model: a share of the way back to the first one; 0: not at all."""


@runtime_checkable
class DeclaresUploads(Protocol):
    """A method that says beforehand what its uploads are. Every method of Amity does."""

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds | None:
        """What a client's answer to this download must be; None where a method that is wrapped does not say.

        The server admits nothing else. It follows from what the server knows, never from an upload.
        """


class Question(NamedTuple):
    """What a method's server asks silos beside their turns."""

    who: list[int]  # positions; ascending
    down: Download  # what each of them is asked
    refused: Mapping[int, str] = {}  # silos whose uploads turned out to be of no use, and why; none of `who`


@runtime_checkable
class Consults(Protocol):
    """A method whose server asks silos more than their turns: before round 1, and about the uploads of each round."""

    def opening(self, server: State, step: int, who: list[int]) -> Question | None:
        """What silos are asked before a round can begin, step by step from 0; None where nothing is left to ask."""

    def opened(self, server: State, who: list[int], answers: State) -> State:
        """The server's new state after a step of the opening. Answers have a leading axis: `who`."""

    def question(self, server: State, who: list[int], uploads: State) -> Question | None:
        """What silos are asked about the uploads of a round before these become part of the server's state.

        The answers are part of what `aggregate` is given. Where a silo does not answer, its upload counts as lost, and
        the others are asked anew. None where there is nothing to ask.
        """

    def answer(self, task: Task, client: State, down: State) -> tuple[State, State]:
        """A silo's answer to a question of either kind: its new state, and what it says."""

    def answer_kinds(self, fed: Federation, down: Download) -> Kinds:
        """What an answer must be."""


@runtime_checkable
class Averages(Protocol):
    """A method whose server uses uploaded models only in their mean, so that another mean can take its place."""

    @property
    def averaged(self) -> tuple[str, ...]:
        """The keys of uploads of which this is true; none where a method that is wrapped has none."""


@runtime_checkable
class Measures(Protocol):
    """A method whose uploads also hold scores of models on examples that the silo holds out."""

    @property
    def measured(self) -> tuple[str, ...]:
        """The keys of these scores: where they rest on too few examples, a silo sends zeros in their place."""


@runtime_checkable
class Grows(Protocol):
    """A method whose states need more than the general rule when silos join."""

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        """The server's state, of which the general rule has made this."""

    def grow_client(self, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
        """The state of a silo that was there before, of which the general rule has made this."""


@runtime_checkable
class Particular(Protocol):
    """A method whose equations do not allow every solver."""

    def accept(self, solver: Solver) -> None:
        """Raise InputError for a rate, momentum or the like that would turn it into another method."""


@runtime_checkable
class CountsGradients(Protocol):
    """A method that sees a silo's examples through gradients alone, and knows how many it takes.

    That is what differential privacy can account for (`learn/private.py`).
    """

    def gradients(self, epochs: int, batches: int) -> int:
        """How many gradients one turn takes: of so many epochs, with so many batches in each."""


@runtime_checkable
class UsesExamples(Protocol):
    """A method that uses a silo's examples in other ways than by the gradients of its turns."""

    @property
    def other_use(self) -> str:
        """How, in words that go on from its name: "weighs models on validation data"."""
