"""Local training under differential privacy: the task of one silo, whose every gradient is clipped and noisy.

Abadi et al., Deep Learning with Differential Privacy, CCS 2016 (DP-SGD). For every gradient that a method asks for:

    S   each of the silo's n examples with probability q = B / n, by secret lots        (B at most n)
    g   = 1/B ( sum over i in S of  g_i min(1, C / |g_i|)  +  sigma C N(0, I) )         g_i: gradient of example i alone

Gradients are all that method code sees of the examples. The batches that it is given are empty, the data of its turn
cannot be read, and the loss of a batch is not told. So what it makes of noisy gradients, uploads included, needs no
further proof. A method that asks twice about one batch is given two samples, so every gradient is a step of its own.

Lots and noise come from the silo's secret (`secret_numbers.py`), never from the public streams, which the server knows.
Noise is added in float64, and the sum is rounded to the model's own type afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn, cast

import torch
from torch import Generator, Tensor
from torch.func import functional_call, grad, vmap

from amity.contract import Data, InputError, Model, Split, Turn
from amity.learn.secret_numbers import SecretNumbers
from amity.learn.task import Task

_NUMBERS = 1 << 23  # in the gradients of single examples at a time: 32 MiB of float32


class Guard(NamedTuple):
    """What protects each example of a silo, and how often its gradients may be asked for."""

    clip: float  # C
    noise: float  # sigma
    batch: int  # B, the batch size of the plan
    most: int  # noisy gradients in the whole run: what its epsilon was found for


class Unseen:
    """Examples that method code is not shown."""

    def __getattr__(self, name: str) -> NoReturn:
        _refuse()

    def __iter__(self) -> NoReturn:
        _refuse()

    def __getitem__(self, place: object) -> NoReturn:
        _refuse()


def _refuse() -> NoReturn:
    raise InputError(
        "under differential privacy a method sees a silo's examples through noisy gradients alone, this one looks at "
        "them in another way: choose another method, or leave the noise out"
    )


class _Batch(Unseen):
    """A batch that is yet to be drawn."""

    def __init__(self, size: int) -> None:
        self.size = size  # as many examples as it has on average


def unseen() -> Data:
    """The data of a turn as method code sees them under differential privacy."""
    return Data(cast(Split, Unseen()), None)


class PrivateTask(Task):
    """The task of one silo, with its examples inside."""

    def __init__(self, task: Task, train: Split, guard: Guard, numbers: SecretNumbers) -> None:
        vars(self).update(vars(task))
        self._examples = train
        self._guard = guard
        self._numbers = numbers
        self.made = 0  # noisy gradients so far

    def batches(self, turn: Turn, role: str) -> Iterator[tuple[Split, Generator | None]]:
        """As many batches as without privacy; which examples are in one is decided when its gradient is asked for."""
        each = self.steps(turn._replace(epochs=1))
        for epoch in range(1, turn.epochs + 1):
            turn.seed(role, epoch)  # which tells whether the run was interrupted
            for _ in range(each):
                yield cast(Split, _Batch(turn.solver.batch)), None

    def steps(self, turn: Turn) -> int:
        return turn.epochs * -(-len(self._examples.y) // turn.solver.batch)

    def gradient(self, model: Model, batch: Split, rng: Generator | None = None) -> tuple[Tensor, Tensor]:
        """A noisy gradient at the model, of a sample that is drawn now. Its loss is not told: it is NaN."""
        self._account(batch)
        (x, y), (clip, noise, size, _) = self._examples, self._guard
        expected = min(size, len(y))
        lots = self._numbers.uniform(len(y)) < size / len(y)
        chosen = lots.nonzero()[:, 0].to(y.device)
        space = self._workspace()
        space.load(model)
        total = space.gradient
        total.zero_()
        for part in chosen.split(max(1, _NUMBERS // self.size)):
            self._add_clipped(total, space.vectors, Split(x[part], y[part]), clip)
        noisy = total.double() + noise * clip * self._numbers.normal(len(total)).to(total.device)
        total.copy_(noisy / expected)
        return torch.full((), torch.nan, dtype=self.dtype, device=self.device), total

    def each_gradient(self, model: Model, part: Split) -> dict[str, Tensor]:
        """The gradient of every example alone, by the names of the module's parameters.  # [n, ...]"""
        space = self._workspace()
        space.load(model)
        return self._each(space.vectors, part)

    def _account(self, batch: Split) -> None:
        """Count a gradient before it is made. Refuse one that epsilon was not found for."""
        if not isinstance(batch, _Batch):
            _refuse()
        if batch.size != self._guard.batch:
            raise InputError(
                f"under differential privacy batches have the size of the plan, {self._guard.batch}, "
                f"the method asks for {batch.size}: choose another one"
            )
        if self.made >= self._guard.most:
            raise InputError(
                f"this silo's privacy is spent, after the {self._guard.most} noisy gradients that the run was planned "
                "with: nothing more can be learnt from its examples in this run"
            )
        self.made += 1

    def _add_clipped(self, total: Tensor, at: Model, part: Split, clip: float) -> None:
        """Add the examples' gradients to the total, each cut to the clip's length."""
        each = self._each(at, part)
        lengths = torch.stack([value.flatten(1).norm(dim=1) for value in each.values()]).norm(dim=0)  # [n]
        scale = clip / lengths.clamp(min=clip)
        sound = lengths.isfinite()  # of one that is not finite nothing is told
        for slot in self.layout.params:
            rows = each[slot.name]
            if not sound.all():
                rows = torch.where(sound.view(-1, *[1] * (rows.dim() - 1)), rows, 0)
            slot.view(total).add_(torch.tensordot(scale.nan_to_num(0.0), rows, 1))

    def _each(self, at: Model, part: Split) -> dict[str, Tensor]:
        module = self._workspace().module
        if not module.training:
            module.train()
        params = {slot.name: slot.view(at["params"]) for slot in self.layout.params}

        def loss_of(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Any:
            outputs = functional_call(module, params, (x[None],))
            return self.loss(outputs, y[None])

        alone = vmap(grad(loss_of), in_dims=(None, 0, 0), randomness="different")
        found: dict[str, Tensor] = alone(params, part.x, part.y)
        return found
