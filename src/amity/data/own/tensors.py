"""Arrays and torch data sets, as users have them, turned into tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from amity.contract import InputError
from amity.data.schema import labels

Array = ArrayLike | Tensor


def examples_of(dataset: Dataset[Any], name: str) -> tuple[Tensor, Tensor | labels.Written]:
    """Return all examples of a torch data set, and their labels."""
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        return dataset.tensors[0], dataset.tensors[1]
    sized = hasattr(dataset, "__len__") and not isinstance(dataset, IterableDataset)
    items = [dataset[i] for i in range(len(dataset))] if sized else list(dataset)  # type: ignore[arg-type, call-overload]
    for place, item in enumerate(items):
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise InputError(f"silo {name!r}, example {place}: must be a pair x, y, got {type(item).__name__}: wrap it")
        # As arrays they would have their channels last, or numbers of a palette; torch's DataLoader refuses them too.
        if type(item[0]).__module__.partition(".")[0] == "PIL":
            raise InputError(
                f"silo {name!r}, example {place}: must be numbers, got a PIL image: give the data set "
                "transform=torchvision.transforms.ToTensor(), or convert it"
            )
    if not items:
        return torch.empty(0, 1), torch.empty(0, dtype=torch.int64)
    examples = [to_tensor(x, name) for x, _ in items]
    for place, example in enumerate(examples):
        if example.shape != examples[0].shape:
            raise InputError(
                f"silo {name!r}, example {place}: must have the shape {tuple(examples[0].shape)} of the first, "
                f"got {tuple(example.shape)}: resize or pad it"
            )
    scalars = [y.item() if isinstance(y, Tensor) and y.numel() == 1 else y for _, y in items]
    return torch.stack(examples), to_labels([y.tolist() if isinstance(y, Tensor) else y for y in scalars], name)


def to_labels(array: Array, name: str) -> Tensor | labels.Written:
    """Return labels as a tensor of numbers, or as an array of words."""
    if isinstance(array, Tensor):
        return array
    try:
        written = np.asarray(array)
    except ValueError:
        return to_tensor(array, name)  # which raises the right error
    return written if written.size and labels.is_text(written) else to_tensor(array, name)


def to_tensor(array: Array, name: str) -> Tensor:
    """Return an array of numbers as a tensor; silo `name` is named in the error if it holds anything else."""
    if isinstance(array, Tensor):
        return array
    try:
        return torch.from_numpy(np.array(array))  # a copy: torch cannot view read-only memory
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        reason = str(error).split(". ")[0].splitlines()[0]
        raise InputError(f"silo {name!r} must hold arrays of numbers ({reason}): convert its columns") from error
