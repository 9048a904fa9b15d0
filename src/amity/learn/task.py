"""A learning task: an nn.Module and a loss over flat models.

Each thread owns a workspace: a copy of the module whose parameters, gradients and buffers are views into flat
vectors. `gradient` at the workspace's own vectors copies nothing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal, Self

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from amity.contract import Data, Federation, InputError, Model, Score, Split, Turn
from amity.learn.descent import descent
from amity.learn.losses import balanced, each_loss, mean_square, weighted_cross_entropy
from amity.learn.metrics import of_classes, of_quantities, usable
from amity.learn.probe import draws_numbers
from amity.learn.streams import order, stream
from amity.learn.vectors import Layout, length
from amity.learn.workspace import Keyed, Threads, Workspace
from amity.metric import Metric, main_metric

_EVALUATION_BATCH = 250  # of a CNN: larger ones leave the cache, and blocks of memory that are kept (allocator.py)


class Task:
    """What is learnt: a model family and its loss.

    `make` builds a module; its own initialisation is used, from a keyed stream. `start` gives every client these
    weights instead of a random draw. `classes` is the number of the model's outputs; 0: labels are quantities, the
    model has one output. The loss is the cross-entropy, of quantities the mean squared error, unless it is given.
    `metric` is the main score. `class_weights`: whether classes have weights in training (`losses.py`); what is
    evaluated has none.

    >>> task = amity.Task(lambda: torch.nn.Linear(2, 3), shape=(2,), classes=3)
    >>> task.size  # trainable numbers
    9
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        shape: torch.Size | tuple[int, ...],
        classes: int,
        *,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        start: Mapping[str, Tensor] | None = None,
        train_loss: bool = False,
        metric: Metric | None = None,
        class_weights: Literal["none", "balanced"] = "none",
    ) -> None:
        self.make = make
        self.train_loss = train_loss
        self.shape = tuple(shape)  # of one example
        self.classes = classes
        self.loss = loss or (F.cross_entropy if classes else mean_square)
        self.metric = metric or main_metric("auto", classes)
        self.class_weights = class_weights
        self.weights: Tensor | None = None  # of the classes in training, at one silo  # [classes]
        if class_weights != "none" and self.loss is not F.cross_entropy:
            raise InputError(
                f"class weights are part of the cross-entropy, got class_weights {class_weights} with another loss: "
                "set it to none"
            )
        self.device = torch.device(device)
        self.dtype = dtype
        self._template = self._build(0)
        self.layout = Layout.of(self._template)
        self.size = length(self.layout.params)  # d
        self.normalisers = frozenset(n for n, m in self._template.named_modules() if isinstance(m, _BatchNorm))
        self.normalises_batches = bool(self.normalisers)
        self._threads = Threads()
        if self.size == 0:
            raise InputError("a model needs at least one trainable parameter, this one has none: check requires_grad")
        blank = torch.empty(0, dtype=dtype, device=self.device)
        self.draws = draws_numbers(copy.deepcopy(self._template), self.shape, classes, blank)
        self._first: tuple[int, Model] | None = None  # the shared first model of the last seed asked for
        self._start = None
        if start is not None:
            self._start = self.import_state(start)
            self._template.load_state_dict(dict(start))  # frozen parameters are not part of a model

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_threads"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _threads=Threads())

    def at(self, train: Split) -> Self:
        """The task as a silo with these examples trains it: its classes have weights, where that is asked for."""
        if self.class_weights == "none":
            return self
        own = object.__new__(type(self))
        vars(own).update(vars(self), weights=balanced(train.y, self.classes, self.dtype))
        return own

    def initial(self, fed: Federation, client: int | None = None) -> Model:
        """The first model: one for all, or a client's own (`init = independent`)."""
        if self._start is not None:
            if client is not None:
                raise InputError(
                    "independent first models need random weights, but weights were given: "
                    "use init=shared, or leave out --init-from"
                )
            return dict(self._start)
        if client is not None:
            return self.init(stream(fed.seed, "init", int(fed.keys[client])))
        if self._first is None or self._first[0] != fed.seed:
            self._first = fed.seed, self.init(stream(fed.seed, "init"))
        return dict(self._first[1])

    def init(self, rng: Generator) -> Model:
        """A model with the module's own random initialisation."""
        return self._flat(self._build(rng.initial_seed()))

    def prepare(self, split: Split) -> Split:
        """Data in the type, place and memory order in which batches are read."""
        x = split.x.to(self.device, self.dtype if split.x.is_floating_point() else split.x.dtype)
        if x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return Split(x, split.y.to(self.device, self.dtype if split.y.is_floating_point() else split.y.dtype))

    def working(self, model: Model) -> Model:
        """This thread's own vectors, holding a copy of the model.

        `gradient` at them copies nothing and advances their buffers in place; they are overwritten by the
        thread's next call of `working`, `gradient` at another model, or `evaluate`.
        """
        return self._workspace().load(model)

    def release(self, working: Model) -> Model:
        """A copy of the working vectors that nothing overwrites."""
        self._workspace().read_counts()
        return {key: value.clone() for key, value in working.items()}

    def gradient(self, model: Model, batch: Split, rng: Generator | None = None) -> tuple[Tensor, Tensor]:
        """Mean loss on the batch and its gradient [d]; the gradient is valid until the thread's next call.

        `rng` feeds a model that draws random numbers itself (Dropout), so that threads cannot disturb each other.
        """
        space = self._workspace()
        space.load(model)
        if not space.module.training:
            space.module.train()
        space.gradient.zero_()
        with Keyed(rng) if self.draws and rng is not None else nullcontext():
            outputs = space.module(batch.x)
            if self.weights is None:
                loss = self.loss(outputs, batch.y)
            else:
                loss = weighted_cross_entropy(outputs, batch.y, self.weights)
        loss.backward()
        return loss.detach(), space.gradient

    def slope(self, model: Model, batch: Split, rng: Generator | None = None) -> Tensor:
        """The gradient alone."""
        return self.gradient(model, batch, rng)[1]

    def batches(self, turn: Turn, role: str) -> Iterator[tuple[Split, Generator | None]]:
        """See `train.batches`."""
        x, y = turn.data.train
        for epoch in range(1, turn.epochs + 1):
            places = order(turn.seed(role, epoch), len(y)).to(y.device)
            inner = turn.rng(f"{role}/model", epoch) if self.draws else None
            for chosen in places.split(turn.solver.batch):
                if len(chosen) > (1 if self.normalises_batches else 0):
                    yield Split(x[chosen], y[chosen]), inner

    def steps(self, turn: Turn) -> int:
        """How many batches the turn has."""
        least = 2 if self.normalises_batches else 1  # the smallest batch that is used
        full, rest = divmod(len(turn.data.train.y), turn.solver.batch)
        return turn.epochs * (full * (turn.solver.batch >= least) + (rest >= least))

    def descent(self, turn: Turn, params: Tensor) -> Callable[[Tensor], None]:
        """A fresh optimiser for working vectors."""
        return descent(turn, params)

    def evaluate(self, model: Model, split: Split, unit: float = 1.0) -> Score:
        """Which examples the model gets right, or its errors, its main score and its summed loss."""
        outputs, loss = self._outputs(model, split)
        units = None if self.metric.unit else [unit]  # R2 is the same in any
        return self.scores(outputs, split.y, [len(split.y)], [loss], units, metrics=False)[0]

    def example_losses(self, model: Model, split: Split) -> Tensor:
        """The loss of each example, without weights of classes.  # [n]"""
        return each_loss(self.loss, self._outputs(model, split)[0], split.y)

    def measure(self, model: Model, data: Data, test: Split, unit: float = 1.0) -> Score:
        """All that is recorded about a model: its metrics on test data too, its main score on validation data, and its
        loss on training data where that is asked for."""
        outputs, loss = self._outputs(model, test)
        score = self.scores(outputs, test.y, [len(test.y)], [loss], [unit])[0]
        if self.train_loss:
            count = len(data.train.y)  # none: all silos' examples are pooled in another one
            score = score._replace(train_loss=self._outputs(model, data.train)[1] / count if count else math.nan)
        return score if data.val is None else score._replace(val=self.evaluate(model, data.val, unit).main)

    def outcome(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Of each example: whether the model is right, or its error.  # [..., classes], [...] -> [...]

        The largest of outputs that are NaN is the first, which would make a broken model right about class 0.
        """
        return (outputs.argmax(-1) == y) & usable(outputs) if self.classes else outputs[..., 0] - y

    def scores(
        self,
        outputs: Tensor,
        y: Tensor,
        sizes: Sequence[int],
        losses: Sequence[float],
        units: Sequence[float] | None = None,
        *,
        metrics: bool = True,
    ) -> list[Score]:
        """The scores of silos whose examples lie one after the other.

        `units`: what silos count their quantities in, as `Scale` has it. `metrics`: more than the main score.
        """
        each = self.outcome(outputs, y).cpu()
        found: Sequence[Mapping[str, float]] = [{}] * len(sizes)
        named = self.metric != main_metric("auto", self.classes)
        if not self.classes:
            unit = torch.tensor(units or [1.0] * len(sizes), dtype=torch.float64).repeat_interleave(torch.tensor(sizes))
            each = each * unit
            found = of_quantities(each, y.cpu() * unit, sizes)
        elif (metrics or named) and self.classes > 1:
            found = of_classes(outputs, y, sizes)
        key = self.metric.key if named else ""
        scores = [Score(*parts, scored_by=key) for parts in zip(each.split(list(sizes)), losses, found, strict=True)]
        if self.classes and named:  # accuracy is one of the metrics where it is not the main score
            scores = [one._replace(metrics={"accuracy": one.accuracy, **one.metrics}) for one in scores]
        return scores

    def _outputs(self, model: Model, split: Split) -> tuple[Tensor, float]:
        """What the model says about each example, and its summed loss.  # [n, classes]"""
        space = self._workspace()
        space.load(model)
        space.module.eval()
        outputs, loss = [], 0.0
        with torch.no_grad():
            for x, y in zip(split.x.split(_EVALUATION_BATCH), split.y.split(_EVALUATION_BATCH), strict=True):
                outputs.append(space.module(x))
                loss += self.loss(outputs[-1], y).item() * len(y)
        return torch.cat(outputs), loss

    def module(self, model: Model) -> nn.Module:
        """A stand-alone module with these weights, in evaluation mode."""
        module = copy.deepcopy(self._template)
        module.load_state_dict(self.layout.tensors(model), strict=False)
        return module.eval()

    def export_state(self, model: Model) -> dict[str, Tensor]:
        """A `state_dict` with the module's own names, shapes and memory order."""
        module = self.module(model)
        return {name: value.detach().cpu().contiguous().clone() for name, value in module.state_dict().items()}

    def import_state(self, state: Mapping[str, Tensor]) -> Model:
        """The flat model of a `state_dict`; it must fit the module."""
        module = copy.deepcopy(self._template)
        try:
            module.load_state_dict(dict(state))
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise InputError(f"first weights must fit the model: {reason}") from None
        model = self._flat(module)
        if not all(torch.isfinite(model[key]).all() for key in ("params", "buffers")):
            raise InputError("first weights must be finite numbers, got NaN or infinity: give other weights")
        return model

    def _build(self, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            module = self.make()
        if not isinstance(module, nn.Module):
            got = type(module).__name__
            raise InputError(f"a function that builds a model must return an nn.Module, got {got}: return the model")
        return module.to(self.device, self.dtype)

    def _flat(self, module: nn.Module) -> Model:
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        model = self.layout.flatten({k: v.detach().cpu() for k, v in tensors.items()}, self.dtype)
        return {key: value.to(self.device) for key, value in model.items()}

    def _workspace(self) -> Workspace:
        if self._threads.space is None:
            self._threads.space = Workspace(copy.deepcopy(self._template), self.layout, self.dtype, self.device)
        return self._threads.space
