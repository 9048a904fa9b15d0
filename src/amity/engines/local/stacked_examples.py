"""The examples of silos that advance together: rows of all of them, as method code written for one silo sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NoReturn

import torch
from torch import Tensor

from amity.contract import Data, Split
from amity.engines.local.dense import Dense, Weights

Kind = Literal["batches", "train", "val"]
"""What clients can differ in: batches per epoch, training examples, validation examples."""

_BLOCK_NUMBERS = 1 << 20  # numbers of examples alive in one block of an evaluation


class Uneven(Exception):
    """Method code asked for something in which the clients of this stack differ."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(f"clients differ in {kind}")
        self.kind = kind


class Examples:
    """The examples of all clients as vectors, one client after the other."""

    def __init__(self, splits: Mapping[int, Split | None]) -> None:
        present = {client: split for client, split in splits.items() if split is not None}
        self.sizes = {client: None if split is None else len(split.y) for client, split in splits.items()}
        self.x = torch.cat([s.x.flatten(1) for s in present.values()]) if present else torch.empty(0)
        self.y = torch.cat([s.y for s in present.values()]) if present else torch.empty(0)
        self.shape = next((s.x.shape[1:] for s in present.values()), torch.Size())
        self.starts, end = {}, 0
        for client, split in present.items():
            self.starts[client] = end
            end += len(split.y)


class Part:
    """One kind of data of the clients in a stack."""

    def __init__(self, source: Examples, clients: Sequence[int], kind: Kind) -> None:
        self.source = source
        self.kind = kind
        self.sizes = [source.sizes[client] or 0 for client in clients]
        starts = [source.starts[client] if source.sizes[client] else 0 for client in clients]
        self.starts = torch.tensor(starts, device=source.y.device)

    def index(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Where the clients' examples from one place to another lie, and which of them there are.  # [m, n]"""
        place = torch.arange(start, stop, device=self.starts.device)
        there = place < torch.tensor(self.sizes, device=self.starts.device)[:, None]
        return torch.where(there, self.starts[:, None] + place, 0), there

    def examples(self, start: int, stop: int) -> tuple[Tensor, Tensor, Tensor]:
        """The clients' examples from one place to another, and which of them there are.  # [m, n, ...], [m, n]"""
        index, there = self.index(start, stop)
        return self.source.x[index], self.source.y[index], there


def outputs_of(dense: Dense, models: list[Weights], part: Part) -> tuple[Tensor, Tensor]:
    """What each model says, up to the client's own number of examples, and its summed loss.  # [m, n, classes], [m]"""
    width = max(part.sizes)
    outputs = []
    loss = torch.zeros(len(part.sizes), dtype=torch.float64, device=part.source.y.device)
    step = max(1, _BLOCK_NUMBERS // (len(part.sizes) * part.source.shape.numel()))
    for start in range(0, max(1, width), step):
        stop = min(width, start + step)
        x, y, there = part.examples(start, stop)
        scores = dense.outputs(models, x)[-1]
        outputs.append(scores)
        loss += torch.where(there, dense.losses(scores, y), 0).sum(1, dtype=torch.float64)
    return torch.cat(outputs, 1), loss


class Seen:
    """Examples of the clients in a stack, as method code sees them: one client's Split, where all have as many."""

    def __init__(self, examples: Callable[[], tuple[Tensor, Tensor]], lift: Callable[[Tensor], Tensor]) -> None:
        self._examples = examples
        self._lift = lift

    @property
    def x(self) -> Tensor:
        return self._lift(self._examples()[0])

    @property
    def y(self) -> Tensor:
        return self._lift(self._examples()[1])

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.x, self.y))


class DataOfStack(Seen):
    """All examples of one kind."""

    def __init__(self, part: Part, lift: Callable[[Tensor], Tensor]) -> None:
        def examples() -> tuple[Tensor, Tensor]:
            if len(set(part.sizes)) > 1:
                raise Uneven(part.kind)
            x, y, _ = part.examples(0, part.sizes[0])
            return x.unflatten(2, part.source.shape), y

        super().__init__(examples, lift)
        self.part = part


class BatchOfStack(Seen):
    """One batch of each client in the first rows."""

    def __init__(
        self, x: Tensor, y: Tensor, share: Tensor, shape: torch.Size, lift: Callable[[Tensor], Tensor]
    ) -> None:
        def examples() -> tuple[Tensor, Tensor]:
            if not share.all():
                raise Uneven("train")
            return x.unflatten(2, shape), y

        super().__init__(examples, lift)
        self.stacked = x, y, share  # [k, n, features], [k, n], [k, n]: 1 / examples of the batch, 0 where padded


class Unseen:
    """Which examples are right, where clients have different numbers of them."""

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind

    def __getattr__(self, name: str) -> NoReturn:
        raise Uneven(self._kind)


class WithoutOwn(Data):
    """Data of clients whose own examples are not stacked: whoever asks for them is run silo by silo."""

    @property
    def mine(self) -> Split:
        raise NotImplementedError("clients have examples of their own beside those that they train on")
